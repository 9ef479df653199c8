package contoken

import (
	"bytes"
	"crypto/fips140"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// skipWithoutXChaCha skips what cannot run where FIPS 140 is enforced.
func skipWithoutXChaCha(t testing.TB, mode RequestStateMode) {
	t.Helper()
	if mode == ModeEncryptedX && fips140.Enforced() {
		t.Skip("XChaCha20-Poly1305 may not be used where FIPS 140 is enforced")
	}
}

// eachMode runs test with a codec of each mode on one ring.
func eachMode(t *testing.T, test func(t *testing.T, codec *RequestStateCodec)) {
	for mode := ModeSigned; mode.valid(); mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			skipWithoutXChaCha(t, mode)
			test(t, mustCodec(t, testRing(t, 1), &RequestStateOptions{Mode: mode, Now: at(testTime)}))
		})
	}
}

func TestStateVectors(t *testing.T) {
	for _, v := range readVectors[stateVector](t, "state.json") {
		t.Run(v.Name, func(t *testing.T) {
			skipWithoutXChaCha(t, vectorMode(t, v.Mode))
			if strings.HasPrefix(v.Wire, "v1x.") {
				skipWithoutXChaCha(t, ModeEncryptedX)
			}
			codec := v.codec(t)
			state, err := codec.Decode(v.Scope.scope(t), v.Wire)
			if v.Error != "" {
				checkRefused(t, err, v.Error)
				if state != "" {
					t.Errorf("state %q beside an error", state)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if state != v.State {
				t.Errorf("state %q, want %q", state, v.State)
			}
			if !v.Encode {
				return
			}
			wire, err := codec.Encode(v.Scope.scope(t), v.State)
			if err != nil {
				t.Fatal(err)
			}
			if wire != v.Wire {
				t.Errorf("encoded %s\nwant    %s", wire, v.Wire)
			}
		})
	}
}

func TestStateRoundTrips(t *testing.T) {
	var controls strings.Builder
	for c := range rune(0xa0) {
		controls.WriteRune(c)
	}
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		for _, state := range []string{
			"", "x", `{"step":1}`, controls.String(), `\u0041 \" \\`, "<&>\u2028\u2029\ufffd\uffff𝄞",
			`{"s":"x","exp":9999999999,"b":"` + strings.Repeat("0", 64) + `"}`, `","exp":1,"b":"`, strings.Repeat("é", 10_000),
		} {
			decoded, err := codec.Decode(testScope, mustEncode(t, codec, state))
			if err != nil || decoded != state {
				t.Errorf("%q came back as %q, error %v", state, decoded, err)
			}
		}
	})
}

func TestEncodeNeverAltersAState(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		for _, state := range []string{"\xff", "a\xc0\x80", "\xed\xa0\x80", "ok\x80"} {
			if wire, err := codec.Encode(testScope, state); !errors.Is(err, ErrInput) || wire != "" {
				t.Errorf("%q: error %v, want ErrInput", state, err)
			}
		}
	})
}

func TestDecodeBindsToTheScope(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		want := ErrScope
		if codec.mode != ModeSigned {
			want = ErrSignature // the scope is in the associated data
		}
		for name, other := range map[string]Scope{
			"another tool":    {"fs.read", testScope.Subject, testScope.Args},
			"another method":  {"tools/call fs.list", testScope.Subject, testScope.Args},
			"no tool":         {"", testScope.Subject, testScope.Args},
			"another subject": {testScope.Tool, "bob", testScope.Args},
			"no subject":      {testScope.Tool, "", testScope.Args},
			"other arguments": {testScope.Tool, testScope.Subject, Fingerprint{9}},
			"no arguments":    {testScope.Tool, testScope.Subject, Fingerprint{}},
			"nothing":         {},
		} {
			for _, pair := range [][2]Scope{{testScope, other}, {other, testScope}} {
				wire, err := codec.Encode(pair[0], "state")
				if err != nil {
					t.Fatal(err)
				}
				if state, err := codec.Decode(pair[1], wire); !errors.Is(err, want) || state != "" {
					t.Errorf("%s: error %v, want %v", name, err, want)
				}
				if _, err := codec.Decode(pair[0], wire); err != nil {
					t.Errorf("%s, under its own scope: %v", name, err)
				}
			}
		}
	})
}

func TestDecodeGoesByThePrefix(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		eachMode(t, func(t *testing.T, other *RequestStateCodec) {
			if state, err := other.Decode(testScope, mustEncode(t, codec, "state")); err != nil || state != "state" {
				t.Errorf("state %q, error %v", state, err)
			}
		})
	})
}

