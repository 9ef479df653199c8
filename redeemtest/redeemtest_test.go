package redeemtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contoken/contoken"
)

// redeemFunc is a store made of its one method.
type redeemFunc func(ctx context.Context, id string, expires time.Time) (bool, error)

func (f redeemFunc) Redeem(ctx context.Context, id string, expires time.Time) (bool, error) {
	return f(ctx, id, expires)
}

// mapStore is a correct store.
type mapStore struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func newMapStore() *mapStore { return &mapStore{until: make(map[string]time.Time)} }

func (s *mapStore) Redeem(ctx context.Context, id string, expires time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if !time.Now().Before(expires) {
		return false, errors.New("the expiry is past")
	}
	return s.record(id, expires), nil
}

func (s *mapStore) record(id string, expires time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until[id]) {
		return false
	}
	s.until[id] = expires
	return true
}

func (s *mapStore) recorded(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[id])
}

func (s *mapStore) set(id string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[id] = until
}

func (s *mapStore) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.until)
}

func TestRunPassesACorrectStore(t *testing.T) {
	Run(t, func(*testing.T) contoken.RedeemStore { return newMapStore() })
}

func TestRunSharedPassesStoresOfOneBackend(t *testing.T) {
	backend := newMapStore()
	RunShared(t, func(*testing.T) contoken.RedeemStore { return redeemFunc(backend.Redeem) })
}

// brokenStores are each broken in one way, and named for it. Their check must find it.
var brokenStores = map[string]struct {
	check  string
	broken func(*mapStore) redeemFunc
}{
	"answers for an id before it records it": {"ContextDoneBeforeTheCall", func(s *mapStore) redeemFunc {
		failed := make(map[string]bool)
		return func(ctx context.Context, id string, expires time.Time) (bool, error) {
			if failed[id] {
				delete(failed, id)
				return false, nil
			}
			failed[id] = ctx.Err() != nil
			return s.Redeem(ctx, id, expires)
		}
	}},
	"looks first and records later": {"OneOfManyRacersIsFirst", func(s *mapStore) redeemFunc {
		return func(ctx context.Context, id string, expires time.Time) (bool, error) {
			if s.recorded(id) {
				return false, nil
			}
			time.Sleep(time.Millisecond) // lets the other racers look
			s.set(id, expires)
			return true, nil
		}
	}},
	"is always first": {"DifferentIDsAreEachFirst", func(*mapStore) redeemFunc {
		return func(context.Context, string, time.Time) (bool, error) { return true, nil }
	}},
	"is never first": {"DifferentIDsAreEachFirst", func(*mapStore) redeemFunc {
		return func(context.Context, string, time.Time) (bool, error) { return false, nil }
	}},
	"makes room early": {"DifferentIDsAreEachFirst", func(s *mapStore) redeemFunc {
		return func(ctx context.Context, id string, expires time.Time) (bool, error) {
			if len(s.until) == manyIDs/2 {
				s.forgetAll()
			}
			return s.Redeem(ctx, id, expires)
		}
	}},
	"folds case": {"SimilarIDsAreEachFirst", func(s *mapStore) redeemFunc {
		return func(ctx context.Context, id string, expires time.Time) (bool, error) {
			return s.Redeem(ctx, strings.ToLower(id), expires)
		}
	}},
	"ignores trailing space": {"SimilarIDsAreEachFirst", func(s *mapStore) redeemFunc {
		return func(ctx context.Context, id string, expires time.Time) (bool, error) {
			return s.Redeem(ctx, strings.TrimRight(id, " "), expires)
		}
	}},
	"cuts the expiry to whole seconds": {"IDIsKeptUntilItExpires", func(s *mapStore) redeemFunc {
		return func(_ context.Context, id string, expires time.Time) (bool, error) {
			time.Sleep(time.Millisecond) // time goes on
			return s.record(id, expires.Truncate(time.Second)), nil
		}
	}},
	"overflows a duration": {"IDIsKeptForTheLongestTTL", func(s *mapStore) redeemFunc {
		return func(_ context.Context, id string, expires time.Time) (bool, error) {
			return s.record(id, time.Now().Add(time.Until(expires)+time.Minute)), nil
		}
	}},
	"takes a later expiry": {"RecordedExpiryStands", func(s *mapStore) redeemFunc {
		return func(_ context.Context, id string, expires time.Time) (bool, error) {
			first := s.record(id, expires)
			s.set(id, expires)
			return first, nil
		}
	}},
	"forgets an expired id at once": {"ExpiredIDIsNotFirstTwice", func(s *mapStore) redeemFunc {
		return func(_ context.Context, id string, expires time.Time) (bool, error) {
			return s.record(id, expires), nil
		}
	}},
	"ignores the context": {"ContextDoneBeforeTheCall", func(s *mapStore) redeemFunc {
		return func(_ context.Context, id string, expires time.Time) (bool, error) {
			return s.Redeem(context.Background(), id, expires)
		}
	}},
	"is first and fails": {"ContextDoneBeforeTheCall", func(s *mapStore) redeemFunc {
		return func(ctx context.Context, id string, expires time.Time) (bool, error) {
			return s.record(id, expires), ctx.Err()
		}
	}},
	"undoes the call of another": {"ContextCancelledDuringTheRace", func(s *mapStore) redeemFunc {
		return func(ctx context.Context, id string, expires time.Time) (bool, error) {
			if s.record(id, expires) {
				return true, nil
			}
			time.Sleep(time.Millisecond) // until the first racer has cancelled
			if err := ctx.Err(); err != nil {
				s.set(id, time.Time{})
				return false, err
			}
			return false, nil
		}
	}},
	"has a backend of its own": {"OneOfManyRacersIsFirst", func(s *mapStore) redeemFunc {
		shared := &fleet{stores: []contoken.RedeemStore{s, newMapStore()}}
		return shared.Redeem
	}},
}

