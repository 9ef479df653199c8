package gosdk_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type deployArgs struct {
	Service string `json:"service"`
}

// deploy reads and writes its state as if there were nobody in between.
func deploy(_ context.Context, req *mcp.CallToolRequest, in deployArgs) (*mcp.CallToolResult, any, error) {
	answer, ok := req.Params.InputResponses["confirm"].(*mcp.ElicitResult)
	if !ok || req.Params.RequestState == "" { // ask first, also a client that answers without the state
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{
				Message:         "Deploy " + in.Service + " to production?",
				RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
			}},
			RequestState: in.Service + " to production",
		}, nil, nil
	}
	done := answer.Action + ": " + req.Params.RequestState
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: done}}}, nil, nil
}

func Example() {
	os.Setenv("CONTOKEN_KEYS", strings.Repeat("0123456789abcdef", 4)) // in earnest: openssl rand -hex 32

	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "deploy"}, deploy)

	keys, err := contoken.KeyRingFromEnv("CONTOKEN_KEYS")
	if err != nil {
		log.Fatal(err)
	}
	boundary, err := gosdk.NewBoundary(keys, &gosdk.Options{Audience: "deploy-server"})
	if err != nil {
		log.Fatal(err)
	}
	server.AddReceivingMiddleware(boundary.Middleware)

	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, // to see what goes over the wire
	})
	ctx := context.Background()
	serverSide, clientSide := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, serverSide, nil); err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(ctx, clientSide, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	call := &mcp.CallToolParams{Name: "deploy", Arguments: deployArgs{Service: "billing"}}
	asked, err := session.CallTool(ctx, call)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(asked.RequestState[:4], strings.Contains(asked.RequestState, "production"))

	call.InputResponses = mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: "accept"}}
	call.RequestState = asked.RequestState
	done, err := session.CallTool(ctx, call)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Content[0].(*mcp.TextContent).Text)

	call.Arguments = deployArgs{Service: "payroll"} // the token is for billing
	_, err = session.CallTool(ctx, call)
	fmt.Println(strings.Contains(err.Error(), "invalid or expired requestState"))
	// Output:
	// v1e. false
	// accept: billing to production
	// true
}
