package gosdk_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// rig is a server whose rejections and handler calls are recorded, and a client that does as it is told.
type rig struct {
	session  *mcp.ClientSession
	seen     *journal[string]
	rejected *journal[gosdk.Rejection]
}

func newRig(t *testing.T, keys *contoken.KeyRing, opts gosdk.Options) rig {
	t.Helper()
	rejected := new(journal[gosdk.Rejection])
	opts.OnReject = func(_ context.Context, r gosdk.Rejection) { rejected.add(r) }
	server, seen := newServer(newBoundary(t, keys, opts), &mcp.ServerOptions{PageSize: 1})
	return rig{connect(t, server, manualClient(), "", nil), seen, rejected}
}

var (
	staging    = map[string]any{"env": "staging"}
	production = map[string]any{"env": "production"}
)

func callTool(t *testing.T, s *mcp.ClientSession, name string, args any, token string) error {
	_, err := s.CallTool(t.Context(), &mcp.CallToolParams{
		Name: name, Arguments: args, InputResponses: answer, RequestState: token,
	})
	return err
}

func getPrompt(t *testing.T, s *mcp.ClientSession, name, env, token string) error {
	_, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: name, Arguments: map[string]string{"env": env}, InputResponses: answer, RequestState: token,
	})
	return err
}

func readResource(t *testing.T, s *mcp.ClientSession, uri, token string) error {
	_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri, InputResponses: answer, RequestState: token})
	return err
}

// promptToken, resourceToken and cursorToken return genuine tokens.
func promptToken(t *testing.T, s *mcp.ClientSession) string {
	t.Helper()
	args := map[string]string{"env": "staging"}
	res, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "deploy", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return res.RequestState
}

func resourceToken(t *testing.T, s *mcp.ClientSession) string {
	t.Helper()
	res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://deploy"})
	if err != nil {
		t.Fatal(err)
	}
	return res.RequestState
}

func cursorToken(t *testing.T, s *mcp.ClientSession) string {
	t.Helper()
	res, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.NextCursor
}

// wantRejections checks that no request but the counted genuine ones reached a handler, and what was reported.
func (r rig) wantRejections(t *testing.T, handled int, want ...gosdk.Rejection) {
	t.Helper()
	if got := len(r.seen.all()); got != handled {
		t.Errorf("%d requests reached a handler, want %d", got, handled)
	}
	if got := r.rejected.all(); !slices.Equal(got, want) {
		t.Errorf("rejections %+v, want %+v", got, want)
	}
}

// alter changes one character, to another of the alphabet and before the last, which may hold unused bits.
func alter(token string) string {
	i := len(token) - 8
	if token[i] == 'A' {
		return token[:i] + "B" + token[i+1:]
	}
	return token[:i] + "A" + token[i+1:]
}

func TestStateAttacks(t *testing.T) {
	tool := func(name string, reason string) gosdk.Rejection {
		return gosdk.Rejection{Method: "tools/call", Target: name, Reason: reason}
	}
	for name, tc := range map[string]struct {
		attack func(t *testing.T, s *mcp.ClientSession) error
		want   gosdk.Rejection // with the reason that a signed token gives; an encrypted one says signature for scope
	}{
		"appended text": {func(t *testing.T, s *mcp.ClientSession) error {
			return callTool(t, s, "deploy", staging, firstToken(t, s, staging)+"\n")
		}, tool("deploy", "malformed")},
		"altered character": {func(t *testing.T, s *mcp.ClientSession) error {
			return callTool(t, s, "deploy", staging, alter(firstToken(t, s, staging)))
		}, tool("deploy", "signature")},
		"another tool": {func(t *testing.T, s *mcp.ClientSession) error {
			return callTool(t, s, "destroy", staging, firstToken(t, s, staging))
		}, tool("destroy", "scope")},
		"other arguments": {func(t *testing.T, s *mcp.ClientSession) error {
			return callTool(t, s, "deploy", production, firstToken(t, s, staging))
		}, tool("deploy", "scope")},
		"arguments left out": {func(t *testing.T, s *mcp.ClientSession) error {
			return callTool(t, s, "deploy", nil, firstToken(t, s, staging))
		}, tool("deploy", "scope")},
		"a duplicate argument": {func(t *testing.T, s *mcp.ClientSession) error {
			return callTool(t, s, "deploy", json.RawMessage(`{"env":"staging","env":"production"}`), firstToken(t, s, staging))
		}, tool("deploy", "input")},
		"a tool's on a prompt": {func(t *testing.T, s *mcp.ClientSession) error {
			return getPrompt(t, s, "deploy", "staging", firstToken(t, s, staging))
		}, gosdk.Rejection{Method: "prompts/get", Target: "deploy", Reason: "scope"}},
		"a prompt's on a tool": {func(t *testing.T, s *mcp.ClientSession) error {
			return callTool(t, s, "deploy", staging, promptToken(t, s))
		}, tool("deploy", "scope")},
		"another prompt": {func(t *testing.T, s *mcp.ClientSession) error {
			return getPrompt(t, s, "destroy", "staging", promptToken(t, s))
		}, gosdk.Rejection{Method: "prompts/get", Target: "destroy", Reason: "scope"}},
		"other prompt arguments": {func(t *testing.T, s *mcp.ClientSession) error {
			return getPrompt(t, s, "deploy", "production", promptToken(t, s))
		}, gosdk.Rejection{Method: "prompts/get", Target: "deploy", Reason: "scope"}},
		"another URI": {func(t *testing.T, s *mcp.ClientSession) error {
			return readResource(t, s, "test://destroy", resourceToken(t, s))
		}, gosdk.Rejection{Method: "resources/read", Target: "test://destroy", Reason: "scope"}},
		"a cursor": {func(t *testing.T, s *mcp.ClientSession) error {
			firstToken(t, s, staging)
			return callTool(t, s, "deploy", staging, cursorToken(t, s))
		}, tool("deploy", "scope")},
		"plaintext": {func(t *testing.T, s *mcp.ClientSession) error {
			firstToken(t, s, staging)
			return callTool(t, s, "deploy", staging, "secret-one")
		}, tool("deploy", "malformed")},
	} {
		for _, mode := range []gosdk.Mode{gosdk.ModeSigned, gosdk.ModeEncrypted} {
			r := newRig(t, contoken.EphemeralKeyRing(), gosdk.Options{Mode: mode})
			t.Run(name, func(t *testing.T) {
				wantError(t, tc.attack(t, r.session), refusedState)
				want := tc.want
				if mode == gosdk.ModeEncrypted && want.Reason == "scope" {
					want.Reason = "signature"
				}
				r.wantRejections(t, 1, want)
			})
		}
	}
}

