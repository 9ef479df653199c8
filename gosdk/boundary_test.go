package gosdk_test

import (
	"context"
	"crypto/fips140"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// run leads a client of the SDK, which retries by itself, to the end of a flow.
func run(t *testing.T, session *mcp.ClientSession, method string) {
	t.Helper()
	done := false
	var err error
	switch method {
	case "tools/call":
		var res *mcp.CallToolResult
		res, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy", Arguments: staging})
		done = err == nil && len(res.Content) == 1 && res.Content[0].(*mcp.TextContent).Text == "done"
	case "prompts/get":
		var res *mcp.GetPromptResult
		res, err = session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "deploy"})
		done = err == nil && res.Description == "done"
	case "resources/read":
		var res *mcp.ReadResourceResult
		res, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://deploy"})
		done = err == nil && len(res.Contents) == 1 && res.Contents[0].Text == "done"
	}
	if err != nil || !done {
		t.Fatalf("%s: done %t, error %v", method, done, err)
	}
}

// prefixes returns the modes that may be used here, with what their tokens start with.
func prefixes() map[gosdk.Mode]string {
	modes := map[gosdk.Mode]string{
		gosdk.ModeEncrypted: "v1e.", gosdk.ModeEncryptedX: "v1x.", gosdk.ModeSigned: "v1.",
	}
	if fips140.Enforced() {
		delete(modes, gosdk.ModeEncryptedX)
	}
	return modes
}

func TestRoundsWithPlaintextHandlers(t *testing.T) {
	for mode := range prefixes() {
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			server, seen := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{Mode: mode}), nil)
			wire := new(syncBuffer)
			run(t, connect(t, server, promptClient(), "", wire), method)
			if got := seen.all(); !slices.Equal(got, rounds) {
				t.Errorf("mode %d, %s: handlers saw %q, want %q", mode, method, got, rounds)
			}
			if strings.Contains(wire.String(), "secret") {
				t.Errorf("mode %d, %s: plaintext state on the wire", mode, method)
			}
		}
	}
}

func TestModesAreThoseOfTheCodec(t *testing.T) {
	for mode, prefix := range prefixes() {
		server, _ := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{Mode: mode}), nil)
		if token := firstToken(t, connect(t, server, manualClient(), "", nil), nil); !strings.HasPrefix(token, prefix) {
			t.Errorf("mode %d: token %.8s…, want prefix %s", mode, token, prefix)
		}
	}
}

func TestTwoFlowsHaveDifferentTokens(t *testing.T) {
	server, _ := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}), nil)
	session := connect(t, server, manualClient(), "", nil)
	first, second := firstToken(t, session, nil), firstToken(t, session, nil)
	if first == second {
		t.Error("two flows have the same token")
	}
}

// The SDK marks a result with state but without questions complete, and sends the state.
func TestStateOfCompleteResultIsSealed(t *testing.T) {
	server, seen := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}), nil)
	session := connect(t, server, manualClient(), "", nil)
	token, err := lull(t, session, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lull(t, session, token); err != nil {
		t.Fatal(err)
	}
	if got := seen.all(); !slices.Equal(got, []string{"", "secret"}) {
		t.Errorf("handler saw %q", got)
	}
}

// Conformance demands that a client may answer without state; only the handler knows whether it needs one.
func TestAnswersWithoutStateReachTheHandler(t *testing.T) {
	server, seen := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}), nil)
	session := connect(t, server, manualClient(), "", nil)
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy", InputResponses: answer})
	if err != nil || !slices.Equal(seen.all(), []string{""}) {
		t.Errorf("error %v, handler saw %q", err, seen.all())
	}
}

// One call, spelled differently.
func TestArgumentsAreComparedByMeaning(t *testing.T) {
	spellings := map[string][]any{
		"none":    {nil, json.RawMessage("null"), json.RawMessage("{}"), json.RawMessage(" { } ")},
		"members": {json.RawMessage(`{"a":1,"b":[2.50]}`), json.RawMessage(`{ "b":[25e-1], "\u0061":1 }`)},
	}
	for name, spellings := range spellings {
		server, seen := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}), nil)
		session := connect(t, server, manualClient(), "", nil)
		token := firstToken(t, session, spellings[0])
		for _, args := range spellings {
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{
				Name: "deploy", Arguments: args, InputResponses: answer, RequestState: token,
			})
			if err != nil {
				t.Errorf("%s: arguments %s: %v", name, args, err)
			}
		}
		if got := seen.all(); len(got) != 1+len(spellings) || got[1] != rounds[1] {
			t.Errorf("%s: handler saw %q", name, got)
		}
	}
}

func TestPromptWithoutArgumentsIsPromptWithNone(t *testing.T) {
	server, _ := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}), nil)
	session := connect(t, server, manualClient(), "", nil)
	res, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "deploy"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "deploy", Arguments: map[string]string{}, InputResponses: answer, RequestState: res.RequestState,
	})
	if err != nil {
		t.Error(err)
	}
}