func TestRelabelledTokensAreRefused(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		prefix := modes[codec.mode].prefix
		rest := strings.TrimPrefix(mustEncode(t, codec, "state"), prefix)
		for _, other := range []string{"v1.", "v1e.", "v1x.", "v2.", "v1", "V1.", "v1.v1.", ""} {
			if other == prefix {
				continue
			}
			if _, err := codec.Decode(testScope, other+rest); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSignature) {
				t.Errorf("%q: error %v", other, err)
			}
		}
		cursor := mustIssue(t, mustIssuer(t, testRing(t, 1), &CursorOptions{Now: at(testTime)}))
		if _, err := codec.Decode(testScope, cursor); !errors.Is(err, ErrMalformed) {
			t.Errorf("a cursor: error %v, want ErrMalformed", err)
		}
	})
}

func TestStateLivesForItsTTL(t *testing.T) {
	for mode := ModeSigned; mode.valid(); mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			skipWithoutXChaCha(t, mode)
			now := int64(testTime)
			codec := mustCodec(t, testRing(t, 1), &RequestStateOptions{Mode: mode, Now: func() time.Time { return time.Unix(now, 0) }})
			wire := mustEncode(t, codec, "state")
			for after, want := range map[int64]error{0: nil, 1: nil, 599: nil, -3600: nil, 600: ErrExpired, 601: ErrExpired, 1 << 40: ErrExpired} {
				now = testTime + after // the same codec: it reads its clock at every call
				if _, err := codec.Decode(testScope, wire); !errors.Is(err, want) {
					t.Errorf("%d s after: error %v, want %v", after, err, want)
				}
			}
		})
	}
}

func TestNewRequestStateCodecCopiesItsOptions(t *testing.T) {
	opts := &RequestStateOptions{Audience: "a", Now: at(testTime)}
	want := mustEncode(t, mustCodec(t, testRing(t, 1), opts), "state")
	codec := mustCodec(t, testRing(t, 1), opts)
	*opts = RequestStateOptions{Audience: "b", Mode: ModeEncrypted, MaxBytes: 1, RequireSubject: true}
	if wire := mustEncode(t, codec, "state"); wire != want {
		t.Error("a change of the caller's options changed the codec")
	}
}

func TestMaxBytesCapsTheWireBothWays(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		state := strings.Repeat("x", 1000)
		wire := mustEncode(t, codec, state)
		exact := mustCodec(t, codec.keys.ring, &RequestStateOptions{Mode: codec.mode, Now: at(testTime), MaxBytes: len(wire)})
		if decoded, err := exact.Decode(testScope, mustEncode(t, exact, state)); err != nil || decoded != state {
			t.Errorf("at MaxBytes: error %v", err)
		}
		less := mustCodec(t, codec.keys.ring, &RequestStateOptions{Mode: codec.mode, Now: at(testTime), MaxBytes: len(wire) - 1})
		if encoded, err := less.Encode(testScope, state); !errors.Is(err, ErrTooLarge) || encoded != "" {
			t.Errorf("encoded over MaxBytes: error %v, want ErrTooLarge", err)
		}
		if _, err := less.Decode(testScope, wire); !errors.Is(err, ErrMalformed) {
			t.Errorf("decoded over MaxBytes: error %v, want ErrMalformed", err)
		}
		if _, err := codec.Encode(testScope, strings.Repeat("x", DefaultMaxRequestStateBytes+1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("over the default: error %v, want ErrTooLarge", err)
		}
	})
}

func TestEncryptedStateHidesItsText(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		const secret = "the account number is 4711-0815"
		a, b := mustEncode(t, codec, secret), mustEncode(t, codec, secret)
		_, encoded, _ := strings.Cut(a, ".")
		decoded, _ := base64.RawURLEncoding.DecodeString(strings.Split(encoded, ".")[0])
		readable := bytes.Contains(decoded, []byte(secret))
		if codec.mode == ModeSigned {
			if a != b || !readable {
				t.Error("want one readable token for one state")
			}
			return
		}
		if a == b {
			t.Error("two tokens of one state are the same: the nonce repeats")
		}
		if readable || strings.Contains(a, base64.RawURLEncoding.EncodeToString([]byte(secret))) {
			t.Error("the state can be read in the token")
		}
	})
}

