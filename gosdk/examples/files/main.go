// Command files is an MCP server that lists the files of a directory page by page and deletes them once its user has
// confirmed. It serves on stdio or, with -http, over streamable HTTP to users with bearer tokens; -demo runs a client
// against it that uses both tools and then attacks them.
//
//	go run ./examples/files -demo
//	go run ./examples/files -root DIR
//	FILES_TOKENS=alice=SECRET,bob=SECRET go run ./examples/files -root DIR -http 127.0.0.1:8080
//
// The keys come from CONTOKEN_KEYS, or are random and die with the process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/contoken/contoken"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const usage = `Usage: files [flags]

An MCP server that lists the files of a directory page by page and deletes them
once its user has confirmed. It serves on stdio or, with -http, the users in the
environment variable FILES_TOKENS (alice=SECRET,bob=SECRET), which come with
bearer tokens. The keys come from CONTOKEN_KEYS, or die with the process.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("files", flag.ExitOnError)
	root := flags.String("root", ".", "the directory to serve")
	addr := flags.String("http", "", "serve streamable HTTP at this address, instead of stdio")
	demo := flags.Bool("demo", false, "run a client against a server of its own, in a temporary directory")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.Parse(args)
	if flags.NArg() > 0 || *demo && *addr != "" {
		flags.Usage()
		return errors.New("want flags alone, and -demo without -http")
	}
	if *demo {
		return runDemo(ctx, out)
	}
	keys, err := contoken.KeyRingFromEnvOrEphemeral("CONTOKEN_KEYS")
	if err != nil {
		return err
	}
	config := config{root: *root, keys: keys, logger: slog.Default()}
	if *addr != "" {
		return serveHTTP(ctx, config, *addr)
	}
	server, err := newServer(config)
	if err != nil {
		return err
	}
	return server.Run(ctx, new(mcp.StdioTransport))
}

func serveHTTP(ctx context.Context, config config, addr string) error {
	users, err := parseUsers(os.Getenv("FILES_TOKENS"))
	if err != nil {
		return fmt.Errorf("environment variable FILES_TOKENS: %w", err)
	}
	config.requireSubject = true
	server, err := newServer(config)
	if err != nil {
		return err
	}
	httpServer := &http.Server{Addr: addr, Handler: newHandler(server, users), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { httpServer.Close() })
	defer stop()
	slog.Info("serving", "url", "http://"+addr)
	if err := httpServer.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
