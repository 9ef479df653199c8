package contoken

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestCursorVectors(t *testing.T) {
	for _, v := range readVectors[cursorVector](t, "cursor.json") {
		t.Run(v.Name, func(t *testing.T) {
			issuer := v.issuer(t)
			payload, err := issuer.Verify(v.Scope.scope(t), v.Cursor)
			if v.Error != "" {
				checkRefused(t, err, v.Error)
				checkZero(t, payload)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if payload.Scope != v.Scope.scope(t) || payload.PageIndex != v.Page ||
				!payload.IssuedAt.Equal(time.Unix(v.IssuedAt, 0)) || !bytes.Equal(payload.OpaqueState, unhex(t, v.State)) {
				t.Errorf("payload %+v", payload)
			}
			if !v.Issue {
				return
			}
			cursor, err := issuer.Issue(v.Scope.scope(t), v.Page, unhex(t, v.State))
			if err != nil {
				t.Fatal(err)
			}
			if cursor != v.Cursor {
				t.Errorf("issued %s\nwant   %s", cursor, v.Cursor)
			}
		})
	}
}

// checkRefused checks that err is the error that the vectors call name, and no other.
func checkRefused(t *testing.T, err error, name string) {
	t.Helper()
	want := vectorErrors[name]
	if want == nil {
		t.Fatalf("unknown error %q", name)
	}
	for _, sentinel := range vectorErrors {
		if errors.Is(err, sentinel) != (sentinel == want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
}

func checkZero(t *testing.T, payload CursorPayload) {
	t.Helper()
	if payload.Scope != (Scope{}) || payload.PageIndex != 0 || !payload.IssuedAt.IsZero() ||
		payload.Session != [8]byte{} || payload.OpaqueState != nil {
		t.Errorf("payload %+v beside an error", payload)
	}
}

func TestIssueRefusesWhatCannotBeIssued(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), nil)
	long := strings.Repeat("t", 400)
	for name, c := range map[string]struct {
		scope Scope
		page  uint32
		state []byte
		want  error
	}{
		"no tool":            {Scope{Subject: "alice"}, 1, nil, ErrInput},
		"page 0":             {testScope, 0, nil, ErrInput},
		"state of 257 bytes": {Scope{Tool: "t"}, 1, make([]byte, 257), ErrTooLarge},
		"tool too long":      {Scope{Tool: long}, 1, nil, ErrTooLarge},
		"all of it too long": {Scope{Tool: long[:100]}, 1, make([]byte, 256), ErrTooLarge},
	} {
		if cursor, err := issuer.Issue(c.scope, c.page, c.state); !errors.Is(err, c.want) || cursor != "" {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	if _, err := issuer.Verify(Scope{Subject: "alice"}, mustIssue(t, issuer)); !errors.Is(err, ErrInput) {
		t.Errorf("Verify without a tool: error %v, want ErrInput", err)
	}
}

func TestCursorHoldsAtMost512Characters(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), &CursorOptions{Now: at(testTime)})
	longest := 0
	for n := range 400 {
		scope := Scope{Tool: strings.Repeat("t", n+1)}
		cursor, err := issuer.Issue(scope, 1, nil)
		if err != nil {
			if !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
			break
		}
		if _, err := issuer.Verify(scope, cursor); err != nil {
			t.Fatal(err)
		}
		longest = len(cursor)
	}
	if longest != MaxCursorBytes {
		t.Errorf("longest cursor of %d characters, want %d", longest, MaxCursorBytes)
	}
}

func TestCursorCarriesItsPayload(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), &CursorOptions{Now: func() time.Time {
		return time.Unix(testTime, 999_999_999).In(time.FixedZone("", 3600))
	}})
	for _, page := range []uint32{1, 23, 24, 255, 256, 65535, 65536, math.MaxUint32} {
		for _, size := range []int{0, 1, 23, 24, 255, 256} {
			state := bytes.Repeat([]byte{0xa5}, size)
			scope := Scope{Tool: "t", Subject: "u"}
			cursor, err := issuer.Issue(scope, page, state)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := issuer.Verify(scope, cursor)
			if err != nil {
				t.Fatal(err)
			}
			if payload.Scope != scope || payload.PageIndex != page || !bytes.Equal(payload.OpaqueState, state) ||
				payload.IssuedAt != time.Unix(testTime, 0).UTC() || payload.Session == [8]byte{} {
				t.Errorf("page %d, %d bytes: payload %+v", page, size, payload)
			}
		}
	}
}

