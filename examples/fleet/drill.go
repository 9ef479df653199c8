package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// step is something that is done to a fleet while it serves.
type step struct {
	done string // what to say of it
	do   func(context.Context) error
}

// drill returns the steps that take a fleet from one key to the next, and disturb it in the middle of that.
func drill(f *fleet, old, next string) []step {
	var signsWithNext time.Time // all instances
	steps := []step{
		{"key file cut short: refused, and the keys stay", func(ctx context.Context) error {
			return f.spoil(ctx, next)
		}},
		{"rotation 1 of 3: all instances verify the new key", func(ctx context.Context) error {
			return f.rollOut(ctx, old, next)
		}},
		{"rotation 2 of 3: all instances sign with it", func(ctx context.Context) error {
			err := f.rollOut(ctx, next, old)
			signsWithNext = time.Now()
			return err
		}},
	}
	for _, m := range f.instances {
		steps = append(steps, step{"restarted " + m.process.name, func(ctx context.Context) error {
			return f.restart(ctx, m)
		}})
	}
	victim := f.instances[1]
	return append(steps,
		step{"killed " + victim.process.name + ", and started it again", func(ctx context.Context) error {
			return f.crash(ctx, victim, 200*time.Millisecond)
		}},
		step{"rotation 3 of 3: the old key is retired, one TTL after step 2", func(ctx context.Context) error {
			if err := pause(ctx, time.Until(signsWithNext.Add(f.opts.ttl))); err != nil {
				return err
			}
			return f.rollOut(ctx, next)
		}},
	)
}

// newKeyText returns what "openssl rand -hex 32" prints.
func newKeyText() string {
	var secret [32]byte
	rand.Read(secret[:]) // never fails
	return hex.EncodeToString(secret[:])
}

// pause waits, or returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
