package contoken

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"
)

const testTime = 1_790_945_840

var testScope = Scope{Tool: "fs.list", Subject: "alice", Args: Fingerprint{1, 2, 3}}

func TestScopesThatCouldBeConfusedAreRefused(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), nil)
	codec := mustCodec(t, testRing(t, 1), nil)
	cursor, wire := mustIssue(t, issuer), mustEncode(t, codec, "state")
	for name, scope := range map[string]Scope{
		"NUL in the subject":       {Tool: "t", Subject: "alice\x00fs.list"},
		"NUL in the tool":          {Tool: "fs.list\x00" + strings.Repeat("00", 32), Subject: "alice"},
		"NUL alone as the subject": {Tool: "t", Subject: "\x00"},
		"subject not UTF-8":        {Tool: "t", Subject: "alice\xff"},
		"tool not UTF-8":           {Tool: "t\xc0\x80", Subject: "alice"},
		"a surrogate in the tool":  {Tool: "t\xed\xa0\x80", Subject: "alice"},
	} {
		_, issueErr := issuer.Issue(scope, 1, nil)
		_, verifyErr := issuer.Verify(scope, cursor)
		_, encodeErr := codec.Encode(scope, "state")
		_, decodeErr := codec.Decode(scope, wire)
		for call, err := range map[string]error{"Issue": issueErr, "Verify": verifyErr, "Encode": encodeErr, "Decode": decodeErr} {
			if !errors.Is(err, ErrInput) {
				t.Errorf("%s, %s: error %v, want ErrInput", name, call, err)
			}
		}
	}
}

func TestNoTwoScopesShareTheirBytes(t *testing.T) {
	fingerprint := Fingerprint{7}
	seen := map[string]Scope{}
	for _, tool := range []string{"", "a", "b", "ab"} {
		for _, subject := range []string{"", "a", "b", "ab"} {
			for _, args := range []Fingerprint{{}, fingerprint, {8}} {
				scope := Scope{tool, subject, args}
				text := string(appendScope(nil, &scope))
				if other, ok := seen[text]; ok {
					t.Errorf("%v and %v are both %q", scope, other, text)
				}
				seen[text] = scope
			}
		}
	}
	scope := Scope{"tool", "subject", fingerprint}
	want := "subject\x00tool\x00" + hex.EncodeToString(fingerprint[:])
	if text := string(appendScope(nil, &scope)); text != want {
		t.Errorf("scope %q, want %q", text, want)
	}
}

func TestRequireSubjectRefusesAnonymousScopes(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), &CursorOptions{RequireSubject: true})
	codec := mustCodec(t, testRing(t, 1), &RequestStateOptions{RequireSubject: true})
	anonymous := Scope{Tool: "fs.list"}
	_, issueErr := issuer.Issue(anonymous, 1, nil)
	_, verifyErr := issuer.Verify(anonymous, mustIssue(t, issuer))
	_, encodeErr := codec.Encode(anonymous, "state")
	_, decodeErr := codec.Decode(anonymous, mustEncode(t, codec, "state"))
	for call, err := range map[string]error{"Issue": issueErr, "Verify": verifyErr, "Encode": encodeErr, "Decode": decodeErr} {
		if !errors.Is(err, ErrInput) {
			t.Errorf("%s: error %v, want ErrInput", call, err)
		}
	}
}

func TestConstructorsRefuseBadOptions(t *testing.T) {
	ring := testRing(t, 1)
	for name, options := range map[string]struct {
		ttl      time.Duration
		audience string
	}{
		"negative TTL":           {ttl: -time.Second},
		"TTL under a second":     {ttl: time.Millisecond},
		"TTL of a nanosecond":    {ttl: 1},
		"TTL of 1.5 s":           {ttl: 1500 * time.Millisecond},
		"audience with NUL":      {audience: "a\x00b"},
		"audience not UTF-8":     {audience: "a\xff"},
		"TTL of 1 s minus 1 ns":  {ttl: time.Second - 1},
		"TTL of an hour and 1ns": {ttl: time.Hour + 1},
	} {
		issuer, err := NewCursorIssuer(ring, &CursorOptions{TTL: options.ttl, Audience: options.audience})
		if !errors.Is(err, ErrInput) || issuer != nil {
			t.Errorf("%s: issuer error %v, want ErrInput", name, err)
		}
		codec, err := NewRequestStateCodec(ring, &RequestStateOptions{TTL: options.ttl, Audience: options.audience})
		if !errors.Is(err, ErrInput) || codec != nil {
			t.Errorf("%s: codec error %v, want ErrInput", name, err)
		}
	}
	for name, opts := range map[string]*RequestStateOptions{
		"negative MaxBytes": {MaxBytes: -1},
		"unknown mode":      {Mode: ModeEncryptedX + 1},
		"negative mode":     {Mode: -1},
	} {
		if codec, err := NewRequestStateCodec(ring, opts); !errors.Is(err, ErrInput) || codec != nil {
			t.Errorf("%s: error %v, want ErrInput", name, err)
		}
	}
	for name, bad := range map[string]*KeyRing{"nil": nil, "zero": {}} {
		if issuer, err := NewCursorIssuer(bad, nil); !errors.Is(err, ErrKey) || issuer != nil {
			t.Errorf("issuer on a %s ring: error %v, want ErrKey", name, err)
		}
		if codec, err := NewRequestStateCodec(bad, nil); !errors.Is(err, ErrKey) || codec != nil {
			t.Errorf("codec on a %s ring: error %v, want ErrKey", name, err)
		}
	}
}

