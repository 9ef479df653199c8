package gosdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const audience = "gosdk-test"

// journal collects, from any goroutine, what handlers saw and what the boundary reported.
type journal[T any] struct {
	mu      sync.Mutex
	entries []T
}

func (j *journal[T]) add(entry T) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

func (j *journal[T]) all() []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

// syncBuffer is a bytes.Buffer for what transports and loggers write from goroutines of their own.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// clock is one that a test moves by hand.
type clock struct{ unix atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.unix.Store(1_800_000_000)
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.unix.Load(), 0) }

func (c *clock) advance(d time.Duration) { c.unix.Add(int64(d / time.Second)) }

func newRing(t testing.TB, keys ...contoken.Key) *contoken.KeyRing {
	t.Helper()
	ring, err := contoken.NewKeyRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// newBoundary returns a boundary on keys that logs nowhere and is of the test audience unless opts say otherwise.
func newBoundary(t testing.TB, keys *contoken.KeyRing, opts gosdk.Options) *gosdk.Boundary {
	t.Helper()
	if opts.Audience == "" {
		opts.Audience = audience
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	boundary, err := gosdk.NewBoundary(keys, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return boundary
}

func impl(name string) *mcp.Implementation { return &mcp.Implementation{Name: name, Version: "1"} }

var emptySchema = json.RawMessage(`{"type":"object"}`)

// The plaintext states of the flow that the tools, prompts and resources under test lead their clients through.
var rounds = []string{"", "secret-one", "secret-two"}

// ask is what a handler answers in each round but the last.
func ask() mcp.InputRequestMap {
	return mcp.InputRequestMap{"go_on": &mcp.ElicitParams{Message: "Go on?", RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{},
	}}}
}

var answer = mcp.InputResponseMap{"go_on": &mcp.ElicitResult{Action: "accept"}}

// nextRound returns the state that follows the one that came in, or "" after the last round.
func nextRound(state string) (next string, err error) {
	round := slices.Index(rounds, state)
	if round < 0 {
		return "", errors.New("a state that no round has")
	}
	if round == len(rounds)-1 {
		return "", nil
	}
	return rounds[round+1], nil
}

// newServer returns a server whose tools, prompts and resources lead through rounds, but for the tool lull, behind
// boundary if there is one, and the states that their handlers see.
func newServer(boundary *gosdk.Boundary, opts *mcp.ServerOptions) (*mcp.Server, *journal[string]) {
	server := mcp.NewServer(impl("server"), opts)
	seen := new(journal[string])
	for _, name := range []string{"deploy", "destroy"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: emptySchema}, toolHandler(seen))
		server.AddPrompt(&mcp.Prompt{Name: name}, promptHandler(seen))
		server.AddResource(&mcp.Resource{Name: name, URI: "test://" + name}, resourceHandler(seen))
	}
	server.AddTool(&mcp.Tool{Name: "lull", InputSchema: emptySchema}, lullHandler(seen))
	if boundary != nil {
		server.AddReceivingMiddleware(boundary.Middleware)
	}
	return server, seen
}

func toolHandler(seen *journal[string]) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		seen.add(req.Params.RequestState)
		next, err := nextRound(req.Params.RequestState)
		if err != nil || next == "" {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, err
		}
		return &mcp.CallToolResult{InputRequests: ask(), RequestState: next}, nil
	}
}

// lullHandler returns state without asking for anything, in complete results, as for a call that is to go on later.
func lullHandler(seen *journal[string]) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		seen.add(req.Params.RequestState)
		return &mcp.CallToolResult{RequestState: req.Params.RequestState + "secret"}, nil
	}
}

func promptHandler(seen *journal[string]) mcp.PromptHandler {
	return func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		seen.add(req.Params.RequestState)
		next, err := nextRound(req.Params.RequestState)
		if err != nil || next == "" {
			return &mcp.GetPromptResult{Description: "done", Messages: []*mcp.PromptMessage{}}, err
		}
		return &mcp.GetPromptResult{InputRequests: ask(), RequestState: next}, nil
	}
}

