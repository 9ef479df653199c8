package contoken

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// instance is one server of a fleet.
type instance struct {
	ring   *KeyRing
	issuer *CursorIssuer
	codec  *RequestStateCodec
}

func newInstance(t *testing.T, key Key) *instance {
	t.Helper()
	ring, err := NewKeyRing(key)
	if err != nil {
		t.Fatal(err)
	}
	mode := &RequestStateOptions{Mode: ModeEncrypted}
	return &instance{ring, mustIssuer(t, ring, nil), mustCodec(t, ring, mode)}
}

// Two instances serve eight clients that hop between them on every call, each with tokens of the round before, while
// the keys of one instance after the other are replaced through the three steps of a rotation.
func TestRotationRefusesNoToken(t *testing.T) {
	old, next := testKey(t, 1), testKey(t, 2)
	fleet := []*instance{newInstance(t, old), newInstance(t, old)}
	var rounds [8]atomic.Int64
	var stop atomic.Bool
	var clients sync.WaitGroup
	for c := range rounds {
		clients.Go(func() {
			for round := 0; !stop.Load(); round++ {
				if err := playRound(fleet[(c+round)%2], fleet[(c+round+1)%2]); err != nil {
					t.Errorf("client %d, round %d: %v", c, round, err)
					return
				}
				rounds[c].Add(1)
				runtime.Gosched()
			}
		})
	}
	// outlive waits until every token that is out now has been used: rollouts wait for a TTL.
	outlive := func() {
		for c := range rounds {
			for target := rounds[c].Load() + 2; rounds[c].Load() < target && !t.Failed(); {
				runtime.Gosched()
			}
		}
	}
	for _, step := range [][]Key{{old, next}, {next, old}, {next}} {
		outlive()
		for _, server := range fleet {
			if err := server.ring.Replace(step...); err != nil {
				t.Error(err)
			}
			outlive()
		}
	}
	stop.Store(true)
	clients.Wait()

	retired := mustIssue(t, mustIssuer(t, testRing(t, 1), nil))
	if _, err := fleet[0].issuer.Verify(testScope, retired); err == nil {
		t.Error("the retired key still verifies")
	}
}

// playRound mints a cursor and a state on one instance and takes it to the other.
func playRound(mint, redeem *instance) error {
	cursor, err := mint.issuer.Issue(testScope, 2, []byte("position"))
	if err != nil {
		return err
	}
	wire, err := mint.codec.Encode(testScope, "state")
	if err != nil {
		return err
	}
	if _, err := redeem.issuer.Verify(testScope, cursor); err != nil {
		return err
	}
	_, err = redeem.codec.Decode(testScope, wire)
	return err
}

func TestFirstKeySigns(t *testing.T) {
	ring := testRing(t, 1)
	issuer := mustIssuer(t, ring, nil)
	codec := mustCodec(t, ring, nil)
	for step, keys := range [][]byte{{1, 2}, {2, 1}, {2}} {
		var replaced []Key
		for _, seed := range keys {
			replaced = append(replaced, testKey(t, seed))
		}
		if err := ring.Replace(replaced...); err != nil {
			t.Fatal(err)
		}
		first := testRing(t, keys[0])
		if _, err := mustIssuer(t, first, nil).Verify(testScope, mustIssue(t, issuer)); err != nil {
			t.Errorf("step %d: the cursor is not of the first key: %v", step+1, err)
		}
		if _, err := mustCodec(t, first, nil).Decode(testScope, mustEncode(t, codec, "state")); err != nil {
			t.Errorf("step %d: the state is not of the first key: %v", step+1, err)
		}
	}
}
