package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// kind is a kind of token.
type kind int

const (
	cursor kind = iota
	state
	oneTime
	kinds // their number
)

var kindNames = [kinds]string{"cursors", "request states", "one-time tokens"}

type counts [kinds]atomic.Int64

func (c *counts) total() (sum int64) {
	for k := range c {
		sum += c[k].Load()
	}
	return sum
}

// tally is what the callers of one trial saw.
type tally struct {
	requests, retries                        atomic.Int64
	minted, verified                         counts
	refused                                  counts // though genuine
	forged, accepted                         counts
	elsewhere                                atomic.Int64 // verified by another instance than minted them
	raced, redeemedTwice, lostWithAnInstance atomic.Int64 // one-time tokens

	mu        sync.Mutex
	latencies []time.Duration
}

func (t *tally) addLatency(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.latencies = append(t.latencies, d)
}

// percentile returns the latency that percent of the calls do not exceed.
func (t *tally) percentile(percent int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.latencies) == 0 {
		return 0
	}
	slices.Sort(t.latencies)
	return t.latencies[(len(t.latencies)-1)*percent/100]
}

func (t *tally) progress() string {
	return fmt.Sprintf("%d requests, %d tokens verified, %d genuine ones refused, %d forged ones accepted, %d redeemed twice",
		t.requests.Load(), t.verified.total(), t.refused.total(), t.accepted.total(), t.redeemedTwice.Load())
}

// check reports what must not happen whatever the cursors are bound to.
func (t *tally) check() error {
	var errs []error
	if n := t.accepted.total(); n > 0 {
		errs = append(errs, fmt.Errorf("%d forged tokens accepted", n))
	}
	if n := t.redeemedTwice.Load(); n > 0 {
		errs = append(errs, fmt.Errorf("%d one-time tokens redeemed twice", n))
	}
	for _, k := range []kind{state, oneTime} {
		if n := t.refused[k].Load(); n > 0 {
			errs = append(errs, fmt.Errorf("%d genuine %s refused", n, kindNames[k]))
		}
	}
	for k := range kinds {
		if t.verified[k].Load() == 0 || t.forged[k].Load() == 0 {
			errs = append(errs, fmt.Errorf("%s were not both verified and forged, so that the rest proves nothing", kindNames[k]))
		}
	}
	return errors.Join(errs...)
}

// printTable prints the tallies of both trials side by side.
func printTable(w io.Writer, shared, perProcess *tally) {
	line := func(name, shared, perProcess string) { fmt.Fprintf(w, "%-41s%18s%23s\n", name, shared, perProcess) }
	row := func(name string, value func(*tally) string) { line(name, value(shared), value(perProcess)) }
	number := func(name string, value func(*tally) int64) {
		row(name, func(t *tally) string { return strconv.FormatInt(value(t), 10) })
	}
	line("", "SHARED KEYS", "PER-PROCESS SESSIONS")
	number("requests", func(t *tally) int64 { return t.requests.Load() })
	number("  retried, as their instance was gone", func(t *tally) int64 { return t.retries.Load() })
	number("tokens minted", func(t *tally) int64 { return t.minted.total() })
	number("tokens verified", func(t *tally) int64 { return t.verified.total() })
	number("  by another instance than minted them", func(t *tally) int64 { return t.elsewhere.Load() })
	for k, name := range kindNames {
		row("genuine "+name+" refused", func(t *tally) string { return t.refusedOf(kind(k)) })
	}
	number("forged tokens tried", func(t *tally) int64 { return t.forged.total() })
	number("  accepted", func(t *tally) int64 { return t.accepted.total() })
	number("one-time tokens raced", func(t *tally) int64 { return t.raced.Load() })
	number("  redeemed twice", func(t *tally) int64 { return t.redeemedTwice.Load() })
	number("  used up by an instance that was killed", func(t *tally) int64 { return t.lostWithAnInstance.Load() })
	row("latency p50 / p99, retries included", func(t *tally) string {
		return milliseconds(t.percentile(50)) + " / " + milliseconds(t.percentile(99))
	})
}

func (t *tally) refusedOf(k kind) string {
	refused := t.refused[k].Load()
	return fmt.Sprintf("%d of %d", refused, refused+t.verified[k].Load())
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
}