func TestChecksFindBrokenStores(t *testing.T) {
	for name, test := range brokenStores {
		t.Run(name, func(t *testing.T) {
			for _, c := range checks {
				if c.name != test.check {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					if c.check(t.Context(), test.broken(newMapStore())) == nil {
						t.Errorf("%s finds nothing wrong with a store that %s", c.name, name)
					}
				})
				return
			}
			t.Fatalf("there is no check %s", test.check)
		})
	}
}

func TestEveryCheckFindsABrokenStore(t *testing.T) {
	finds := make(map[string]bool)
	for _, test := range brokenStores {
		finds[test.check] = true
	}
	for _, c := range checks {
		if !finds[c.name] {
			t.Errorf("no broken store tests %s", c.name)
		}
	}
}

// crashStore is a store with a server that can go down.
type crashStore struct {
	*mapStore
	server sync.Mutex
	down   bool
	broken int // calls that still fail once it is up again
}

var errDown = errors.New("the server is down")

func newCrashStore() *crashStore { return &crashStore{mapStore: newMapStore()} }

func (s *crashStore) Redeem(ctx context.Context, id string, expires time.Time) (bool, error) {
	s.server.Lock()
	defer s.server.Unlock()
	if s.down {
		return false, errDown
	}
	if s.broken > 0 {
		s.broken--
		return false, errDown
	}
	return s.mapStore.Redeem(ctx, id, expires)
}

func (s *crashStore) kill() {
	s.server.Lock()
	defer s.server.Unlock()
	s.down = true
}

func (s *crashStore) restart(broken int) {
	s.server.Lock()
	defer s.server.Unlock()
	s.down, s.broken = false, broken
}

func TestRunCrashPassesAStoreThatKeepsItsData(t *testing.T) {
	store := newCrashStore()
	RunCrash(t, store, store.kill, func() { store.restart(crashRetries - 1) })
}

func TestRunCrashFindsBrokenStores(t *testing.T) {
	for name, restart := range map[string]func(*crashStore){
		"loses its data":      func(s *crashStore) { s.forgetAll(); s.restart(0) },
		"never comes back":    func(*crashStore) {},
		"comes back too late": func(s *crashStore) { s.restart(crashRetries) },
	} {
		t.Run(name, func(t *testing.T) {
			store := newCrashStore()
			if checkCrash(t.Context(), store, store.kill, func() { restart(store) }) == nil {
				t.Error("no error")
			}
		})
	}
}

func TestRunCrashFindsFirstTogetherWithAnError(t *testing.T) {
	store := newCrashStore()
	broken := redeemFunc(func(ctx context.Context, id string, expires time.Time) (bool, error) {
		first, err := store.Redeem(ctx, id, expires)
		return first || err != nil, err
	})
	if err := checkCrash(t.Context(), broken, store.kill, t.FailNow); !errors.Is(err, errFirst) {
		t.Errorf("error %v, want %v", err, errFirst)
	}
}

func TestRunCrashFindsAnAnswerWithoutARecord(t *testing.T) {
	store := newCrashStore()
	var restarted atomic.Bool
	broken := redeemFunc(func(ctx context.Context, id string, expires time.Time) (bool, error) {
		if restarted.Load() {
			return store.Redeem(ctx, id, expires)
		}
		_, err := store.Redeem(ctx, "another id", expires)
		return false, err
	})
	if checkCrash(t.Context(), broken, store.kill, func() { store.restart(0); restarted.Store(true) }) == nil {
		t.Error("no error")
	}
}

func TestRunCrashFindsAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		store := newCrashStore()
		hanging := redeemFunc(func(ctx context.Context, id string, expires time.Time) (bool, error) {
			first, err := store.Redeem(ctx, id, expires)
			if err != nil {
				<-ctx.Done()
			}
			return first, err
		})
		if checkCrash(ctx, hanging, store.kill, t.FailNow) == nil {
			t.Error("no error")
		}
	})
}
