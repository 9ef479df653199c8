package contoken

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// spyStore is a MemoryRedeemStore whose clock stands at now, and which keeps what it was asked last.
type spyStore struct {
	*MemoryRedeemStore
	now     int64
	calls   int
	id      string
	expires time.Time
}

func newSpyStore(now int64) *spyStore {
	return &spyStore{MemoryRedeemStore: NewMemoryRedeemStore(100), now: now}
}

func (s *spyStore) Redeem(_ context.Context, id string, expires time.Time) (bool, error) {
	s.calls, s.id, s.expires = s.calls+1, id, expires
	return s.redeemAt(time.Unix(s.now, 0), id, expires)
}

// storeFunc is a RedeemStore that is one function.
type storeFunc func(ctx context.Context, id string, expires time.Time) (bool, error)

func (f storeFunc) Redeem(ctx context.Context, id string, expires time.Time) (bool, error) {
	return f(ctx, id, expires)
}

func mustOneTime(t testing.TB, ring *KeyRing, store RedeemStore, opts *RequestStateOptions) *OneTimeCodec {
	t.Helper()
	codec, err := NewOneTimeCodec(ring, store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// mustEncodeOnce encodes a state under testScope.
func mustEncodeOnce(t testing.TB, codec *OneTimeCodec, state string) string {
	t.Helper()
	wire, err := codec.Encode(testScope, state)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// eachOneTimeMode runs test with a codec of each mode and its store.
func eachOneTimeMode(t *testing.T, test func(t *testing.T, codec *OneTimeCodec, store *spyStore)) {
	for mode := ModeSigned; mode.valid(); mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			skipWithoutXChaCha(t, mode)
			store := newSpyStore(testTime)
			test(t, mustOneTime(t, testRing(t, 1), store, &RequestStateOptions{Mode: mode, Now: at(testTime)}), store)
		})
	}
}

func TestOneTimeVectors(t *testing.T) {
	for _, v := range readVectors[oneTimeVector](t, "onetime.json") {
		t.Run(v.Name, func(t *testing.T) {
			skipWithoutXChaCha(t, vectorMode(t, v.Mode))
			if strings.HasPrefix(v.Wire, "v1x.") {
				skipWithoutXChaCha(t, ModeEncryptedX)
			}
			store := newSpyStore(v.Now)
			codec, scope := v.codec(t, store), v.Scope.scope(t)
			state, err := codec.Redeem(t.Context(), scope, v.Wire)
			if v.Error != "" {
				checkRefused(t, err, v.Error)
				if state != "" || store.calls > 0 {
					t.Errorf("state %q and %d calls of the store beside an error", state, store.calls)
				}
				return
			}
			if err != nil || state != v.State {
				t.Fatalf("state %q, error %v; want %q", state, err, v.State)
			}
			if store.id != v.ID || store.expires != time.Unix(v.RecordUntil, 0).UTC() {
				t.Errorf("recorded %q until %v, want %q until %d", store.id, store.expires, v.ID, v.RecordUntil)
			}
			if state, err := codec.Redeem(t.Context(), scope, v.Wire); !errors.Is(err, ErrRedeemed) || state != "" {
				t.Errorf("a second time: state %q, error %v; want ErrRedeemed", state, err)
			}
			if !v.Encode {
				return
			}
			if wire, err := codec.seal(&scope, v.State, []byte(v.ID)); err != nil || wire != v.Wire {
				t.Errorf("encoded %s, error %v\nwant    %s", wire, err, v.Wire)
			}
		})
	}
}

// Two servers on one store race for one token with many goroutines each.
func TestOneOfManyRedeems(t *testing.T) {
	for mode := ModeSigned; mode.valid(); mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			skipWithoutXChaCha(t, mode)
			store, ring := NewMemoryRedeemStore(10), testRing(t, 1)
			opts := &RequestStateOptions{Mode: mode}
			servers := []*OneTimeCodec{mustOneTime(t, ring, store, opts), mustOneTime(t, ring, store, opts)}
			wire := mustEncodeOnce(t, servers[0], "state")
			var redeemed, refused atomic.Int64
			var racers sync.WaitGroup
			for i := range 64 {
				racers.Go(func() {
					switch state, err := servers[i%2].Redeem(t.Context(), testScope, wire); {
					case err == nil && state == "state":
						redeemed.Add(1)
					case errors.Is(err, ErrRedeemed) && state == "":
						refused.Add(1)
					default:
						t.Errorf("state %q, error %v", state, err)
					}
				})
			}
			racers.Wait()
			if redeemed.Load() != 1 || refused.Load() != 63 {
				t.Errorf("%d redeemed and %d were refused, want 1 and 63", redeemed.Load(), refused.Load())
			}
		})
	}
}

