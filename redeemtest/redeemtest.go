// Package redeemtest checks that an implementation of [contoken.RedeemStore] can be trusted with one-time tokens: of
// all calls with one id, whichever instances make them, at most one reports first.
//
// [Run] is for a store that stands alone, such as one in memory. [RunShared] is for stores that share a backend, and
// [RunCrash] for a backend that is a process of its own. They hold a store to these rules:
//
//   - An error tells nothing of the id, which may be recorded or not, and comes with first false. Later calls may
//     report first or not, but still at most once in all.
//   - A context that is done before the call is an error that Is the context's own. One that ends during the call
//     gives an answer or an error.
//   - The expiry that an id was recorded with stands, whatever later calls say.
//   - An id whose expiry has passed is answered or is an error, but is never first twice: a token that was verified
//     in its last moment reaches the store after it.
//   - Ids are compared byte by byte. They are ASCII.
package redeemtest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contoken/contoken"
)

const (
	racers    = 64
	manyIDs   = 1000
	instances = 3
	// longAfter is further away than any test runs.
	longAfter = time.Hour
	// timeout ends a check whose store hangs.
	timeout = time.Minute
)

// Run checks the stores that open returns, a new one for each subtest. A store may be empty or share its backend with
// earlier ones. A bounded store needs room for 2,000 ids. Store, server and test need clocks that agree.
func Run(t *testing.T, open func(t *testing.T) contoken.RedeemStore) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			if err := c.check(ctx, open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// RunShared is Run for stores that share a backend. Each subtest opens three of them, as three instances of a server
// would, and has them take turns: what one has recorded, the others must know.
func RunShared(t *testing.T, open func(t *testing.T) contoken.RedeemStore) {
	t.Helper()
	Run(t, func(t *testing.T) contoken.RedeemStore {
		shared := new(fleet)
		for range instances {
			shared.stores = append(shared.stores, open(t))
		}
		return shared
	})
}

// fleet passes each call to the next of its stores.
type fleet struct {
	stores []contoken.RedeemStore
	calls  atomic.Uint64
}

func (f *fleet) Redeem(ctx context.Context, id string, expires time.Time) (bool, error) {
	turn := f.calls.Add(1) % uint64(len(f.stores))
	return f.stores[turn].Redeem(ctx, id, expires)
}

// checks return what a store did wrong. They are no tests themselves, so that broken stores can test them.
var checks = []struct {
	name  string
	check func(context.Context, contoken.RedeemStore) error
}{
	{"OneOfManyRacersIsFirst", checkRace},
	{"DifferentIDsAreEachFirst", checkDifferentIDs},
	{"SimilarIDsAreEachFirst", checkSimilarIDs},
	{"IDIsKeptUntilItExpires", checkKept},
	{"IDIsKeptForTheLongestTTL", checkLongTTL},
	{"RecordedExpiryStands", checkExpiryStands},
	{"ExpiredIDIsNotFirstTwice", checkExpired},
	{"ContextDoneBeforeTheCall", checkDoneContext},
	{"ContextCancelledDuringTheRace", checkCancelledRace},
}

func checkRace(ctx context.Context, store contoken.RedeemStore) error {
	token := newToken(store, time.Now().Add(longAfter))
	if err := race(func() error { return token.redeem(ctx) }); err != nil {
		return err
	}
	return token.wantFirsts(1)
}

func checkDifferentIDs(ctx context.Context, store contoken.RedeemStore) error {
	tokens := make([]*token, manyIDs)
	for i := range tokens {
		tokens[i] = newToken(store, time.Now().Add(longAfter))
	}
	for range 2 {
		for _, token := range tokens {
			if err := token.redeem(ctx); err != nil {
				return err
			}
			if err := token.wantFirsts(1); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkSimilarIDs(ctx context.Context, store contoken.RedeemStore) error {
	base := newID() + "Aa_"
	shorter := base[:len(base)-1]
	for _, id := range []string{
		base, strings.ToUpper(base), strings.ToLower(base), shorter, shorter + "-", base + "_", base + " ",
	} {
		token := &token{store: store, id: id, expires: time.Now().Add(longAfter)}
		if err := token.redeem(ctx); err != nil {
			return err
		}
		if err := token.wantFirsts(1); err != nil {
			return fmt.Errorf("of ids that differ in one character, case or trailing space: %w", err)
		}
	}
	return nil
}

// checkKept asks all the time until an expiry that is no whole second, which catches a store that rounds it down.
func checkKept(ctx context.Context, store contoken.RedeemStore) error {
	token := newToken(store, time.Now().Add(900*time.Millisecond))
	for {
		err := token.redeem(ctx)
		if !time.Now().Before(token.expires) {
			return nil // this answer may tell of the time after
		}
		if err != nil {
			return err
		}
		if err := token.wantFirsts(1); err != nil {
			return err
		}
	}
}

func checkLongTTL(ctx context.Context, store contoken.RedeemStore) error {
	token := newToken(store, time.Now().Add(math.MaxInt64))
	if err := errors.Join(token.redeem(ctx), token.redeem(ctx)); err != nil {
		return err
	}
	return token.wantFirsts(1)
}

func checkExpiryStands(ctx context.Context, store contoken.RedeemStore) error {
	token := newToken(store, time.Now().Add(longAfter))
	if err := token.redeem(ctx); err != nil {
		return err
	}
	late := token.expiring(time.Now().Add(-longAfter))
	_ = late.redeem(ctx) // an error is an answer to an expired id
	if err := token.redeem(ctx); err != nil {
		return err
	}
	if firsts := token.firsts.Load() + late.firsts.Load(); firsts != 1 {
		return fmt.Errorf("%d calls were first, one of them with an earlier expiry, want 1", firsts)
	}
	return nil
}

func checkExpired(ctx context.Context, store contoken.RedeemStore) error {
	for _, ago := range []time.Duration{time.Millisecond, time.Second, longAfter} {
		token := newToken(store, time.Now().Add(-ago))
		for range racers {
			_ = token.redeem(ctx) // an error is an answer to an expired id
		}
		if firsts := token.firsts.Load(); firsts > 1 {
			return fmt.Errorf("%d calls were first for an id that expired %v ago, want at most 1", firsts, ago)
		}
	}
	return nil
}

func checkDoneContext(ctx context.Context, store contoken.RedeemStore) error {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	late, cancelLate := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancelLate()

	for _, done := range []context.Context{cancelled, late} {
		token := newToken(store, time.Now().Add(longAfter))
		if err := token.redeem(done); !errors.Is(err, done.Err()) || errors.Is(err, errFirst) {
			return fmt.Errorf("error %v for a context that is done, want %w", err, done.Err())
		}
		if err := token.wantSettled(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkCancelledRace cancels the context of all racers once one of them has its answer.
func checkCancelledRace(ctx context.Context, store contoken.RedeemStore) error {
	token := newToken(store, time.Now().Add(longAfter))
	cancelled, cancel := context.WithCancel(ctx)
	defer cancel()
	err := race(func() error {
		defer cancel()
		if err := token.redeem(cancelled); errors.Is(err, errFirst) {
			return err
		}
		return nil // any other error is an answer to a context that ends
	})
	if err != nil {
		return err
	}
	return token.wantSettled(ctx)
}

// race runs redeem in all racers at once and returns their errors.
func race(redeem func() error) error {
	errs := make([]error, racers)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			<-start
			errs[i] = redeem()
		})
	}
	close(start)
	group.Wait()
	return errors.Join(errs...)
}

// errFirst is a store that reports an error and first in one breath.
var errFirst = errors.New("first together with an error")

// token stands for a one-time token: an id with its expiry, and how often a store called it first.
type token struct {
	store   contoken.RedeemStore
	id      string
	expires time.Time
	firsts  atomic.Int64
}

func newToken(store contoken.RedeemStore, expires time.Time) *token {
	return &token{store: store, id: newID(), expires: expires}
}

// newID returns an id of the kind that contoken makes.
func newID() string {
	var id [16]byte
	rand.Read(id[:])
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// expiring returns a token of the same id that claims another expiry.
func (t *token) expiring(expires time.Time) *token {
	return &token{store: t.store, id: t.id, expires: expires}
}

func (t *token) redeem(ctx context.Context) error {
	first, err := t.store.Redeem(ctx, t.id, t.expires)
	if first {
		t.firsts.Add(1)
	}
	if first && err != nil {
		return fmt.Errorf("%w: %w", errFirst, err)
	}
	return err
}

func (t *token) wantFirsts(want int64) error {
	if firsts := t.firsts.Load(); firsts != want {
		return fmt.Errorf("%d calls were first, want %d", firsts, want)
	}
	return nil
}

// wantSettled checks an id after calls that failed: first is still reported at most once in all, and an id that has
// been answered for once more is certainly recorded.
func (t *token) wantSettled(ctx context.Context) error {
	if err := t.redeem(ctx); err != nil {
		return err
	}
	settled := t.firsts.Load()
	if err := t.redeem(ctx); err != nil {
		return err
	}
	firsts := t.firsts.Load()
	if firsts > 1 {
		return fmt.Errorf("%d calls were first after one whose context had ended, want at most 1", firsts)
	}
	if firsts != settled {
		return errors.New("an id was first after a call that had answered for it")
	}
	return nil
}