func resourceHandler(seen *journal[string]) mcp.ResourceHandler {
	return func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		seen.add(req.Params.RequestState)
		next, err := nextRound(req.Params.RequestState)
		if err != nil || next == "" {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: "done"}}}, err
		}
		return &mcp.ReadResourceResult{InputRequests: ask(), RequestState: next}, nil
	}
}

// manualClient gets input-required results as they are, so that a test can retry as an attacker would.
func manualClient() *mcp.Client {
	return mcp.NewClient(impl("manual"), &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
}

// promptClient answers every question at once and has the SDK retry.
func promptClient() *mcp.Client {
	return mcp.NewClient(impl("prompt"), &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
}

// connect connects client and server in memory. All that they say is copied to wire, unless it is nil.
func connect(t testing.TB, server *mcp.Server, client *mcp.Client, version string, wire io.Writer) *mcp.ClientSession {
	t.Helper()
	var serverSide, clientSide mcp.Transport
	serverSide, clientSide = mcp.NewInMemoryTransports()
	if wire != nil { // on the side that reads an answer before the test goes on
		clientSide = &mcp.LoggingTransport{Transport: clientSide, Writer: wire}
	}
	serverSession, err := server.Connect(t.Context(), serverSide, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), clientSide, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		serverSession.Wait()
	})
	return session
}

// serveHTTP serves on a loopback port until the test ends and returns the URL. Every bearer token is accepted and is
// its user's id, but for "nobody", which has none; no token is an anonymous request.
func serveHTTP(t testing.TB, handler http.Handler) string {
	t.Helper()
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		info := &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}
		if token == "nobody" {
			info.UserID = ""
		}
		return info, nil
	}
	authenticated := auth.RequireBearerToken(verify, nil)(handler)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			handler.ServeHTTP(w, r)
			return
		}
		authenticated.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func streamable(server *mcp.Server, stateless bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: stateless})
}

// bearer adds the access token of a user to every request.
type bearer string

func (user bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(user))
	return http.DefaultTransport.RoundTrip(req)
}

// dial connects client over HTTP as user, or without an access token if user is empty.
func dial(t testing.TB, url string, client *mcp.Client, user, version string) *mcp.ClientSession {
	t.Helper()
	httpClient := new(http.Client)
	if user != "" {
		httpClient.Transport = bearer(user)
	}
	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: httpClient, DisableStandaloneSSE: true}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// firstToken calls the deploy tool and returns the token of the first round.
func firstToken(t testing.TB, session *mcp.ClientSession, args any) string {
	t.Helper()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	if !res.NeedsInput() || res.RequestState == "" {
		t.Fatalf("the first round: NeedsInput %t, requestState %q", res.NeedsInput(), res.RequestState)
	}
	return res.RequestState
}

// lull calls the lull tool and returns its new token.
func lull(t testing.TB, session *mcp.ClientSession, token string) (string, error) {
	t.Helper()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "lull", RequestState: token})
	if err != nil {
		return "", err
	}
	if res.NeedsInput() || !strings.HasPrefix(res.RequestState, "v1e.") {
		t.Fatalf("NeedsInput %t, requestState %q; want a complete result", res.NeedsInput(), res.RequestState)
	}
	return res.RequestState, nil
}

// Errors as the client gets them, whole.
var (
	refusedState = jsonrpc.Error{
		Code: -32602, Message: "invalid or expired requestState", Data: []byte(`{"reason":"invalid_request_state"}`),
	}
	refusedCursor = jsonrpc.Error{
		Code: -32602, Message: "invalid or expired cursor", Data: []byte(`{"reason":"invalid_cursor"}`),
	}
	internalError = jsonrpc.Error{Code: -32603, Message: "internal error"}
	anonymous     = jsonrpc.Error{Code: -32600, Message: "authentication required"}
)

func wantError(t testing.TB, err error, want jsonrpc.Error) {
	t.Helper()
	var got *jsonrpc.Error
	if !errors.As(err, &got) {
		t.Fatalf("error %v, want %+v", err, want)
	}
	if got.Code != want.Code || got.Message != want.Message || !bytes.Equal(got.Data, want.Data) {
		t.Fatalf("error %d %q %s, want %d %q %s", got.Code, got.Message, got.Data, want.Code, want.Message, want.Data)
	}
}