func TestEveryTokenHasItsOwnID(t *testing.T) {
	eachOneTimeMode(t, func(t *testing.T, codec *OneTimeCodec, store *spyStore) {
		seen := map[string]bool{}
		for range 20 {
			state, err := codec.Redeem(t.Context(), testScope, mustEncodeOnce(t, codec, "state"))
			if err != nil || state != "state" {
				t.Errorf("state %q, error %v", state, err)
			}
			if random, err := base64.RawURLEncoding.DecodeString(store.id); err != nil || len(random) != 16 || seen[store.id] {
				t.Errorf("id %q, which is no 16 random bytes", store.id)
			}
			seen[store.id] = true
		}
	})
}

// What must be refused is refused before the store is asked, and leaves a genuine token good.
func TestRefusalsCostTheStoreNothing(t *testing.T) {
	eachOneTimeMode(t, func(t *testing.T, codec *OneTimeCodec, store *spyStore) {
		wire := mustEncodeOnce(t, codec, "s")
		refuse := func(what string, codec *OneTimeCodec, scope Scope, wire string, wants ...error) {
			t.Helper()
			state, err := codec.Redeem(t.Context(), scope, wire)
			for _, want := range wants {
				if errors.Is(err, want) && state == "" {
					return
				}
			}
			t.Errorf("%s: state %q, error %v; want one of %v", what, state, err, wants)
		}
		edits(wire, func(edited string) { refuse(edited, codec, testScope, edited, ErrMalformed, ErrSignature) })
		bound := []error{ErrScope}
		if codec.mode != ModeSigned {
			bound = []error{ErrSignature} // the scope is in the associated data
		}
		refuse("another subject", codec, Scope{testScope.Tool, "bob", testScope.Args}, wire, bound...)
		refuse("another tool", codec, Scope{"fs.read", testScope.Subject, testScope.Args}, wire, bound...)
		refuse("other arguments", codec, Scope{testScope.Tool, testScope.Subject, Fingerprint{9}}, wire, bound...)
		refuse("a bad scope", codec, Scope{Subject: "a\x00b"}, wire, ErrInput)

		other := func(ring *KeyRing, opts RequestStateOptions) *OneTimeCodec {
			if opts.Now == nil {
				opts.Now = at(testTime)
			}
			return mustOneTime(t, ring, store, &opts)
		}
		ring := codec.keys.ring
		refuse("another key", other(testRing(t, 2), RequestStateOptions{}), testScope, wire, ErrSignature)
		refuse("another audience", other(ring, RequestStateOptions{Audience: "b"}), testScope, wire, ErrSignature)
		refuse("over MaxBytes", other(ring, RequestStateOptions{MaxBytes: len(wire) - 1}), testScope, wire, ErrMalformed)
		refuse("no subject", other(ring, RequestStateOptions{RequireSubject: true}), Scope{Tool: "t"}, wire, ErrInput)
		refuse("too late", other(ring, RequestStateOptions{Now: at(testTime + 600)}), testScope, wire, ErrExpired)
		refuse("before 1970", other(ring, RequestStateOptions{Now: at(-1)}), testScope, wire, ErrInput)

		if store.calls != 0 {
			t.Errorf("the store was asked %d times", store.calls)
		}
		if state, err := codec.Redeem(t.Context(), testScope, wire); err != nil || state != "s" {
			t.Errorf("the genuine token: state %q, error %v", state, err)
		}
	})
}

func TestOneTimeEncodeRefusesWhatEncodeDoes(t *testing.T) {
	codec := mustOneTime(t, testRing(t, 1), newSpyStore(testTime), &RequestStateOptions{Now: at(testTime), MaxBytes: 300})
	for name, call := range map[string]struct {
		scope Scope
		state string
		want  error
	}{
		"bad scope":     {Scope{Tool: "\xff"}, "state", ErrInput},
		"not UTF-8":     {testScope, "\xff", ErrInput},
		"over MaxBytes": {testScope, strings.Repeat("x", 200), ErrTooLarge},
	} {
		if wire, err := codec.Encode(call.scope, call.state); !errors.Is(err, call.want) || wire != "" {
			t.Errorf("%s: wire %q, error %v; want %v", name, wire, err, call.want)
		}
	}
}

