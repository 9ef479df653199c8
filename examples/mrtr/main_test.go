package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contoken/contoken"
)

// The protections by their place in the list.
const (
	plain = iota
	signed
	encrypted
)

func TestOutput(t *testing.T) {
	want, err := os.ReadFile("testdata/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run(nil, protections, &stdout, &stderr); status != 0 || stderr.Len() > 0 {
		t.Fatalf("exit status %d, stderr %q", status, stderr.String())
	}
	if stdout.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", stdout.String(), want)
	}
}

func TestVerboseOutputAddsMessages(t *testing.T) {
	var brief, verbose, stderr bytes.Buffer
	if run(nil, protections, &brief, &stderr) != 0 || run([]string{"-v"}, protections, &verbose, &stderr) != 0 {
		t.Fatal(stderr.String())
	}
	var rest strings.Builder
	requests, responses := 0, 0
	for line := range strings.Lines(verbose.String()) {
		if message, ok := strings.CutPrefix(line, "--> "); ok {
			requests++
			checkJSON(t, message)
		} else if message, ok := strings.CutPrefix(line, "<-- "); ok {
			responses++
			checkJSON(t, message)
		} else {
			rest.WriteString(line)
		}
	}
	if rest.String() != brief.String() {
		t.Errorf("beside the messages stands\n%s", rest.String())
	}
	// Per protection: an approved call and its repetition, then a call without state and four attacks.
	if want := len(protections) * (4 + 5*3); requests != want || responses != want {
		t.Errorf("%d requests and %d responses, want %d of each", requests, responses, want)
	}
}

func checkJSON(t *testing.T, message string) {
	t.Helper()
	if !json.Valid([]byte(message)) {
		t.Errorf("not JSON: %s", message)
	}
}

func TestExitStatus(t *testing.T) {
	tests := map[string]struct {
		argument string
		status   int
		stderr   string
	}{
		"help":             {"-h", 0, usage},
		"unknown flag":     {"-x", 2, usage},
		"unknown argument": {"x", 2, usage},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := run([]string{test.argument}, nil, &stdout, &stderr)
			if status != test.status || !strings.HasSuffix(stderr.String(), test.stderr) || stdout.Len() > 0 {
				t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout.String(), stderr.String())
			}
		})
	}
}

func TestExitStatusWhereProtectionFails(t *testing.T) {
	unprotected := protections[plain]
	unprotected.secure = true
	checkFailure(t, unprotected, "not refused as it must be")
}

// faultyCodec fails where it should refuse.
type faultyCodec struct{ plainJSON }

func (c faultyCodec) DecodeJSON(scope contoken.Scope, wire string, v any) error {
	if strings.Contains(wire, "production") {
		return contoken.ErrInput
	}
	return c.plainJSON.DecodeJSON(scope, wire, v)
}

func TestExitStatusWhereAnAttackMeetsAnotherError(t *testing.T) {
	faulty := protections[plain]
	faulty.secure = true
	faulty.codec = func(func() time.Time) (stateCodec, error) { return faultyCodec{}, nil }
	checkFailure(t, faulty, "not refused as it must be")
}

func TestIsRefusalTakesTheExactErrorOnly(t *testing.T) {
	data := map[string]any{"reason": reasonInvalidState}
	if !isRefusal(&rpcError{codeInvalidParams, contoken.PublicMessage, data}) {
		t.Error("the refusal itself is not taken for one")
	}
	for _, err := range []error{
		nil,
		contoken.ErrInvalid,
		&rpcError{codeInternalError, contoken.PublicMessage, data},
		&rpcError{codeInvalidParams, contoken.ErrExpired.Error(), data},
		&rpcError{codeInvalidParams, contoken.PublicMessage, nil},
		&rpcError{codeInvalidParams, contoken.PublicMessage, map[string]any{"reason": "expired"}},
	} {
		if isRefusal(err) {
			t.Errorf("%v is taken for a refusal", err)
		}
	}
}

func TestExitStatusWhereAnAttackOnPlainJSONFails(t *testing.T) {
	protected := protections[signed]
	protected.secure = false
	checkFailure(t, protected, "without protection it must succeed")
}

// checkFailure expects p to fail under each attack, for that reason.
func checkFailure(t *testing.T, p protection, reason string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(nil, []protection{p}, &stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	for _, a := range p.attacks() {
		if want := a.name + ": " + reason; !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr.String())
		}
	}
}

func TestExitStatusWhereReadabilityIsNotAsClaimed(t *testing.T) {
	for _, p := range protections {
		p.secret = !p.secret
		var stderr bytes.Buffer
		if status := run(nil, []protection{p}, io.Discard, &stderr); status != 1 {
			t.Errorf("%s: exit status %d, want 1", p.title, status)
		}
		if want := "that the client can read the state is"; !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: stderr lacks %q:\n%s", p.title, want, stderr.String())
		}
	}
}

// The attack on encrypted state must hit the environment, or it shows less than it claims. The payload is that of the
// signed state, where it can be seen.
func TestRewriteEncryptedHitsTheEnvironment(t *testing.T) {
	payload := readToken(stateToConfirm(t, signed))
	if !strings.HasPrefix(payload[environmentOffset:], "staging") {
		t.Errorf("at %d of the payload stands %q", environmentOffset, payload[environmentOffset:])
	}
	state := stateToConfirm(t, encrypted)
	before, after := readToken(state), readToken(rewriteEncrypted(state))
	if len(before) != len(after) {
		t.Fatalf("%d bytes became %d", len(before), len(after))
	}
	for i := range before {
		at := i - nonceBytes - environmentOffset
		want := before[i]
		if 0 <= at && at < len("staging") {
			want ^= "staging"[at] ^ "preview"[at]
		}
		if after[i] != want {
			t.Errorf("byte %d is %#x, want %#x", i, after[i], want)
		}
	}
}

// stateToConfirm returns a state that says staging.
func stateToConfirm(t *testing.T, protection int) string {
	t.Helper()
	_, confirmation, err := startTrial(t, protection).alice.approve(approvedArguments)
	if err != nil {
		t.Fatal(err)
	}
	return *confirmation.RequestState
}

// A retry is a request of its own, so its id is another.
func TestClientNumbersItsRequests(t *testing.T) {
	var messages bytes.Buffer
	tr := startTrial(t, plain)
	tr.alice.messages = &messages
	if _, _, err := tr.alice.approve(approvedArguments); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{`--> {"jsonrpc":"2.0","id":1,`, `--> {"jsonrpc":"2.0","id":2,`} {
		if strings.Count(messages.String(), request) != 1 {
			t.Errorf("%q does not stand once in\n%s", request, messages.String())
		}
	}
}

func startTrial(t *testing.T, protection int) *trial {
	t.Helper()
	tr, err := newTrial(protections[protection], io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// A state lives for 10 minutes, and to the second.
func TestStateExpires(t *testing.T) {
	for _, protection := range []int{signed, encrypted} {
		tr := startTrial(t, protection)
		_, confirmation, err := tr.alice.approve(approvedArguments)
		if err != nil {
			t.Fatal(err)
		}
		tr.clock.advance(10 * time.Minute)
		if _, err := tr.alice.call(confirmation); !isRefusal(err) {
			t.Errorf("%s: after 10 minutes: %v", tr.title, err)
		}
		tr.clock.advance(-time.Second)
		if _, err := tr.alice.call(confirmation); err != nil {
			t.Errorf("%s: a second earlier: %v", tr.title, err)
		}
	}
}