func TestStateOfAnotherServiceOrKey(t *testing.T) {
	key := contoken.GenerateKey()
	home := newRig(t, newRing(t, key), gosdk.Options{})
	for name, other := range map[string]rig{
		"audience": newRig(t, newRing(t, key), gosdk.Options{Audience: "another service"}),
		"key":      newRig(t, newRing(t, contoken.GenerateKey()), gosdk.Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, callTool(t, other.session, "deploy", staging, firstToken(t, home.session, staging)), refusedState)
			other.wantRejections(t, 0, gosdk.Rejection{Method: "tools/call", Target: "deploy", Reason: "signature"})
		})
	}
}

func TestTokensExpire(t *testing.T) {
	clock := newClock()
	r := newRig(t, contoken.EphemeralKeyRing(), gosdk.Options{
		StateTTL: 20 * time.Second, CursorTTL: 10 * time.Second, Now: clock.now,
	})
	state, cursor := firstToken(t, r.session, staging), cursorToken(t, r.session)

	clock.advance(9 * time.Second)
	if _, err := r.session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor}); err != nil {
		t.Errorf("a cursor one second before its end: %v", err)
	}
	clock.advance(time.Second)
	_, err := r.session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
	wantError(t, err, refusedCursor)

	clock.advance(9 * time.Second)
	if err := callTool(t, r.session, "deploy", staging, state); err != nil {
		t.Errorf("a state one second before its end: %v", err)
	}
	clock.advance(time.Second)
	wantError(t, callTool(t, r.session, "deploy", staging, state), refusedState)
	r.wantRejections(t, 2,
		gosdk.Rejection{Method: "tools/list", Reason: "expired"},
		gosdk.Rejection{Method: "tools/call", Target: "deploy", Reason: "expired"})
}

// Zero TTLs are those of the core library: 10 minutes for a state and 5 for a cursor.
func TestDefaultTTLs(t *testing.T) {
	clock := newClock()
	r := newRig(t, contoken.EphemeralKeyRing(), gosdk.Options{Now: clock.now})
	state, cursor := firstToken(t, r.session, staging), cursorToken(t, r.session)
	clock.advance(contoken.DefaultCursorTTL)
	_, err := r.session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
	wantError(t, err, refusedCursor)
	if err := callTool(t, r.session, "deploy", staging, state); err != nil {
		t.Error(err)
	}
	clock.advance(contoken.DefaultRequestStateTTL - contoken.DefaultCursorTTL)
	wantError(t, callTool(t, r.session, "deploy", staging, state), refusedState)
}

