package redeemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contoken/contoken"
)

const (
	crashWorkers = 16
	// crashAfter is how many answers a server gives before it is killed, under full load.
	crashAfter = 1000
	// crashRetries is how many errors in a row a client may need to find its way back to a restarted server.
	crashRetries = 100
)

// RunCrash checks that no id is first twice although the server behind store is killed while it serves. Kill ends the
// server at once, as a crash does. Restart brings it back with what it had stored, and returns when it serves again.
//
// Between the two calls every Redeem must answer or fail within a minute. After them the store must serve again,
// though it may fail up to a hundred times until it has replaced its connections.
func RunCrash(t *testing.T, store contoken.RedeemStore, kill, restart func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := checkCrash(ctx, store, kill, restart); err != nil {
		t.Error(err)
	}
}

func checkCrash(ctx context.Context, store contoken.RedeemStore, kill, restart func()) error {
	load := &crashLoad{store: store, expires: time.Now().Add(longAfter), warm: make(chan struct{})}
	crashed := make(chan error, 1)
	go func() { crashed <- load.run(ctx) }()
	select {
	case <-load.warm:
	case err := <-crashed:
		return fmt.Errorf("the store failed before its server was killed: %w", err)
	}
	kill()
	var err error
	select {
	case err = <-crashed:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return errors.New("the store neither answered nor failed after its server was killed")
	}
	if errors.Is(err, errFirst) {
		return err
	}
	restart()
	return load.wantSettled(ctx)
}

// crashLoad has workers redeem ever new ids, each of them twice, until the store fails.
type crashLoad struct {
	store   contoken.RedeemStore
	expires time.Time

	answers atomic.Int64
	warm    chan struct{} // closed after crashAfter answers

	mu     sync.Mutex
	calls  int
	tokens []*crashToken
}

type crashToken struct {
	token
	answered atomic.Bool // so it is certainly recorded
}

// run returns the errors that ended the workers, one each.
func (l *crashLoad) run(ctx context.Context) error {
	errs := make([]error, crashWorkers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			for errs[i] == nil {
				errs[i] = l.redeemNext(ctx)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (l *crashLoad) redeemNext(ctx context.Context) error {
	token := l.next()
	if err := token.redeem(ctx); err != nil {
		return err
	}
	token.answered.Store(true)
	if l.answers.Add(1) == crashAfter {
		close(l.warm)
	}
	return nil
}

// next returns each token to two workers in a row, so that they race for it.
func (l *crashLoad) next() *crashToken {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls%2 == 0 {
		l.tokens = append(l.tokens, &crashToken{token: token{store: l.store, id: newID(), expires: l.expires}})
	}
	l.calls++
	return l.tokens[len(l.tokens)-1]
}

// wantSettled redeems every token of the load once more, and one that is new.
func (l *crashLoad) wantSettled(ctx context.Context) error {
	for _, token := range l.tokens {
		before := token.firsts.Load()
		if err := token.redeemAtLast(ctx); err != nil {
			return err
		}
		firsts := token.firsts.Load()
		if firsts > 1 {
			return fmt.Errorf("%d calls were first for one id, before and after the crash", firsts)
		}
		if token.answered.Load() && firsts != before {
			return errors.New("an id that was answered for before the crash was first after it")
		}
	}
	fresh := &crashToken{token: token{store: l.store, id: newID(), expires: l.expires}}
	if err := fresh.redeemAtLast(ctx); err != nil {
		return err
	}
	return fresh.wantFirsts(1)
}

// redeemAtLast retries while connections of before the crash fail.
func (t *crashToken) redeemAtLast(ctx context.Context) error {
	var err error
	for range crashRetries {
		if err = t.redeem(ctx); err == nil || errors.Is(err, errFirst) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("the store does not serve after its server came back: %w", err)
}
