package gosdk_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// counter is a tool whose state counts its rounds, up to flowRounds.
func counter(rounds *journal[string]) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		rounds.add(req.Params.RequestState)
		round, _ := strconv.Atoi(req.Params.RequestState) // 0 without a state
		if round == flowRounds {
			return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
		}
		return &mcp.CallToolResult{InputRequests: ask(), RequestState: strconv.Itoa(round + 1)}, nil
	}
}

const flowRounds = 6

// instance is one server of a fleet. It has its key ring and boundary for itself, like another process.
type instance struct {
	ring    *contoken.KeyRing
	handler http.Handler
	rounds  *journal[string]
}

func newInstance(t *testing.T, keys ...contoken.Key) instance {
	t.Helper()
	i := instance{ring: newRing(t, keys...), rounds: new(journal[string])}
	server := mcp.NewServer(impl("instance"), nil)
	server.AddTool(&mcp.Tool{Name: "count", InputSchema: emptySchema}, counter(i.rounds))
	server.AddReceivingMiddleware(newBoundary(t, i.ring, gosdk.Options{}).Middleware)
	i.handler = streamable(server, true)
	return i
}

// alternate sends every tools/call to the other instance than the one before.
func alternate(a, b instance) http.Handler {
	var calls atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/call" && calls.Add(1)%2 == 0 {
			b.handler.ServeHTTP(w, r)
			return
		}
		a.handler.ServeHTTP(w, r)
	})
}

// rotation is the steps by which a fleet changes its key, in the order that KeyRing.Replace gives.
type rotation struct {
	mu    sync.Mutex
	steps []func() error
}

func newRotation(a, b instance, older, newer contoken.Key) *rotation {
	return &rotation{steps: []func() error{
		func() error { return a.ring.Replace(older, newer) },
		func() error { return b.ring.Replace(older, newer) },
		func() error { return a.ring.Replace(newer, older) },
		func() error { return b.ring.Replace(newer, older) },
	}}
}

// client answers every question, after the next step.
func (r *rotation) client() *mcp.Client {
	return mcp.NewClient(impl("client"), &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, r.next()
		},
	})
}

func (r *rotation) next() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.steps) == 0 {
		return nil
	}
	step := r.steps[0]
	r.steps = r.steps[1:]
	return step()
}

func TestFlowOverTwoInstancesWhileKeysRotate(t *testing.T) {
	older, newer := contoken.GenerateKey(), contoken.GenerateKey()
	a, b := newInstance(t, older), newInstance(t, older)
	keys := newRotation(a, b, older, newer)
	// All tokens of a single flow but the last are spent, so the old key can go at its end.
	keys.steps = append(keys.steps,
		func() error { return a.ring.Replace(newer) },
		func() error { return b.ring.Replace(newer) })
	session := dial(t, serveHTTP(t, alternate(a, b)), keys.client(), "alice", "")
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "count"}); err != nil {
		t.Fatal(err)
	}
	if len(keys.steps) != 0 {
		t.Errorf("%d steps of the rotation are left", len(keys.steps))
	}
	gotA, gotB := a.rounds.all(), b.rounds.all()
	if !slices.Equal(gotA, []string{"", "2", "4", "6"}) || !slices.Equal(gotB, []string{"1", "3", "5"}) {
		t.Errorf("instance A served rounds %q and B %q, want them to take turns", gotA, gotB)
	}
}

func TestManyFlowsWhileKeysRotate(t *testing.T) {
	const clients, flowsEach = 4, 5
	older, newer := contoken.GenerateKey(), contoken.GenerateKey()
	a, b := newInstance(t, older), newInstance(t, older)
	keys := newRotation(a, b, older, newer)
	url := serveHTTP(t, alternate(a, b))
	var flows sync.WaitGroup
	for range clients {
		session := dial(t, url, keys.client(), "alice", "")
		flows.Go(func() {
			for range flowsEach {
				if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "count"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	flows.Wait()
	if got, want := len(a.rounds.all())+len(b.rounds.all()), clients*flowsEach*(flowRounds+1); got != want {
		t.Errorf("%d rounds served, want %d", got, want)
	}
}

// The SDK asks an older client itself and calls the handler again, once, with state that never leaves the process. What
// goes out after that is sealed.
func TestLegacyClient(t *testing.T) {
	wire := new(syncBuffer)
	for name, connectTo := range map[string]func(*mcp.Server) *mcp.ClientSession{
		"in memory": func(server *mcp.Server) *mcp.ClientSession {
			return connect(t, server, promptClient(), "2025-11-25", wire)
		},
		"stateful HTTP": func(server *mcp.Server) *mcp.ClientSession {
			return dial(t, serveHTTP(t, streamable(server, false)), promptClient(), "alice", "2025-11-25")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, seen := newServer(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}), nil)
			session := connectTo(server)
			run(t, session, "tools/call")
			run(t, session, "prompts/get")
			if got, want := seen.all(), slices.Concat(rounds, rounds); !slices.Equal(got, want) {
				t.Errorf("handlers saw %q, want %q", got, want)
			}
			wantError(t, callTool(t, session, "deploy", nil, "secret-two"), refusedState)
			token, err := lull(t, session, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lull(t, session, token); err != nil {
				t.Error(err)
			}
		})
	}
	if said := wire.String(); !strings.Contains(said, `"requestState":"v1e.`) || strings.Contains(said, rounds[1]) {
		t.Errorf("the two said %s", said)
	}
}

// The SDK (1.7 and 1.8) fails multi-round resources/read for older clients by itself. The boundary changes nothing.
func TestLegacyResourceReadIsAsWithoutBoundary(t *testing.T) {
	read := func(boundary *gosdk.Boundary) string {
		server, _ := newServer(boundary, nil)
		session := connect(t, server, promptClient(), "2025-11-25", nil)
		_, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://deploy"})
		if err == nil {
			return "success"
		}
		return err.Error()
	}
	with, without := read(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{})), read(nil)
	if with != without {
		t.Errorf("with a boundary: %s; without: %s", with, without)
	}
}