func TestCursorAttacks(t *testing.T) {
	listTools := func(t *testing.T, s *mcp.ClientSession, cursor string) error {
		_, err := s.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
		return err
	}
	for name, tc := range map[string]struct {
		attack func(t *testing.T, s *mcp.ClientSession) error
		want   gosdk.Rejection
	}{
		"altered": {func(t *testing.T, s *mcp.ClientSession) error {
			return listTools(t, s, alter(cursorToken(t, s)))
		}, gosdk.Rejection{Method: "tools/list", Reason: "signature"}},
		"the SDK's own": {func(t *testing.T, s *mcp.ClientSession) error {
			return listTools(t, s, "Hf-BAwEBCXBhZ2VUb2tlbgH_ggABAQEHTGFzdFVJRAEMAAAACf-CAQRkcm9wAA==")
		}, gosdk.Rejection{Method: "tools/list", Reason: "malformed"}},
		"invented": {func(t *testing.T, s *mcp.ClientSession) error {
			return listTools(t, s, "next")
		}, gosdk.Rejection{Method: "tools/list", Reason: "malformed"}},
		"of tools for prompts": {func(t *testing.T, s *mcp.ClientSession) error {
			_, err := s.ListPrompts(t.Context(), &mcp.ListPromptsParams{Cursor: cursorToken(t, s)})
			return err
		}, gosdk.Rejection{Method: "prompts/list", Reason: "scope"}},
		"of tools for resources": {func(t *testing.T, s *mcp.ClientSession) error {
			_, err := s.ListResources(t.Context(), &mcp.ListResourcesParams{Cursor: cursorToken(t, s)})
			return err
		}, gosdk.Rejection{Method: "resources/list", Reason: "scope"}},
		"of tools for templates": {func(t *testing.T, s *mcp.ClientSession) error {
			_, err := s.ListResourceTemplates(t.Context(), &mcp.ListResourceTemplatesParams{Cursor: cursorToken(t, s)})
			return err
		}, gosdk.Rejection{Method: "resources/templates/list", Reason: "scope"}},
		"a requestState": {func(t *testing.T, s *mcp.ClientSession) error {
			return listTools(t, s, resourceToken(t, s))
		}, gosdk.Rejection{Method: "tools/list", Reason: "scope"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, contoken.EphemeralKeyRing(), gosdk.Options{Mode: gosdk.ModeSigned})
			wantError(t, tc.attack(t, r.session), refusedCursor)
			if got := r.rejected.all(); !slices.Equal(got, []gosdk.Rejection{tc.want}) {
				t.Errorf("rejections %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Prompt arguments arrive decoded, and what is not UTF-8 must not be patched up into something that collides.
func TestPromptArgumentsThatAreNotUTF8(t *testing.T) {
	handler := newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}).Middleware(
		func(context.Context, string, mcp.Request) (mcp.Result, error) {
			return &mcp.GetPromptResult{RequestState: "secret"}, nil
		})
	call := func(args map[string]string) error {
		_, err := handler(t.Context(), "prompts/get", &mcp.GetPromptRequest{Params: &mcp.GetPromptParams{Arguments: args}})
		return err
	}
	if err := call(map[string]string{"env": "\ufffd"}); err != nil {
		t.Error(err)
	}
	wantError(t, call(map[string]string{"env": "\xff"}), internalError)
	wantError(t, call(map[string]string{"\xff": "staging"}), internalError)
}

// A request whose arguments cannot be bound is refused where a token is involved and nowhere else.
func TestUnbindableArguments(t *testing.T) {
	r := newRig(t, contoken.EphemeralKeyRing(), gosdk.Options{})
	duplicate := json.RawMessage(`{"env":"staging","env":"production"}`)
	wantError(t, callTool(t, r.session, "deploy", duplicate, ""), internalError)

	server := mcp.NewServer(impl("server"), nil)
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: emptySchema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	server.AddReceivingMiddleware(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}).Middleware)
	if err := callTool(t, connect(t, server, manualClient(), "", nil), "echo", duplicate, ""); err != nil {
		t.Errorf("a call without tokens: %v", err)
	}
}

func TestMaxStateBytes(t *testing.T) {
	keys := newRing(t, contoken.GenerateKey())
	roomy, tight := newRig(t, keys, gosdk.Options{}), newRig(t, keys, gosdk.Options{MaxStateBytes: 64})
	wantError(t, callTool(t, tight.session, "deploy", staging, ""), internalError)
	wantError(t, callTool(t, tight.session, "deploy", staging, firstToken(t, roomy.session, staging)), refusedState)
	tight.wantRejections(t, 1, gosdk.Rejection{Method: "tools/call", Target: "deploy", Reason: "malformed"})
	if cursor := cursorToken(t, tight.session); len(cursor) <= 64 {
		t.Errorf("cursor of %d characters: too short for this test", len(cursor))
	}
}

// A target is what the client sent: of any length, with any character.
func TestStrangeTargets(t *testing.T) {
	r := newRig(t, contoken.EphemeralKeyRing(), gosdk.Options{})
	token := firstToken(t, r.session, staging)
	long := strings.Repeat("x", 255) + "é" + strings.Repeat("x", 1<<16)
	wantError(t, callTool(t, r.session, long, staging, token), refusedState)
	wantError(t, callTool(t, r.session, "deploy\x00", staging, token), refusedState)
	r.wantRejections(t, 1,
		gosdk.Rejection{Method: "tools/call", Target: long[:255], Reason: "signature"},
		gosdk.Rejection{Method: "tools/call", Target: "deploy\x00", Reason: "input"})
}