func TestNeitherCodecOpensTokensOfTheOther(t *testing.T) {
	eachOneTimeMode(t, func(t *testing.T, once *OneTimeCodec, store *spyStore) {
		states := mustCodec(t, once.keys.ring, &RequestStateOptions{Mode: once.mode, Now: at(testTime)})
		state, err := states.Decode(testScope, mustEncodeOnce(t, once, "state"))
		if !errors.Is(err, ErrSignature) || state != "" {
			t.Errorf("a one-time token decodes: state %q, error %v", state, err)
		}
		_, err = once.Redeem(t.Context(), testScope, mustEncode(t, states, "state"))
		if !errors.Is(err, ErrSignature) || store.calls > 0 {
			t.Errorf("a request state is redeemed: error %v", err)
		}
		id := newTokenID()
		withID, err := states.seal(&testScope, "state", id[:])
		if err != nil {
			t.Fatal(err)
		}
		if state, err := states.Decode(testScope, withID); !errors.Is(err, ErrMalformed) || state != "" {
			t.Errorf("a request state with an id: state %q, error %v; want ErrMalformed", state, err)
		}
	})
}

func TestStoreFailureIsNoVerdictOnTheToken(t *testing.T) {
	errDown := errors.New("the server is down")
	for _, failure := range []error{errDown, context.DeadlineExceeded, fmt.Errorf("dial: %w", context.Canceled)} {
		for _, first := range []bool{false, true} {
			store := storeFunc(func(context.Context, string, time.Time) (bool, error) { return first, failure })
			codec := mustOneTime(t, testRing(t, 1), store, nil)
			state, err := codec.Redeem(t.Context(), testScope, mustEncodeOnce(t, codec, "state"))
			if !errors.Is(err, failure) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrExpired) || ATDCode(err) != 0 {
				t.Errorf("error %v, want one that is only %v", err, failure)
			}
			if state != "" || !strings.HasPrefix(err.Error(), "contoken: ") {
				t.Errorf("state %q, error %v", state, err)
			}
		}
	}
}

func TestRedeemPassesItsContext(t *testing.T) {
	type key struct{}
	store := storeFunc(func(ctx context.Context, _ string, _ time.Time) (bool, error) {
		return ctx.Value(key{}) == "value", nil
	})
	codec := mustOneTime(t, testRing(t, 1), store, nil)
	ctx := context.WithValue(t.Context(), key{}, "value")
	if _, err := codec.Redeem(ctx, testScope, mustEncodeOnce(t, codec, "state")); err != nil {
		t.Errorf("the store got another context: %v", err)
	}
}

// A store may forget an id as soon as it has expired: its answer to a call that waited until then means nothing.
func TestTokenThatExpiresWhileTheStoreIsAskedIsRefused(t *testing.T) {
	for waited, want := range map[int64]error{0: nil, 599: nil, 600: ErrExpired, 700: ErrExpired} {
		now := int64(testTime)
		store := storeFunc(func(context.Context, string, time.Time) (bool, error) {
			now = testTime + waited
			return true, nil
		})
		clock := func() time.Time { return time.Unix(now, 0) }
		codec := mustOneTime(t, testRing(t, 1), store, &RequestStateOptions{Now: clock})
		state, err := codec.Redeem(t.Context(), testScope, mustEncodeOnce(t, codec, "state"))
		if !errors.Is(err, want) || (state == "") != (want != nil) {
			t.Errorf("after %d s: state %q, error %v; want %v", waited, state, err, want)
		}
	}
}

// The server whose clock is 60 s behind takes the token last, when the store's clock is almost at its time to forget.
func TestIDOutlivesItsTokenOnEveryClock(t *testing.T) {
	store, ring := newSpyStore(testTime), testRing(t, 1)
	punctual := mustOneTime(t, ring, store, &RequestStateOptions{Now: at(testTime)})
	wire := mustEncodeOnce(t, punctual, "state")
	if _, err := punctual.Redeem(t.Context(), testScope, wire); err != nil {
		t.Fatal(err)
	}
	store.now = testTime + 659
	behind := mustOneTime(t, ring, store, &RequestStateOptions{Now: at(testTime + 599)})
	if _, err := behind.Redeem(t.Context(), testScope, wire); !errors.Is(err, ErrRedeemed) {
		t.Errorf("error %v, want ErrRedeemed", err)
	}
}