func TestCursorBelongsToTheCaller(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), nil)
	position := []byte("position")
	cursor, err := issuer.Issue(testScope, 1, position)
	if err != nil {
		t.Fatal(err)
	}
	clear(position)
	first, err := issuer.Verify(testScope, cursor)
	if err != nil || string(first.OpaqueState) != "position" {
		t.Fatalf("position %q, error %v", first.OpaqueState, err)
	}
	clear(first.OpaqueState[:cap(first.OpaqueState)])
	mustIssue(t, issuer) // uses the buffers again
	if second, err := issuer.Verify(testScope, cursor); err != nil || string(second.OpaqueState) != "position" {
		t.Errorf("position %q, error %v", second.OpaqueState, err)
	}
	if first.Scope != testScope {
		t.Errorf("scope %v changed after the call", first.Scope)
	}
}

func TestVerifyBindsToTheScope(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), nil)
	unbound := testScope
	unbound.Args = Fingerprint{}
	others := map[string]Scope{
		"another tool":       {"fs.read", testScope.Subject, testScope.Args},
		"tool in upper case": {"FS.LIST", testScope.Subject, testScope.Args},
		"another subject":    {testScope.Tool, "bob", testScope.Args},
		"no subject":         {testScope.Tool, "", testScope.Args},
		"other arguments":    {testScope.Tool, testScope.Subject, Fingerprint{9}},
		"no arguments":       unbound,
		"another method":     {"tools/call fs.list", testScope.Subject, testScope.Args},
	}
	for name, other := range others {
		for _, pair := range [][2]Scope{{testScope, other}, {other, testScope}} {
			cursor, err := issuer.Issue(pair[0], 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if payload, err := issuer.Verify(pair[1], cursor); !errors.Is(err, ErrScope) {
				t.Errorf("%s: error %v, want ErrScope", name, err)
			} else {
				checkZero(t, payload)
			}
			if _, err := issuer.Verify(pair[0], cursor); err != nil {
				t.Errorf("%s, under its own scope: %v", name, err)
			}
		}
	}
}

func TestCursorLivesForItsTTL(t *testing.T) {
	now := int64(testTime)
	issuer := mustIssuer(t, testRing(t, 1), &CursorOptions{Now: func() time.Time { return time.Unix(now, 0) }})
	cursor := mustIssue(t, issuer)
	for _, c := range []struct {
		after int64
		want  error
	}{
		{0, nil}, {1, nil}, {299, nil}, {300, ErrExpired}, {301, ErrExpired}, {1 << 40, ErrExpired},
		{-1, nil}, {-60, nil}, {-61, ErrNotYetValid}, {-testTime, ErrNotYetValid},
	} {
		now = testTime + c.after // the same issuer: it reads its clock at every call
		if _, err := issuer.Verify(testScope, cursor); !errors.Is(err, c.want) {
			t.Errorf("%d s after: error %v, want %v", c.after, err, c.want)
		}
	}
}

func TestCursorsOfOtherSessionsAreExpiredNotForged(t *testing.T) {
	fleet := testRing(t, 1)
	genuine := mustIssue(t, mustIssuer(t, fleet, nil))
	for name, issuer := range map[string]*CursorIssuer{
		"a retired key":                    mustIssuer(t, testRing(t, 2), nil),
		"another audience":                 mustIssuer(t, fleet, &CursorOptions{Audience: "b"}),
		"per process, issued fleet-wide":   mustIssuer(t, fleet, &CursorOptions{PerProcess: true}),
		"an ephemeral key after a restart": mustIssuer(t, EphemeralKeyRing(), nil),
	} {
		if _, err := issuer.Verify(testScope, genuine); !errors.Is(err, ErrExpired) || errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v, want ErrExpired", name, err)
		}
	}
	a, b := mustIssuer(t, fleet, &CursorOptions{PerProcess: true}), mustIssuer(t, fleet, &CursorOptions{PerProcess: true})
	if _, err := b.Verify(testScope, mustIssue(t, a)); !errors.Is(err, ErrExpired) {
		t.Errorf("of another process: error %v, want ErrExpired", err)
	}
	if _, err := a.Verify(testScope, mustIssue(t, a)); err != nil {
		t.Errorf("of this process: %v", err)
	}
}