// A client that chooses its subject gets a bind tag for it, which it can read in the payload of its own token. Were
// the bind key that of the payload's MAC, the tag would sign whatever the subject spells.
func TestChosenSubjectDoesNotBecomeASignedPayload(t *testing.T) {
	codec := mustCodec(t, testRing(t, 1), &RequestStateOptions{Now: at(testTime)})
	mallory := Scope{Subject: "mallory"}
	own, err := codec.Encode(mallory, "harmless")
	if err != nil {
		t.Fatal(err)
	}
	forged := "v1." + rawBase64(appendPayload(nil, "forged", testTime+600, nil, []byte(readableBindTag(t, own))))
	oracle, err := codec.Encode(Scope{Subject: forged}, "")
	if err != nil {
		t.Fatal(err)
	}
	tag, err := hex.DecodeString(readableBindTag(t, oracle))
	if err != nil {
		t.Fatal(err)
	}
	if state, err := codec.Decode(mallory, forged+"."+rawBase64(tag)); !errors.Is(err, ErrSignature) {
		t.Errorf("the forged state %q opened, error %v", state, err)
	}
	cursors := mustIssuer(t, testRing(t, 1), &CursorOptions{Now: at(testTime)})
	body := appendBody(nil, &CursorPayload{Scope: testScope, PageIndex: 9, IssuedAt: time.Unix(testTime, 0), Session: cursors.keys.all()[0].session})
	if _, err := cursors.Verify(testScope, rawBase64(append(body, tag...))); !errors.Is(err, ErrSignature) {
		t.Errorf("as the tag of a cursor: error %v, want ErrSignature", err)
	}
}

func readableBindTag(t *testing.T, wire string) string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(wire, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var members struct {
		Tag string `json:"b"`
	}
	if err := json.Unmarshal(payload, &members); err != nil {
		t.Fatal(err)
	}
	return members.Tag
}

func TestKeysAndAudiencesDoNotMix(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		wire := mustEncode(t, codec, "state")
		for name, other := range map[string]*RequestStateCodec{
			"another key":      mustCodec(t, testRing(t, 2), &RequestStateOptions{Now: at(testTime)}),
			"another audience": mustCodec(t, testRing(t, 1), &RequestStateOptions{Now: at(testTime), Audience: "b"}),
		} {
			if _, err := other.Decode(testScope, wire); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: error %v, want ErrSignature", name, err)
			}
		}
		for name, ring := range map[string]*KeyRing{"a new first key": testRing(t, 2, 1), "the last of 3": testRing(t, 3, 2, 1)} {
			other := mustCodec(t, ring, &RequestStateOptions{Now: at(testTime)})
			if state, err := other.Decode(testScope, wire); err != nil || state != "state" {
				t.Errorf("%s: error %v", name, err)
			}
		}
	})
}

func TestEveryEditOfAStateIsRefused(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		genuine := mustEncode(t, codec, "s")
		edits(genuine, func(edited string) {
			if state, err := codec.Decode(testScope, edited); !errors.Is(err, ErrInvalid) || state != "" {
				t.Errorf("%q: error %v", edited, err)
			}
		})
		a, b := mustEncode(t, codec, "state of a"), mustEncode(t, codec, "state of b")
		if _, err := codec.Decode(testScope, a[:len(a)/2]+b[len(b)/2:]); !errors.Is(err, ErrSignature) {
			t.Errorf("halves of two tokens: error %v, want ErrSignature", err)
		}
	})
}

