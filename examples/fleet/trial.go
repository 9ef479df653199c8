package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/contoken/contoken"
)

// runTrial has many callers at a fleet while it goes through the drill, and returns what they saw.
func runTrial(ctx context.Context, opts options, perProcess bool, stdout, stderr io.Writer) (*tally, error) {
	users, bearerTokens := newUsers(opts.callers)
	old, next := newKeyText(), newKeyText()
	f, err := startFleet(ctx, opts, old, users, perProcess)
	if err != nil {
		return nil, err
	}
	load, err := startLoad(ctx, opts, f.front, users, bearerTokens)
	if err != nil {
		return nil, errors.Join(err, f.stop())
	}
	finishProgress := startProgress(stderr, load.tally)
	err = load.during(drill(f, old, next), opts, stdout)
	finishProgress()
	return load.tally, errors.Join(err, f.stop())
}

func newUsers(n int) (byToken map[string]string, bearerTokens []string) {
	byToken = make(map[string]string)
	for i := range n {
		token := rand.Text()
		bearerTokens = append(bearerTokens, token)
		byToken[token] = fmt.Sprintf("user-%d", i+1)
	}
	return byToken, bearerTokens
}

// load is callers at work.
type load struct {
	tally   *tally
	ctx     context.Context // of all that goes on
	fail    func(error)     // ends it, with the error as its cause
	stop    chan struct{}
	callers sync.WaitGroup
}

func startLoad(
	ctx context.Context, opts options, front string, users map[string]string, bearerTokens []string,
) (*load, error) {
	attacker, err := newTools(contoken.EphemeralKeyRing(), contoken.NewMemoryRedeemStore(1), opts.ttl, false)
	if err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	l := &load{tally: new(tally), ctx: ctx, fail: fail, stop: make(chan struct{})}
	client := socketClient(front, racers*len(bearerTokens))
	for i, bearerToken := range bearerTokens {
		c := &caller{
			user:        users[bearerToken],
			bearerToken: bearerToken,
			accomplice:  bearerTokens[(i+1)%len(bearerTokens)],
			http:        client,
			tally:       l.tally,
			attacker:    attacker,
			stop:        l.stop,
			rounds:      i, // so that they are not all at the same
		}
		if i%2 == 0 { // such callers miss a key that is retired too early
			c.hesitation = opts.ttl / 2
		}
		l.callers.Go(func() {
			if err := c.run(ctx); err != nil {
				l.fail(err)
			}
		})
	}
	return l, nil
}

// during takes the steps while the callers are at it, and then lets them finish what they have begun.
func (l *load) during(steps []step, opts options, stdout io.Writer) error {
	began := time.Now()
	gap := max((opts.time/2-opts.ttl)/time.Duration(len(steps)+1), 50*time.Millisecond)
	err := pause(l.ctx, gap)
	for _, step := range steps {
		if err != nil {
			break
		}
		if err = step.do(l.ctx); err != nil {
			break
		}
		fmt.Fprintf(stdout, "%5.1f s  %s\n", time.Since(began).Seconds(), step.done)
		err = pause(l.ctx, gap)
	}
	close(l.stop)
	l.callers.Wait()
	if cause := context.Cause(l.ctx); cause != nil {
		err = cause
	}
	l.fail(nil)
	return err
}

// startProgress prints now and then how far the callers are.
func startProgress(w io.Writer, t *tally) (finish func()) {
	done := make(chan struct{})
	var printer sync.WaitGroup
	printer.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(w, "  ... %s\n", t.progress())
			}
		}
	})
	return func() {
		close(done)
		printer.Wait()
	}
}