func TestNewCursorIssuerCopiesItsOptions(t *testing.T) {
	opts := &CursorOptions{Audience: "a", Now: at(testTime)}
	want := mustIssue(t, mustIssuer(t, testRing(t, 1), opts))
	issuer := mustIssuer(t, testRing(t, 1), opts)
	*opts = CursorOptions{Audience: "b", PerProcess: true, RequireSubject: true}
	if cursor := mustIssue(t, issuer); cursor != want {
		t.Error("a change of the caller's options changed the issuer")
	}
}

func TestFleetSharesCursors(t *testing.T) {
	opts := &CursorOptions{Audience: "fs"}
	a, b := mustIssuer(t, testRing(t, 1), opts), mustIssuer(t, testRing(t, 1), opts)
	payload, err := b.Verify(testScope, mustIssue(t, a))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.Verify(testScope, mustIssue(t, b)); err != nil || again.Session != payload.Session {
		t.Errorf("sessions %x and %x, error %v; want one session", payload.Session, again.Session, err)
	}
}

func TestInventedCursorsAreMalformed(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), nil)
	genuine := mustIssue(t, issuer)
	for _, invented := range []string{
		"", " ", "0", "1", "null", "next", "undefined", "page=2", "{}", ".", "...", "eyJwYWdlIjoyfQ", "v1." + genuine,
		genuine + "-TAMPERED ", genuine + "=", " " + genuine, genuine + "\n", "\xff\xff", strings.Repeat("A", 513), genuine + genuine + genuine + genuine + genuine,
	} {
		if payload, err := issuer.Verify(testScope, invented); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: error %v, want ErrMalformed", invented, err)
		} else {
			checkZero(t, payload)
		}
	}
}

// editAlphabet is what an edit puts in: all of base64url, and what decoders are known to let through.
const editAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" + "=+/.\n\r\x00 \xff"

// edits calls try with every token that is one edit away from token.
func edits(token string, try func(edited string)) {
	for i := range len(token) + 1 {
		for _, c := range []byte(editAlphabet) {
			try(token[:i] + string([]byte{c}) + token[i:])
			if i < len(token) && token[i] != c {
				try(token[:i] + string([]byte{c}) + token[i+1:])
			}
		}
		if i < len(token) {
			try(token[:i] + token[i+1:])
			try(token[:i])
			try(token[i+1:])
		}
		for j := i + 1; j < len(token); j++ {
			if token[i] != token[j] {
				try(token[:i] + token[j:j+1] + token[i+1:j] + token[i:i+1] + token[j+1:])
			}
		}
	}
	try(strings.ToUpper(token))
	try(strings.ToLower(token))
	try(token[len(token)/2:] + token[:len(token)/2])
}

func TestEveryEditOfACursorIsRefused(t *testing.T) {
	issuer := mustIssuer(t, testRing(t, 1), nil)
	genuine := mustIssue(t, issuer)
	tried := 0
	edits(genuine, func(edited string) {
		tried++
		if _, err := issuer.Verify(testScope, edited); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrExpired) {
			t.Errorf("%q: error %v", edited, err)
		}
	})
	if tried < 100*len(genuine) {
		t.Errorf("tried %d edits", tried)
	}
	if _, err := issuer.Verify(testScope, genuine); err != nil {
		t.Error(err)
	}
}

type position struct {
	LastPath string `cbor:"p"`
	Offset   int64  `cbor:"o,omitempty"`
}

func TestOpaqueStateRoundTrips(t *testing.T) {
	when := time.Date(2026, 10, 2, 12, 0, 0, 123_456_789, time.UTC)
	roundTrip(t, position{"a/b", 7})
	roundTrip(t, map[string]any{"id": int64(1<<53 + 1), "rest": []any{true, nil, "x", int64(-1), 1.5, []byte{1}}})
	roundTrip(t, uint64(math.MaxUint64))
	roundTrip(t, int64(math.MinInt64))
	roundTrip(t, []string{"a", ""})
	roundTrip(t, [2]byte{1, 2})
	roundTrip(t, when)
	state, err := EncodeOpaqueState(when)
	if err != nil {
		t.Fatal(err)
	}
	var back time.Time
	if err := (CursorPayload{OpaqueState: state}).DecodeOpaqueState(&back); err != nil || !back.Equal(when) {
		t.Errorf("%v came back as %v, error %v", when, back, err)
	}
	roundTrip(t, any(nil))
	roundTrip(t, any(int64(-5)))
}

