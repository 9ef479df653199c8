package contoken

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// redeemAt calls a memory store at a number of seconds. What is not first is ErrRedeemed.
func redeemAt(t *testing.T, store *MemoryRedeemStore, now int64, id string, expires int64) error {
	t.Helper()
	first, err := store.redeemAt(time.Unix(now, 0), id, time.Unix(expires, 0))
	if len(store.recorded) != len(store.byExpiry) || len(store.recorded) > max(store.capacity, 0) {
		t.Fatalf("%d ids and %d times recorded, capacity %d", len(store.recorded), len(store.byExpiry), store.capacity)
	}
	switch {
	case err != nil && first:
		t.Errorf("%q is first, with error %v", id, err)
	case err == nil && !first:
		return ErrRedeemed
	}
	return err
}

func TestMemoryStoreForgetsNoIDEarly(t *testing.T) {
	store := NewMemoryRedeemStore(3)
	for i, call := range []struct {
		now     int64
		id      string
		expires int64
		want    error
	}{
		{100, "c", 130, nil},
		{100, "a", 110, nil},
		{100, "b", 120, nil},
		{100, "d", 105, errStoreFull},
		{100, "a", 110, ErrRedeemed},
		{109, "d", 200, errStoreFull},
		{109, "a", 300, ErrRedeemed}, // and still expires at 110
		{110, "d", 200, nil},         // in place of a
		{110, "e", 200, errStoreFull},
		{119, "b", 120, ErrRedeemed},
		{120, "b", 120, errRedeemedLate}, // forgotten, and of no use any more
		{120, "e", 120, errRedeemedLate},
		{120, "e", 121, nil},
		{129, "c", 130, ErrRedeemed},
		{199, "d", 200, ErrRedeemed},
	} {
		if err := redeemAt(t, store, call.now, call.id, call.expires); !errors.Is(err, call.want) {
			t.Errorf("call %d: %q at %d: error %v, want %v", i, call.id, call.now, err, call.want)
		}
	}
	half := time.Unix(300, 500_000_000)
	for now, want := range map[time.Time]bool{half.Add(-1): false, half: true} {
		store := NewMemoryRedeemStore(1)
		if _, err := store.redeemAt(time.Unix(0, 0), "a", half); err != nil {
			t.Fatal(err)
		}
		if first, err := store.redeemAt(now, "b", half.Add(time.Hour)); first != want {
			t.Errorf("at %v: first %v, error %v; want %v", now, first, err, want)
		}
	}
}

// A full store whose ids have all expired takes as many again at once, though each call forgets but a few.
func TestMemoryStoreKeepsUpWithExpiry(t *testing.T) {
	const capacity = 100
	store := NewMemoryRedeemStore(capacity)
	for round := range int64(3) {
		for i := range int64(capacity) {
			expires := 1000*(round+1) + (i*37)%capacity // in no order
			if err := redeemAt(t, store, 1000*round+capacity, fmt.Sprint(round, i), expires); err != nil {
				t.Fatalf("round %d, id %d: %v", round, i, err)
			}
		}
	}
	for i := range int64(capacity) { // what is left is the last round
		if err := redeemAt(t, store, 2100, fmt.Sprint(2, i), 3000+(i*37)%capacity); !errors.Is(err, ErrRedeemed) {
			t.Errorf("id %d of the last round: error %v, want ErrRedeemed", i, err)
		}
	}
}

func TestMemoryStoreRecordsNothingForAContextThatIsDone(t *testing.T) {
	codec := mustOneTime(t, testRing(t, 1), NewMemoryRedeemStore(1), nil)
	wire := mustEncodeOnce(t, codec, "state")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if state, err := codec.Redeem(ctx, testScope, wire); !errors.Is(err, context.Canceled) || state != "" {
		t.Errorf("state %q, error %v; want context.Canceled", state, err)
	}
	if state, err := codec.Redeem(t.Context(), testScope, wire); err != nil || state != "state" {
		t.Errorf("afterwards: state %q, error %v", state, err)
	}
}

func TestFullMemoryStoreIsAnErrorOfItsOwn(t *testing.T) {
	codec := mustOneTime(t, testRing(t, 1), NewMemoryRedeemStore(1), nil)
	first, second := mustEncodeOnce(t, codec, "1"), mustEncodeOnce(t, codec, "2")
	if _, err := codec.Redeem(t.Context(), testScope, first); err != nil {
		t.Fatal(err)
	}
	state, err := codec.Redeem(t.Context(), testScope, second)
	if !errors.Is(err, errStoreFull) || errors.Is(err, ErrInvalid) || state != "" {
		t.Errorf("state %q, error %v; want that the store is full", state, err)
	}
	var zero MemoryRedeemStore
	if ok, err := zero.Redeem(t.Context(), "id", time.Now().Add(time.Hour)); ok || !errors.Is(err, errStoreFull) {
		t.Errorf("the zero store: first %v, error %v; want that it is full", ok, err)
	}
}
