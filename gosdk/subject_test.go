package gosdk_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestTokensOfTwoBearerUsers(t *testing.T) {
	for name, stateless := range map[string]bool{"stateless": true, "stateful": false} {
		t.Run(name, func(t *testing.T) {
			boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{RequireSubject: true})
			server, seen := newServer(boundary, &mcp.ServerOptions{PageSize: 1})
			url := serveHTTP(t, streamable(server, stateless))
			alice, bob := dial(t, url, manualClient(), "alice", ""), dial(t, url, manualClient(), "bob", "")
			state, err := lull(t, alice, "")
			if err != nil {
				t.Fatal(err)
			}
			cursor := cursorToken(t, alice)

			_, err = lull(t, bob, state)
			wantError(t, err, refusedState)
			_, err = bob.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
			wantError(t, err, refusedCursor)
			if _, err := lull(t, alice, state); err != nil {
				t.Errorf("alice's own state: %v", err)
			}
			if _, err := alice.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor}); err != nil {
				t.Errorf("alice's own cursor: %v", err)
			}
			if got := seen.all(); !slices.Equal(got, []string{"", "secret"}) {
				t.Errorf("handlers saw %q, want alice's two calls", got)
			}
		})
	}
}

func TestRoundsOverHTTP(t *testing.T) {
	boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{})
	server, seen := newServer(boundary, nil)
	session := dial(t, serveHTTP(t, streamable(server, true)), promptClient(), "alice", "")
	for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
		run(t, session, method)
	}
	if got, want := seen.all(), slices.Concat(rounds, rounds, rounds); !slices.Equal(got, want) {
		t.Errorf("handlers saw %q, want %q", got, want)
	}
}

func TestTokenWithoutUserIDIsAnInternalError(t *testing.T) {
	log := new(syncBuffer)
	boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	server, seen := newServer(boundary, nil)
	session := dial(t, serveHTTP(t, streamable(server, true)), manualClient(), "nobody", "")
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy"})
	wantError(t, err, internalError)
	if got := seen.all(); len(got) != 0 {
		t.Errorf("handlers saw %q", got)
	}
	if got := log.String(); !strings.Contains(got, "TokenInfo.UserID") || !strings.Contains(got, "Options.Subject") {
		t.Errorf("log %q does not say what to set", got)
	}
}

func TestRequireSubjectRefusesAnonymousCallers(t *testing.T) {
	r := newRig(t, contoken.EphemeralKeyRing(), gosdk.Options{RequireSubject: true})
	_, err := r.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy"})
	wantError(t, err, anonymous)
	_, err = r.session.ListTools(t.Context(), nil)
	wantError(t, err, anonymous)
	r.wantRejections(t, 0,
		gosdk.Rejection{Method: "tools/call", Target: "deploy", Reason: "anonymous"},
		gosdk.Rejection{Method: "tools/list", Reason: "anonymous"})
}

// An anonymous caller is a caller like any other: what it was given does not open for a user, nor the reverse.
func TestAnonymousCallerOverHTTP(t *testing.T) {
	server, _ := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}), nil)
	url := serveHTTP(t, streamable(server, true))
	alice, stranger := dial(t, url, manualClient(), "alice", ""), dial(t, url, manualClient(), "", "")
	token := firstToken(t, stranger, staging)
	if err := callTool(t, stranger, "deploy", staging, token); err != nil {
		t.Errorf("the anonymous caller's own state: %v", err)
	}
	wantError(t, callTool(t, alice, "deploy", staging, token), refusedState)
	wantError(t, callTool(t, stranger, "deploy", staging, firstToken(t, alice, staging)), refusedState)
}

// The SDK's older SSE transport says nothing of single requests; the session is that of who opened it.
func TestSubjectOverSSE(t *testing.T) {
	server, _ := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{RequireSubject: true}), nil)
	url := serveHTTP(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	dialSSE := func(user string) *mcp.ClientSession {
		transport := &mcp.SSEClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(user)}}
		session, err := manualClient().Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		return session
	}
	token, err := lull(t, dialSSE("alice"), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = lull(t, dialSSE("bob"), token)
	wantError(t, err, refusedState)
}

// Where the transport says what token a single request came with, that of the session does not count.
func TestTokenOfTheRequestGoesFirst(t *testing.T) {
	const none = "no token"
	answers := map[string]string{}
	url := serveHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, user := range []string{"bob", none} {
			extra := new(mcp.RequestExtra)
			if user != none {
				extra.TokenInfo = &auth.TokenInfo{UserID: user}
			}
			subject, err := gosdk.TokenUserID(r.Context(), &mcp.CallToolRequest{Extra: extra})
			if err != nil {
				t.Error(err)
			}
			answers[user] = subject
		}
	}))
	res, err := (&http.Client{Transport: bearer("alice")}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if answers["bob"] != "bob" || answers[none] != "" {
		t.Errorf("subjects %q in a session of alice, want bob and nobody", answers)
	}
}

type tenantKey struct{}

func TestSubjectOption(t *testing.T) {
	opts := gosdk.Options{Subject: func(ctx context.Context, _ mcp.Request) (string, error) {
		tenant, _ := ctx.Value(tenantKey{}).(string)
		if tenant == "broken" {
			return "", errors.New("the tenant lookup failed")
		}
		return tenant, nil
	}}
	log := new(syncBuffer)
	opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	handler := newBoundary(t, contoken.EphemeralKeyRing(), opts).Middleware(
		func(context.Context, string, mcp.Request) (mcp.Result, error) {
			return &mcp.CallToolResult{RequestState: "secret"}, nil
		})
	call := func(tenant, token string) (string, error) {
		ctx := context.WithValue(t.Context(), tenantKey{}, tenant)
		req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "deploy", RequestState: token}}
		res, err := handler(ctx, "tools/call", req)
		if err != nil {
			return "", err
		}
		return res.(*mcp.CallToolResult).RequestState, nil
	}
	token, err := call("one", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call("one", token); err != nil {
		t.Error(err)
	}
	_, err = call("two", token)
	wantError(t, err, refusedState)
	_, err = call("broken", "")
	wantError(t, err, internalError)
	if !strings.Contains(log.String(), "the tenant lookup failed") {
		t.Errorf("log %q lacks the cause", log.String())
	}
	_, err = call("NUL\x00", "")
	wantError(t, err, internalError)
}
