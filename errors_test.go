package contoken

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestErrorsFormTwoFamilies(t *testing.T) {
	for _, err := range []error{ErrMalformed, ErrSignature, ErrScope, ErrNotYetValid, ErrRedeemed} {
		if !errors.Is(err, ErrInvalid) || errors.Is(err, ErrExpired) {
			t.Errorf("%v: want an ErrInvalid that is no ErrExpired", err)
		}
	}
	for _, err := range []error{ErrExpired, ErrTooLarge, ErrInput, ErrKey} {
		if errors.Is(err, ErrInvalid) {
			t.Errorf("%v is ErrInvalid", err)
		}
	}
}

func TestATDCode(t *testing.T) {
	for err, want := range map[error]int{
		nil:                              0,
		ErrExpired:                       1020,
		ErrInvalid:                       1021,
		ErrMalformed:                     1021,
		ErrSignature:                     1021,
		ErrScope:                         1021,
		ErrNotYetValid:                   1021,
		ErrRedeemed:                      1021,
		ErrTooLarge:                      0,
		ErrInput:                         0,
		ErrKey:                           0,
		errors.New("of another package"): 0,
	} {
		if code := ATDCode(err); code != want {
			t.Errorf("%v: code %d, want %d", err, code, want)
		}
		if err == nil {
			continue
		}
		if code := ATDCode(fmt.Errorf("page 2: %w", err)); code != want {
			t.Errorf("%v, wrapped: code %d, want %d", err, code, want)
		}
	}
}

// canary stands for whatever a caller or a client hands in. It is valid as a subject, a tool, a state and base64url.
const canary = "CanaryQ8xZ3vT7mK1pW5"

func TestErrorsQuoteNothing(t *testing.T) {
	ring := testRing(t, 1)
	issuer := mustIssuer(t, ring, &CursorOptions{Now: at(testTime)})
	codec := mustCodec(t, ring, &RequestStateOptions{Now: at(testTime), MaxBytes: 400})
	scope := Scope{Tool: canary, Subject: canary}
	cursor, err := issuer.Issue(scope, 1, []byte(canary))
	if err != nil {
		t.Fatal(err)
	}
	wire, err := codec.Encode(scope, `"`+canary+`"`)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := issuer.Verify(scope, cursor)
	if err != nil {
		t.Fatal(err)
	}
	nul, notUTF8 := canary+"\x00"+canary, canary+"\xff"+canary
	bad := Scope{Tool: nul, Subject: notUTF8}
	type inner struct{ Count int }
	var failures []error
	fails := func(_ any, err error) {
		t.Helper()
		if err == nil {
			t.Error("no error")
			return
		}
		failures = append(failures, err)
	}
	fails(NewKey([]byte(canary)))
	fails(ParseKey(canary))
	fails(ParseKey(strings.Repeat("ab", 33)))
	fails(ParseKeyRing(canary + "," + canary))
	t.Setenv("CONTOKEN_TEST_KEYS", canary)
	fails(KeyRingFromEnv("CONTOKEN_TEST_KEYS"))
	fails(KeyRingFromEnvOrEphemeral("CONTOKEN_TEST_KEYS"))
	fails(NewCursorIssuer(ring, &CursorOptions{Audience: nul}))
	fails(NewRequestStateCodec(ring, &RequestStateOptions{Audience: notUTF8}))
	fails(issuer.Issue(bad, 1, nil))
	fails(issuer.Issue(Scope{Tool: canary, Subject: notUTF8}, 1, nil))
	fails(issuer.Issue(scope, 0, []byte(canary)))
	fails(issuer.Issue(scope, 1, []byte(strings.Repeat(canary, 20))))
	fails(issuer.Issue(Scope{Tool: strings.Repeat(canary, 20)}, 1, nil))
	fails(issuer.Verify(bad, cursor))
	fails(issuer.Verify(Scope{Tool: canary}, cursor))
	fails(issuer.Verify(scope, canary+cursor))
	fails(issuer.Verify(scope, canary))
	fails(mustIssuer(t, ring, &CursorOptions{Now: at(testTime + 1000)}).Verify(scope, cursor))
	fails(codec.Encode(bad, canary))
	fails(codec.Encode(scope, notUTF8))
	fails(codec.Encode(scope, strings.Repeat(canary, 30)))
	fails(codec.EncodeJSON(scope, map[string]any{canary: make(chan int)}))
	fails(codec.EncodeJSON(scope, notUTF8))
	fails(codec.Decode(bad, wire))
	fails(codec.Decode(Scope{Subject: canary}, wire))
	fails(codec.Decode(scope, wire+canary))
	fails(codec.Decode(scope, canary))
	fails(nil, codec.DecodeJSON(scope, wire, new(inner)))
	fails(nil, codec.DecodeJSON(scope, wire, canary))
	fails(nil, payload.DecodeOpaqueState(new(inner)))
	fails(EncodeOpaqueState(map[string]any{canary: make(chan int)}))
	fails(EncodeOpaqueState(notUTF8))
	fails(EncodeOpaqueState(strings.Repeat(canary, 20)))
	for _, args := range []string{`{"%s":1,"%[1]s":1}`, `"%s`, `{"a":%s}`, `"\u%s"`, `[1] %s`, "\"%s\xff\""} {
		fails(FingerprintArgs(fmt.Appendf(nil, args, canary)))
	}

	for _, err := range failures {
		text := strings.ToLower(err.Error())
		for _, secret := range []string{canary, cursor, wire, base64.StdEncoding.EncodeToString([]byte(canary))} {
			secret = strings.ToLower(secret)
			for i := range len(secret) - 5 {
				if strings.Contains(text, secret[i:i+6]) {
					t.Errorf("error %q quotes what it was given", err)
					break
				}
			}
		}
		if !strings.HasPrefix(err.Error(), "contoken: ") {
			t.Errorf("error %q does not name the package", err)
		}
	}
}