func TestRotationDoesNotRenewAToken(t *testing.T) {
	store, ring := newSpyStore(testTime), testRing(t, 1)
	codec := mustOneTime(t, ring, store, &RequestStateOptions{Now: at(testTime)})
	spent, fresh := mustEncodeOnce(t, codec, "spent"), mustEncodeOnce(t, codec, "fresh")
	if _, err := codec.Redeem(t.Context(), testScope, spent); err != nil {
		t.Fatal(err)
	}
	if err := ring.Replace(testKey(t, 2), testKey(t, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := codec.Redeem(t.Context(), testScope, spent); !errors.Is(err, ErrRedeemed) {
		t.Errorf("redeemed before the rotation: error %v, want ErrRedeemed", err)
	}
	if state, err := codec.Redeem(t.Context(), testScope, fresh); err != nil || state != "fresh" {
		t.Errorf("state %q, error %v", state, err)
	}
}

func TestNewOneTimeCodecRefusesWhatItCannotUse(t *testing.T) {
	good := NewMemoryRedeemStore(1)
	for name, call := range map[string]struct {
		ring  *KeyRing
		store RedeemStore
		opts  RequestStateOptions
		want  error
	}{
		"no store":            {testRing(t, 1), nil, RequestStateOptions{}, ErrInput},
		"a nil memory store":  {testRing(t, 1), (*MemoryRedeemStore)(nil), RequestStateOptions{}, ErrInput},
		"a zero memory store": {testRing(t, 1), new(MemoryRedeemStore), RequestStateOptions{}, ErrInput},
		"capacity 0":          {testRing(t, 1), NewMemoryRedeemStore(0), RequestStateOptions{}, ErrInput},
		"negative capacity":   {testRing(t, 1), NewMemoryRedeemStore(-1), RequestStateOptions{}, ErrInput},
		"no ring":             {nil, good, RequestStateOptions{}, ErrKey},
		"a zero ring":         {new(KeyRing), good, RequestStateOptions{}, ErrKey},
		"negative TTL":        {testRing(t, 1), good, RequestStateOptions{TTL: -time.Second}, ErrInput},
		"audience with NUL":   {testRing(t, 1), good, RequestStateOptions{Audience: "\x00"}, ErrInput},
		"unknown mode":        {testRing(t, 1), good, RequestStateOptions{Mode: 3}, ErrInput},
		"negative MaxBytes":   {testRing(t, 1), good, RequestStateOptions{MaxBytes: -1}, ErrInput},
	} {
		if codec, err := NewOneTimeCodec(call.ring, call.store, &call.opts); !errors.Is(err, call.want) || codec != nil {
			t.Errorf("%s: error %v, want %v", name, err, call.want)
		}
	}
	if codec, err := NewOneTimeCodec(testRing(t, 1), good, nil); err != nil || codec == nil {
		t.Errorf("error %v", err)
	}
}

func TestOneTimeCodecPrintsNoSecret(t *testing.T) {
	key := testKey(t, testSecret[0])
	ring, err := NewKeyRing(key)
	if err != nil {
		t.Fatal(err)
	}
	store := &struct {
		RedeemStore
		password string
	}{NewMemoryRedeemStore(1), canary}
	codec := mustOneTime(t, ring, store, nil)
	mustEncodeOnce(t, codec, "state") // so that derived keys are in place
	secrets := [][]byte{testSecret, []byte(canary)}
	for _, use := range []string{"mac", "bind", "aes-256-gcm", "xchacha20-poly1305"} {
		secrets = append(secrets, key.subKey("contoken/v1 one-time "+use, ""))
	}
	for _, value := range []any{codec, *codec, []any{codec}, struct{ hidden *OneTimeCodec }{codec}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q", "%t", "%z"} {
			checkNoSecret(t, fmt.Sprintf("%T under %s", value, format), fmt.Sprintf(format, value), secrets)
		}
	}
}
