package gosdk_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// logLine is all that a line about a refused request may hold.
type logLine struct {
	Time, Level, Msg, Reason, Method, Target string
}

func TestLogHoldsReasonMethodAndTargetAlone(t *testing.T) {
	log := new(syncBuffer)
	boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{
		Logger:  slog.New(slog.NewJSONHandler(log, nil)),
		Subject: func(context.Context, mcp.Request) (string, error) { return "subject-of-the-caller", nil },
	})
	server, _ := newServer(boundary, nil)
	session := connect(t, server, manualClient(), "", nil)
	args := map[string]any{"password": "argument-of-the-call"}
	token := firstToken(t, session, args)
	wantError(t, callTool(t, session, "deploy", args, alter(token)), refusedState)

	var line logLine
	decoder := json.NewDecoder(strings.NewReader(log.String()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&line); err != nil {
		t.Fatalf("log %s: %v", log.String(), err)
	}
	line.Time = ""
	want := logLine{"", "WARN", "contoken: request refused", "signature", "tools/call", "deploy"}
	if line != want {
		t.Errorf("logged %+v, want %+v", line, want)
	}
	if decoder.More() {
		t.Errorf("more than one line: %s", log.String())
	}
}

func TestSealFailureIsLoggedWithoutSecrets(t *testing.T) {
	log := new(syncBuffer)
	boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{
		Logger:        slog.New(slog.NewTextHandler(log, nil)),
		Subject:       func(context.Context, mcp.Request) (string, error) { return "subject-of-the-caller", nil },
		MaxStateBytes: 32,
	})
	server, _ := newServer(boundary, nil)
	session := connect(t, server, manualClient(), "", nil)
	wantError(t, callTool(t, session, "deploy", map[string]any{"password": "argument-of-the-call"}, ""), internalError)
	got := log.String()
	for _, want := range []string{"level=ERROR", contoken.ErrTooLarge.Error(), "method=tools/call", "target=deploy"} {
		if !strings.Contains(got, want) {
			t.Errorf("log %q lacks %q", got, want)
		}
	}
	for _, secret := range []string{"secret-one", "subject-of-the-caller", "argument-of-the-call", "v1"} {
		if strings.Contains(got, secret) {
			t.Errorf("log %q holds %q", got, secret)
		}
	}
}

func TestExpiredIsNoWarning(t *testing.T) {
	log, clock := new(syncBuffer), newClock()
	boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{
		Logger: slog.New(slog.NewTextHandler(log, nil)), Now: clock.now,
	})
	server, _ := newServer(boundary, nil)
	session := connect(t, server, manualClient(), "", nil)
	token := firstToken(t, session, staging)
	clock.advance(contoken.DefaultRequestStateTTL)
	wantError(t, callTool(t, session, "deploy", staging, token), refusedState)
	if got := log.String(); !strings.Contains(got, "level=INFO") || !strings.Contains(got, "reason=expired") {
		t.Errorf("log %q", got)
	}
}