func TestEmptyMACIsRefused(t *testing.T) {
	codec := mustCodec(t, testRing(t, 1), &RequestStateOptions{Now: at(testTime)})
	wire := mustEncode(t, codec, "state")
	body := wire[:strings.LastIndexByte(wire, '.')]
	for _, bad := range []string{body, body + ".", "v1..", "v1.", "v1.." + rawBase64(make([]byte, 32)), "v1..."} {
		if _, err := codec.Decode(testScope, bad); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSignature) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

type deployState struct {
	Step   int    `json:"step"`
	Target string `json:"target,omitempty"`
}

func TestJSONStateRoundTrips(t *testing.T) {
	eachMode(t, func(t *testing.T, codec *RequestStateCodec) {
		wire, err := codec.EncodeJSON(testScope, deployState{2, "<staging> & \\ufffd \ufffd"})
		if err != nil {
			t.Fatal(err)
		}
		target := deployState{9, "before"}
		if err := codec.DecodeJSON(testScope, wire, &target); err != nil || target != (deployState{2, "<staging> & \\ufffd \ufffd"}) {
			t.Errorf("%+v, error %v", target, err)
		}
		if text, err := codec.Decode(testScope, wire); err != nil || text != `{"step":2,"target":"<staging> & \\ufffd �"}` {
			t.Errorf("state %s, error %v", text, err)
		}
		wire, err = codec.EncodeJSON(testScope, map[string]any{"id": int64(1<<53 + 1)})
		if err != nil {
			t.Fatal(err)
		}
		var loose map[string]any
		if err := codec.DecodeJSON(testScope, wire, &loose); err != nil || fmt.Sprint(loose["id"]) != "9007199254740993" {
			t.Errorf("%v, error %v; want every digit", loose, err)
		}
	})
}

func TestEncodeJSONRefusesWhatItWouldAlter(t *testing.T) {
	codec := mustCodec(t, testRing(t, 1), nil)
	for name, value := range map[string]any{
		"a channel":       make(chan int),
		"invalid UTF-8":   "a\xff",
		"invalid UTF-8 2": `\` + "\xff",
		"a key that is":   map[string]int{"\xff": 1},
		"raw JSON":        json.RawMessage("\"\xff\""),
		"a string in one": struct {
			Target string `json:",string"`
		}{"a\xff"},
		"beside a backslash": []string{`\ufffd`, "\xff"},
	} {
		if wire, err := codec.EncodeJSON(testScope, value); !errors.Is(err, ErrInput) || wire != "" {
			t.Errorf("%s: error %v, want ErrInput", name, err)
		}
	}
}

func TestEncodeJSONTakesTheTextOfAnEscape(t *testing.T) {
	codec := mustCodec(t, testRing(t, 1), nil)
	for name, value := range map[string]any{
		"a string":       `\ufffd`,
		"a character":    "\ufffd",
		"in a map":       map[string]any{"a": []any{`\\ufffd`, int64(9007199254740993)}},
		"in raw JSON":    json.RawMessage(`"\ufffd"`),
		"behind a quote": deployState{1, `"\ufffd`},
	} {
		if _, err := codec.EncodeJSON(testScope, value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeJSONIsStrict(t *testing.T) {
	codec := mustCodec(t, testRing(t, 1), nil)
	for name, state := range map[string]string{
		"not JSON":      "staging",
		"empty":         "",
		"unknown field": `{"step":2,"admin":true}`,
		"another type":  `{"step":"2"}`,
		"an array":      `[2]`,
		"two values":    `{"step":2}{"step":3}`,
		"text after it": `{"step":2} x`,
		"fields, later": `{"target":"production","step":"x"}`,
	} {
		target := deployState{1, "before"}
		err := codec.DecodeJSON(testScope, mustEncode(t, codec, state), &target)
		if !errors.Is(err, ErrMalformed) || target != (deployState{1, "before"}) {
			t.Errorf("%s: error %v, target %v; want ErrMalformed and the target as it was", name, err, target)
		}
	}
	wire := mustEncode(t, codec, `{"step":2}`)
	for name, bad := range map[string]any{"nil": nil, "no pointer": deployState{}, "a nil pointer": (*deployState)(nil)} {
		if err := codec.DecodeJSON(testScope, wire, bad); !errors.Is(err, ErrInput) {
			t.Errorf("%s: error %v, want ErrInput", name, err)
		}
	}
	target := deployState{1, "before"}
	if err := codec.DecodeJSON(testScope, wire+"x", &target); !errors.Is(err, ErrInvalid) || target.Step != 1 {
		t.Errorf("a token that is refused: error %v, target %v", err, target)
	}
}

func TestXChaChaIsRefusedWhereFIPSIsEnforced(t *testing.T) {
	if !fips140.Enforced() {
		t.Skip("needs GODEBUG=fips140=only")
	}
	if _, err := NewRequestStateCodec(testRing(t, 1), &RequestStateOptions{Mode: ModeEncryptedX}); !errors.Is(err, ErrInput) {
		t.Errorf("error %v, want ErrInput", err)
	}
	for _, mode := range []RequestStateMode{ModeSigned, ModeEncrypted} {
		codec := mustCodec(t, testRing(t, 1), &RequestStateOptions{Mode: mode})
		if _, err := codec.Decode(testScope, "v1x."+rawBase64(make([]byte, 100))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: error %v, want ErrMalformed", mode, err)
		}
	}
}

// A codec may be made where the enforcement is lifted, and derive the keys of a new ring where it is not.
func TestXChaChaThatIsNoLongerAllowedIsAnError(t *testing.T) {
	if !fips140.Enforced() {
		t.Skip("needs GODEBUG=fips140=only")
	}
	ring := testRing(t, 1)
	var codec *RequestStateCodec
	var wire string
	fips140.WithoutEnforcement(func() {
		codec = mustCodec(t, ring, &RequestStateOptions{Mode: ModeEncryptedX})
		wire = mustEncode(t, codec, "state")
	})
	if err := ring.Replace(testKey(t, 2), testKey(t, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := codec.Encode(testScope, "state"); !errors.Is(err, ErrInput) {
		t.Errorf("Encode: error %v, want ErrInput", err)
	}
	if _, err := codec.Decode(testScope, wire); !errors.Is(err, ErrMalformed) {
		t.Errorf("Decode: error %v, want ErrMalformed", err)
	}
}

func TestModesHaveNames(t *testing.T) {
	for mode, want := range map[RequestStateMode]string{
		ModeSigned: "signed", ModeEncrypted: "encrypted", ModeEncryptedX: "encryptedX",
		3: "RequestStateMode(3)", -1: "RequestStateMode(-1)",
	} {
		if name := mode.String(); name != want {
			t.Errorf("mode %d is %q, want %q", int(mode), name, want)
		}
	}
}