func roundTrip[T any](t *testing.T, value T) {
	t.Helper()
	state, err := EncodeOpaqueState(value)
	if err != nil {
		t.Errorf("%#v: %v", value, err)
		return
	}
	var decoded T
	if err := (CursorPayload{OpaqueState: state}).DecodeOpaqueState(&decoded); err != nil {
		t.Errorf("%#v: %v", value, err)
		return
	}
	again, err := EncodeOpaqueState(decoded)
	if err != nil || !bytes.Equal(again, state) {
		t.Errorf("%#v came back as %#v", value, decoded)
	}
}

func TestEncodeOpaqueStateRefusesWhatWouldNotDecode(t *testing.T) {
	for name, value := range map[string]any{
		"a channel":              make(chan int),
		"invalid UTF-8":          "a\xff",
		"a nested invalid UTF-8": map[string]any{"a": "a\xff"},
		"a big integer":          new(big.Int).Lsh(big.NewInt(1), 70),
		"a small big integer":    big.NewInt(1),
		"past int64 in an any":   map[string]any{"n": uint64(math.MaxUint64)},
		"keys that fall together": map[any]any{
			int8(1): "a", int16(1): "b",
		},
		"33 levels": deep(33),
	} {
		if _, err := EncodeOpaqueState(value); !errors.Is(err, ErrInput) {
			t.Errorf("%s: error %v, want ErrInput", name, err)
		}
	}
	if state, err := EncodeOpaqueState(strings.Repeat("x", 253)); err != nil || len(state) != 255 {
		t.Errorf("253 characters: %d bytes, error %v", len(state), err)
	}
	if _, err := EncodeOpaqueState(strings.Repeat("x", 255)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("257 bytes: error %v, want ErrTooLarge", err)
	}
}

func deep(levels int) any {
	var value any
	for range levels {
		value = []any{value}
	}
	return value
}

func TestDecodeOpaqueStateIsStrict(t *testing.T) {
	for name, state := range map[string]string{
		"empty":                "",
		"unknown field":        "a261706161617a01",
		"name in another case": "a161506161",
		"duplicate field":      "a261706161617061 62",
		"bytes after it":       "a16170616100",
		"indefinite length":    "bf61706161ff",
		"indefinite string":    "a161707f6161ff",
		"a tag":                "c1a161706161",
		"a tag inside":         "a16170c06161",
		"bytes for text":       "a161704161",
		"invalid UTF-8":        "a1617061ff",
		"truncated":            "a16170",
		"an array":             "816161",
		"a bignum offset":      "a2616fc2420100617061 61",
	} {
		target := position{"before", 1}
		err := CursorPayload{OpaqueState: unhex(t, strings.ReplaceAll(state, " ", ""))}.DecodeOpaqueState(&target)
		if !errors.Is(err, ErrMalformed) || target != (position{"before", 1}) {
			t.Errorf("%s: error %v, target %v; want ErrMalformed and the target as it was", name, err, target)
		}
	}
	past := CursorPayload{OpaqueState: unhex(t, "1bffffffffffffffff")}
	if err := past.DecodeOpaqueState(new(any)); !errors.Is(err, ErrMalformed) {
		t.Errorf("past int64 in an any: error %v, want ErrMalformed", err)
	}
	var n any
	if err := (CursorPayload{OpaqueState: []byte{5}}).DecodeOpaqueState(&n); err != nil || n != int64(5) {
		t.Errorf("an integer in an any is %T, error %v; want int64", n, err)
	}
}

func TestDecodeReplacesTheTargetWhole(t *testing.T) {
	target := position{"before", 99}
	if err := (CursorPayload{OpaqueState: unhex(t, "a161706161")}).DecodeOpaqueState(&target); err != nil {
		t.Fatal(err)
	}
	if target != (position{"a", 0}) {
		t.Errorf("target %v keeps what it held", target)
	}
	for name, bad := range map[string]any{"nil": nil, "no pointer": position{}, "a nil pointer": (*position)(nil)} {
		if err := (CursorPayload{OpaqueState: []byte{5}}).DecodeOpaqueState(bad); !errors.Is(err, ErrInput) {
			t.Errorf("%s: error %v, want ErrInput", name, err)
		}
	}
}