// The SDK keeps the request for its own second call, and a handler may do with its arguments what it likes.
func TestRequestIsCopied(t *testing.T) {
	boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{})
	first := &mcp.GetPromptRequest{
		Params: &mcp.GetPromptParams{Name: "deploy", Arguments: map[string]string{"env": "staging"}},
		Extra:  new(mcp.RequestExtra),
	}
	handler := boundary.Middleware(func(_ context.Context, _ string, req mcp.Request) (mcp.Result, error) {
		r := req.(*mcp.GetPromptRequest)
		if r.Extra != first.Extra {
			t.Error("the handler's request lacks the Extra of the original")
		}
		got := r.Params.RequestState
		r.Params.Arguments["env"] = "set by the handler"
		r.Params.RequestState, r.Params.Name, r.Extra = "set by the handler", "", nil
		return &mcp.GetPromptResult{RequestState: got + "secret"}, nil
	})
	res, err := handler(t.Context(), "prompts/get", first)
	if err != nil {
		t.Fatal(err)
	}
	if first.Params.RequestState != "" || first.Params.Name != "deploy" || first.Extra == nil {
		t.Errorf("the caller's request became %+v with params %+v", first, first.Params)
	}
	again := &mcp.GetPromptRequest{Extra: first.Extra, Params: &mcp.GetPromptParams{
		Name: "deploy", Arguments: map[string]string{"env": "staging"}, RequestState: res.(*mcp.GetPromptResult).RequestState,
	}}
	if _, err := handler(t.Context(), "prompts/get", again); err != nil {
		t.Errorf("the token is bound to the arguments that the handler left: %v", err)
	}
	if !strings.HasPrefix(again.Params.RequestState, "v1e.") {
		t.Error("plaintext was written to the caller's params")
	}
}

func TestResultIsCopiedWhole(t *testing.T) {
	cause := errors.New("kept by the SDK for its sending middleware")
	original := &mcp.CallToolResult{RequestState: "secret", Meta: mcp.Meta{"k": "v"}}
	original.SetError(cause)
	handler := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}).Middleware(
		func(context.Context, string, mcp.Request) (mcp.Result, error) { return original, nil })
	res, err := handler(t.Context(), "tools/call", &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "deploy"}})
	if err != nil {
		t.Fatal(err)
	}
	got := res.(*mcp.CallToolResult)
	if got.GetError() != cause || !got.IsError || got.Meta["k"] != "v" || len(got.Content) != 1 {
		t.Errorf("the sealed result is %+v", got)
	}
	if original.RequestState != "secret" {
		t.Error("the handler's result was changed")
	}
}

func TestResultWithoutTokenIsPassedOn(t *testing.T) {
	boundary := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{})
	for _, want := range []mcp.Result{&mcp.CallToolResult{}, (*mcp.CallToolResult)(nil), nil} {
		handler := boundary.Middleware(func(context.Context, string, mcp.Request) (mcp.Result, error) { return want, nil })
		got, err := handler(t.Context(), "tools/call", &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}})
		if err != nil || got != want {
			t.Errorf("result %v, error %v; want the handler's own %v", got, err, want)
		}
	}
}

func TestHandlerErrorIsPassedOn(t *testing.T) {
	want := errors.New("the handler's error")
	handler := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}).Middleware(
		func(context.Context, string, mcp.Request) (mcp.Result, error) {
			return &mcp.CallToolResult{RequestState: "secret"}, want
		})
	res, err := handler(t.Context(), "tools/call", &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}})
	if res != nil || err != want {
		t.Errorf("result %v, error %v; want no result and the handler's error", res, err)
	}
}

func TestOtherMethodsPassThrough(t *testing.T) {
	server, _ := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{RequireSubject: true}), nil)
	session := connect(t, server, manualClient(), "2025-11-25", nil)
	if err := session.Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestNewBoundaryRefusesBadOptions(t *testing.T) {
	ring := contoken.EphemeralKeyRing()
	for name, tc := range map[string]struct {
		keys *contoken.KeyRing
		opts *gosdk.Options
		want error
	}{
		"no options":       {ring, nil, contoken.ErrInput},
		"no audience":      {ring, &gosdk.Options{}, contoken.ErrInput},
		"audience":         {ring, &gosdk.Options{Audience: "a\x00b"}, contoken.ErrInput},
		"no ring":          {nil, &gosdk.Options{Audience: "a"}, contoken.ErrKey},
		"zero ring":        {new(contoken.KeyRing), &gosdk.Options{Audience: "a"}, contoken.ErrKey},
		"mode":             {ring, &gosdk.Options{Audience: "a", Mode: 3}, contoken.ErrInput},
		"negative mode":    {ring, &gosdk.Options{Audience: "a", Mode: -1}, contoken.ErrInput},
		"state TTL":        {ring, &gosdk.Options{Audience: "a", StateTTL: -time.Second}, contoken.ErrInput},
		"cursor TTL":       {ring, &gosdk.Options{Audience: "a", CursorTTL: time.Millisecond}, contoken.ErrInput},
		"max state length": {ring, &gosdk.Options{Audience: "a", MaxStateBytes: -1}, contoken.ErrInput},
	} {
		if boundary, err := gosdk.NewBoundary(tc.keys, tc.opts); boundary != nil || !errors.Is(err, tc.want) {
			t.Errorf("%s: boundary %v, error %v; want %v", name, boundary, err, tc.want)
		}
	}
}
