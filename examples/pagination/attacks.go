package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contoken/contoken"
)

// attack shows what comes of cursors that must not be accepted.
func (d *demo) attack(ctx context.Context) error {
	const expired, invalid = contoken.ATDCursorExpired, contoken.ATDCursorInvalid
	cursor, err := d.cursorOfPageTwo(ctx)
	if err != nil {
		return err
	}
	altered, err := alterPosition(cursor)
	if err != nil {
		return err
	}
	second, err := d.alice.call(ctx, "fs.list", withCursor(nil, cursor))
	if err != nil {
		return fmt.Errorf("the genuine call, without which the refusals would prove nothing: %w", err)
	}
	fmt.Fprintf(d.out, "The cursor of page two gets alice a page of %d paths, and attackers this:\n", len(second.Paths))

	fmt.Fprintln(d.table, "\nATTACK\tERROR\tMESSAGE\tDATA\tTHE SERVER'S LOG")
	d.try(ctx, "altered by one bit", invalid, d.alice, "fs.list", withCursor(nil, altered))
	d.try(ctx, "bob uses alice's", invalid, d.bob, "fs.list", withCursor(nil, cursor))
	otherArguments := withCursor(map[string]any{"pattern": "*.go"}, cursor)
	d.try(ctx, "with other arguments", invalid, d.alice, "fs.list", otherArguments)
	d.try(ctx, "with another tool", invalid, d.alice, "fs.dirs", withCursor(nil, cursor))
	d.try(ctx, "a made-up one", invalid, d.alice, "fs.list", withCursor(nil, "page-2"))
	d.try(ctx, "an empty one", invalid, d.alice, "fs.list", withCursor(nil, ""))
	d.try(ctx, "null in place of one", invalid, d.alice, "fs.list", withCursor(nil, nil))
	d.clock.advance(contoken.DefaultCursorTTL)
	d.try(ctx, "five minutes later", expired, d.alice, "fs.list", withCursor(nil, cursor))

	if cursor, err = d.cursorOfPageTwo(ctx); err != nil { // one that has not expired
		return err
	}
	if err := errors.Join(d.stop(), d.start()); err != nil {
		return err
	}
	d.try(ctx, "after a restart", expired, d.alice, "fs.list", withCursor(nil, cursor))
	return d.table.Flush()
}

func (d *demo) cursorOfPageTwo(ctx context.Context) (string, error) {
	first, err := d.alice.call(ctx, "fs.list", nil)
	return first.NextCursor, err
}

// alterPosition changes one bit of the position in a cursor, which stands right before the tag. It takes no key to do
// that.
func alterPosition(cursor string) (string, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(sealed) <= sha256.Size {
		return "", errors.New("the server's cursor has no position to alter")
	}
	sealed[len(sealed)-sha256.Size-1] ^= 1
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// try makes a call that must be refused with the ATD code.
func (d *demo) try(ctx context.Context, attack string, atdCode int, by *client, tool string, arguments map[string]any) {
	d.log.take()
	_, err := by.call(ctx, tool, arguments)
	reason := d.log.takeReason()
	got, _ := errors.AsType[*rpcError](err)
	want := &rpcError{codeInvalidParams, contoken.PublicMessage, &errorData{atdCode}}
	switch {
	case err == nil:
		d.failures = append(d.failures, fmt.Errorf("attack was accepted: %s", attack))
	case !reflect.DeepEqual(got, want):
		d.failures = append(d.failures, fmt.Errorf("attack was not refused as expected: %s: %w", attack, err))
	case reason == "":
		d.failures = append(d.failures, fmt.Errorf("refusal was not logged: %s", attack))
	default:
		fmt.Fprintf(d.table, "%s\t%d\t%s\t%d\t%s\n", attack, got.Code, got.Message, got.Data.Code, reason)
	}
}

// clock is a clock that can be put forward.
type clock struct {
	base  func() time.Time
	ahead atomic.Int64 // nanoseconds
}

func (c *clock) now() time.Time { return c.base().Add(time.Duration(c.ahead.Load())) }

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// serverLog keeps what the server logs, in JSON.
type serverLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *serverLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns what was logged since the last take.
func (l *serverLog) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Next(l.text.Len()))
}

// takeReason takes what should be one entry and returns the reason that it gives, or "" if it is none or several.
func (l *serverLog) takeReason() string {
	var entry struct{ Reason string }
	if json.Unmarshal(l.take(), &entry) != nil {
		return ""
	}
	return entry.Reason
}