func TestClockOutOfRangeIsRefused(t *testing.T) {
	for name, now := range map[string]int64{"before 1970": -1, "past 2^53": maxUnixTime + 1} {
		issuer := mustIssuer(t, testRing(t, 1), &CursorOptions{Now: at(now)})
		codec := mustCodec(t, testRing(t, 1), &RequestStateOptions{Now: at(now)})
		_, issueErr := issuer.Issue(testScope, 1, nil)
		_, verifyErr := issuer.Verify(testScope, mustIssue(t, mustIssuer(t, testRing(t, 1), nil)))
		_, encodeErr := codec.Encode(testScope, "state")
		_, decodeErr := codec.Decode(testScope, mustEncode(t, mustCodec(t, testRing(t, 1), nil), "state"))
		for call, err := range map[string]error{"Issue": issueErr, "Verify": verifyErr, "Encode": encodeErr, "Decode": decodeErr} {
			if !errors.Is(err, ErrInput) {
				t.Errorf("%s, %s: error %v, want ErrInput", name, call, err)
			}
		}
	}
	codec := mustCodec(t, testRing(t, 1), &RequestStateOptions{Now: at(maxUnixTime - 599), TTL: 600 * time.Second})
	if _, err := codec.Encode(testScope, "state"); !errors.Is(err, ErrInput) {
		t.Errorf("expiry past 2^53: error %v, want ErrInput", err)
	}
	for _, now := range []int64{0, maxUnixTime} {
		issuer := mustIssuer(t, testRing(t, 1), &CursorOptions{Now: at(now)})
		if payload, err := issuer.Verify(testScope, mustIssue(t, issuer)); err != nil || payload.IssuedAt.Unix() != now {
			t.Errorf("at %d: error %v", now, err)
		}
	}
}

func TestBase64HasOneSpelling(t *testing.T) {
	for text, want := range map[string]bool{
		"":       true,
		"AAAA":   true,
		"AA":     true,
		"-_-_":   true,
		"A":      false, // no byte
		"AAAAA":  false,
		"AA==":   false,
		"AB":     false, // trailing bits
		"AAB":    false,
		"+/+/":   false,
		"AA\nAA": false,
		"AA\rAA": false,
		"AAAA\n": false,
		"\r\n":   false,
		"AA AA":  false,
		"AA.A":   false,
		"AA\x00": false,
		"ÄÄ":     false,
	} {
		buf := borrowBuffer()
		if _, ok := buf.decodeBase64([]byte(text)); ok != want {
			t.Errorf("%q: %v, want %v", text, ok, want)
		}
		buf.giveBack()
	}
}

func mustIssuer(t testing.TB, ring *KeyRing, opts *CursorOptions) *CursorIssuer {
	t.Helper()
	issuer, err := NewCursorIssuer(ring, opts)
	if err != nil {
		t.Fatal(err)
	}
	return issuer
}

// mustIssue issues a cursor for page 2 under testScope.
func mustIssue(t testing.TB, issuer *CursorIssuer) string {
	t.Helper()
	cursor, err := issuer.Issue(testScope, 2, []byte("position"))
	if err != nil {
		t.Fatal(err)
	}
	return cursor
}

func mustCodec(t testing.TB, ring *KeyRing, opts *RequestStateOptions) *RequestStateCodec {
	t.Helper()
	codec, err := NewRequestStateCodec(ring, opts)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// mustEncode encodes a state under testScope.
func mustEncode(t testing.TB, codec *RequestStateCodec, state string) string {
	t.Helper()
	wire, err := codec.Encode(testScope, state)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}
