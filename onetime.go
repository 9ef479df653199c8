package contoken

import (
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// RedeemStore remembers which one-time tokens have been redeemed. All servers that take a token must share one store.
// Services and audiences may share it too, since ids are random and do not collide. Package redeemtest checks stores.
type RedeemStore interface {
	// Redeem records id until expires and reports whether it had not been recorded before. Of all calls with one id
	// that come before expires, whatever process they come from, at most one may report true. The store may forget an
	// id when its clock is at expires, and no earlier; that is late enough for servers whose clocks differ from its
	// own by up to 60 seconds.
	//
	// An id is 22 characters of base64url, of which the case matters. A store that does not know, because it failed,
	// is full or ctx is done, returns an error; the id may then be recorded or not. The error should quote no secret,
	// such as the password of a connection, and should be none of this package's, which tell of the token.
	//
	// Redeem is called by many goroutines at once.
	Redeem(ctx context.Context, id string, expires time.Time) (first bool, err error)
}

// OneTimeCodec does what a [RequestStateCodec] does, but its tokens can be redeemed once, for states that stand for an
// action such as a payment. Neither opens the tokens of the other. A OneTimeCodec is safe for concurrent use, and every
// one with the same key, audience and store redeems the tokens of every other.
type OneTimeCodec struct {
	sealer
	// The method rather than the store, which fmt and its kin would look into for what may be secret.
	redeem func(ctx context.Context, id string, expires time.Time) (first bool, err error)
}

// NewOneTimeCodec returns a codec on keys that records redeemed tokens in store; nil opts means the zero
// RequestStateOptions. A nil store, and a [MemoryRedeemStore] without capacity, are ErrInput. The other errors are
// those of [NewRequestStateCodec].
func NewOneTimeCodec(keys *KeyRing, store RedeemStore, opts *RequestStateOptions) (*OneTimeCodec, error) {
	if memory, ok := store.(*MemoryRedeemStore); store == nil || ok && !memory.hasCapacity() {
		return nil, fmt.Errorf("%w: a redeem store that is nil or holds nothing", ErrInput)
	}
	sealer, err := newSealer(oneTime, keys, opts)
	if err != nil {
		return nil, err
	}
	return &OneTimeCodec{sealer, store.Redeem}, nil
}

// Encode returns a wire string that carries state to whoever comes under scope first within the TTL. Every call makes
// another token, for the same state too. The errors are those of [RequestStateCodec.Encode]. The store is not asked.
func (c *OneTimeCodec) Encode(scope Scope, state string) (string, error) {
	id := newTokenID()
	return c.seal(&scope, state, id[:])
}

// Redeem returns the state that wire carries if [RequestStateCodec.Decode] would, and if no call before has redeemed
// it. Otherwise the state is empty. An error that Decode would return comes before the store is asked, and does not
// use the token up. A token that was redeemed before is ErrRedeemed.
//
// Where the store fails or ctx ends first, the error wraps the store's own, so that errors.Is finds
// context.DeadlineExceeded in it, and Is neither ErrInvalid nor ErrExpired. The token may then be used up or not:
// another call either redeems it or says that it was redeemed. A token is used up as soon as Redeem succeeds, whatever
// becomes of the action, which thus happens at most once.
func (c *OneTimeCodec) Redeem(ctx context.Context, scope Scope, wire string) (string, error) {
	opened, err := c.open(&scope, wire)
	if err != nil {
		return "", err
	}
	// Another server, whose clock is behind, takes the token for longer than we do.
	first, err := c.redeem(ctx, opened.id, time.Unix(opened.expires+maxClockSkew, 0).UTC())
	switch {
	case err != nil:
		return "", fmt.Errorf("contoken: cannot redeem a one-time token: %w", err)
	case !first:
		return "", ErrRedeemed
	case c.now().Unix() >= opened.expires:
		return "", ErrExpired // while the store was asked, so that it may have forgotten the id before
	}
	return opened.state, nil
}

// newTokenID returns 16 random bytes in base64url.
func newTokenID() (id [idLength]byte) {
	var random [idBytes]byte
	rand.Read(random[:]) // never fails: it crashes the program instead
	base64URL.Encode(id[:], random[:])
	return id
}

// MemoryRedeemStore is a [RedeemStore] for a server of one process: it forgets everything when that ends, so that the
// tokens of a key that outlives it could be redeemed again. Use it with an [EphemeralKeyRing], or where that is
// acceptable. It is safe for concurrent use, goes by the clock of the system, and its zero value holds nothing.
type MemoryRedeemStore struct {
	capacity int
	mu       sync.Mutex
	recorded map[string]struct{}
	byExpiry redemptionHeap // of what is recorded
}

// NewMemoryRedeemStore returns a store that holds up to capacity ids, of some 150 bytes each. It needs room for all
// tokens that are redeemed within the TTL and 60 seconds. With a capacity under 1 it holds nothing, which
// [NewOneTimeCodec] refuses.
func NewMemoryRedeemStore(capacity int) *MemoryRedeemStore {
	return &MemoryRedeemStore{capacity: capacity, recorded: make(map[string]struct{})}
}

func (s *MemoryRedeemStore) hasCapacity() bool { return s != nil && s.capacity > 0 }

// Errors of a MemoryRedeemStore, beside those of a context.
var (
	errStoreFull    = errors.New("contoken: the redeem store is full of ids that have not expired")
	errRedeemedLate = errors.New("contoken: the id expired before it could be recorded")
)

// Redeem implements [RedeemStore]. It is an error if ctx is done, if the store is full of ids that have not expired,
// of which it never forgets one early, or if expires has passed; the id is then not recorded.
func (s *MemoryRedeemStore) Redeem(ctx context.Context, id string, expires time.Time) (first bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redeemAt(time.Now(), id, expires)
}

func (s *MemoryRedeemStore) redeemAt(now time.Time, id string, expires time.Time) (first bool, err error) {
	s.forgetExpired(now)
	if _, ok := s.recorded[id]; ok {
		return false, nil
	}
	if !now.Before(expires) {
		return false, errRedeemedLate
	}
	if len(s.recorded) >= s.capacity {
		return false, errStoreFull
	}
	s.recorded[id] = struct{}{}
	heap.Push(&s.byExpiry, redemption{id, expires})
	return true, nil
}

// forgetExpired forgets up to two ids: as every call records at most one, that is enough to keep up, and no call has
// to forget many.
func (s *MemoryRedeemStore) forgetExpired(now time.Time) {
	for range 2 {
		if len(s.byExpiry) == 0 || now.Before(s.byExpiry[0].expires) {
			return
		}
		expired := heap.Pop(&s.byExpiry).(redemption)
		delete(s.recorded, expired.id)
	}
}

type redemption struct {
	id      string
	expires time.Time
}

// redemptionHeap implements [heap.Interface]: the first to expire is on top.
type redemptionHeap []redemption

func (h redemptionHeap) Len() int           { return len(h) }
func (h redemptionHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h redemptionHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *redemptionHeap) Push(x any)        { *h = append(*h, x.(redemption)) }

func (h *redemptionHeap) Pop() any {
	last := len(*h) - 1
	popped := (*h)[last]
	(*h)[last] = redemption{} // lets go of its id
	*h = (*h)[:last]
	return popped
}
