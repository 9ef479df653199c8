package gosdk_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type deployInput struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Env     string `json:"env"`
}

type deployOutput struct {
	Deployed bool `json:"deployed"`
}

// newBenchSession connects to a server with the tool deploy, which needs no continuation, and rounds, which asks once.
func newBenchSession(b *testing.B, boundary *gosdk.Boundary) *mcp.ClientSession {
	server := mcp.NewServer(impl("bench"), nil)
	mcp.AddTool(server, &mcp.Tool{Name: "deploy"},
		func(context.Context, *mcp.CallToolRequest, deployInput) (*mcp.CallToolResult, deployOutput, error) {
			return nil, deployOutput{true}, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "rounds"},
		func(_ context.Context, req *mcp.CallToolRequest, _ deployInput) (*mcp.CallToolResult, deployOutput, error) {
			if req.Params.RequestState == "" {
				return &mcp.CallToolResult{InputRequests: ask(), RequestState: `{"approved":false}`}, deployOutput{}, nil
			}
			return nil, deployOutput{true}, nil
		})
	if boundary != nil {
		server.AddReceivingMiddleware(boundary.Middleware)
	}
	return connect(b, server, promptClient(), "", nil)
}

// BenchmarkCallTool is a tools/call from a client to a typed handler and back, over the in-memory transport: deploy
// without continuation, and rounds with one, which is two calls, a token sealed and a token opened. Calls to a server
// without and with a boundary take turns, and their medians are compared, so that other load on the machine cancels
// out.
func BenchmarkCallTool(b *testing.B) {
	for _, tool := range []string{"deploy", "rounds"} {
		b.Run(tool, func(b *testing.B) {
			params := &mcp.CallToolParams{Name: tool, Arguments: deployInput{"billing", "v2.4.1", "staging"}}
			plain := newBenchSession(b, nil)
			sealed := newBenchSession(b, newBoundary(b, contoken.EphemeralKeyRing(), gosdk.Options{}))
			var plainTimes, sealedTimes []time.Duration
			for b.Loop() { // each goes first as often as last
				plainTimes = append(plainTimes, timeCall(b, plain, params))
				sealedTimes = append(sealedTimes, timeCall(b, sealed, params), timeCall(b, sealed, params))
				plainTimes = append(plainTimes, timeCall(b, plain, params))
			}
			without, with := median(plainTimes), median(sealedTimes)
			b.ReportMetric(0, "ns/op") // of all four calls: says nothing
			b.ReportMetric(float64(without), "ns/plain")
			b.ReportMetric(float64(with), "ns/boundary")
			b.ReportMetric(float64(with)/float64(without), "boundary/plain")
		})
	}
}

func timeCall(b *testing.B, session *mcp.ClientSession, params *mcp.CallToolParams) time.Duration {
	start := time.Now()
	if _, err := session.CallTool(b.Context(), params); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkMiddleware is what the boundary adds to a call by itself, next to a handler that does nothing.
func BenchmarkMiddleware(b *testing.B) {
	for name, state := range map[string]string{"without token": "", "sealing": `{"approved":false}`} {
		b.Run(name, func(b *testing.B) {
			handler := newBoundary(b, contoken.EphemeralKeyRing(), gosdk.Options{}).Middleware(
				func(context.Context, string, mcp.Request) (mcp.Result, error) {
					return &mcp.CallToolResult{RequestState: state}, nil
				})
			req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{
				Name: "deploy", Arguments: json.RawMessage(`{"service":"billing","version":"v2.4.1","env":"staging"}`),
			}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := handler(b.Context(), "tools/call", req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
