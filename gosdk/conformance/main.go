// Command conformance serves what the official MCP conformance suite asks a server for, behind a gosdk boundary. Its
// handlers trust the state that they get; see flows.go. run.sh runs the suite against it.
//
//lint:file-ignore SA1019 the suite covers features that the protocol deprecates
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	addr      = flag.String("http", "127.0.0.1:0", "address to listen on")
	stateful  = flag.Bool("stateful", false, "keep sessions, as protocol versions before 2026-07-28 do")
	protected = flag.Bool("boundary", true, "seal and open continuation tokens")
)

func main() {
	flag.Parse()
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	server, err := newServer()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "http://%s\n", listener.Addr())
	opts := &mcp.StreamableHTTPOptions{Stateless: !*stateful}
	if *stateful {
		opts.EventStore = mcp.NewMemoryEventStore(nil) // for clients that reconnect in the middle of a call
	}
	return http.Serve(listener, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts))
}

func newServer() (*mcp.Server, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "contoken-conformance", Version: "1.0.0"}, &mcp.ServerOptions{
		CompletionHandler:  complete,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTools(server)
	addFlows(server)
	addPrompts(server)
	addResources(server)
	if !*protected {
		return server, nil
	}
	keys, err := contoken.KeyRingFromEnvOrEphemeral("CONTOKEN_KEYS")
	if err != nil {
		return nil, err
	}
	boundary, err := gosdk.NewBoundary(keys, &gosdk.Options{Audience: "conformance"})
	if err != nil {
		return nil, err
	}
	server.AddReceivingMiddleware(boundary.Middleware)
	return server, nil
}

func complete(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
}
