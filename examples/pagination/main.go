// Pagination is a tool server whose cursors are contoken tokens, and a client that pages through all it serves and then
// attacks it.
//
// The server answers JSON-RPC 2.0 over HTTP on a loopback port. Its tools fs.list and fs.dirs list the files and the
// directories of a tree, a page at a time, to two users with bearer tokens. It keeps nothing between two calls: where a
// page ended stands in the cursor. How it uses contoken is in tools.go.
//
//	go run ./examples/pagination                     page through Go's own source, then attack
//	go run ./examples/pagination -root /usr/share    the same over another tree
//	go run ./examples/pagination -serve              leave the server up for curl
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/contoken/contoken"
)

const (
	defaultPageSize = 100
	maxPageSize     = 1000
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := exitCode(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exitCode runs the program: 0 if all went as it should, 1 if not, 2 if it was called in a wrong way.
func exitCode(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	if err := run(ctx, opts, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "pagination:", err)
		return 1
	}
	return 0
}

type options struct {
	root     string // empty: Go's own source
	pageSize int
	serve    bool
	addr     string
	now      func() time.Time
}

const usage = `Usage: go run ./examples/pagination [flags]

Starts a tool server with signed cursors, pages through all files below -root as
its client, and shows what each attack on a cursor gets. Exits with 1 if a file
is missed or an attack succeeds. With -serve it only serves, until interrupted.

Flags:
`

// parseOptions reads the command line. It reports on stderr what is wrong with it, and the usage.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	opts := options{pageSize: defaultPageSize, now: time.Now}
	flags := flag.NewFlagSet("pagination", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&opts.root, "root", "", "the `directory` to list (default the source of Go's standard library)")
	flags.BoolVar(&opts.serve, "serve", false, "serve until interrupted, and print a curl line to start with")
	flags.StringVar(&opts.addr, "addr", "127.0.0.1:0", "the `address` to listen on; port 0 is any free port")
	pageSizeUsage := fmt.Sprintf("the `number` of paths on a page, 1 to %d (default %d)", maxPageSize, opts.pageSize)
	flags.Func("page-size", pageSizeUsage, func(text string) error {
		size, err := strconv.Atoi(text)
		if err != nil || size < 1 || size > maxPageSize {
			return fmt.Errorf("want 1 to %d", maxPageSize)
		}
		opts.pageSize = size
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		fmt.Fprintln(stderr, "pagination: takes flags only")
		flags.Usage()
		return options{}, errors.New("unexpected argument")
	}
	return opts, nil
}

func run(ctx context.Context, opts options, stdout, stderr io.Writer) error {
	if opts.root == "" {
		var err error
		if opts.root, err = goSource(ctx); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(opts.root) // no path and no symbolic link leads out of it
	if err != nil {
		return fmt.Errorf("%w; name another directory with -root", err)
	}
	defer root.Close()
	if opts.serve {
		return serve(ctx, opts, root.FS(), stdout, stderr)
	}
	return runDemo(ctx, opts, root.FS(), stdout, stderr)
}

// goSource returns the directory of the standard library's source. It asks the go command, which must be there for "go
// run": runtime.GOROOT is deprecated, since it means nothing in a binary that was moved or built with -trimpath.
func goSource(ctx context.Context) (string, error) {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("no Go source found: go env GOROOT: %w; name a directory with -root", err)
	}
	return filepath.Join(strings.TrimSpace(string(goroot)), "src"), nil
}

// serve serves until ctx ends. The key is of this process: cursors die with it. A server that has to take the cursors
// of its other instances, or its own from before a restart, gets its keys from contoken.KeyRingFromEnv.
func serve(ctx context.Context, opts options, root fs.FS, stdout, stderr io.Writer) error {
	pager, err := newPager(root, opts.pageSize, contoken.EphemeralKeyRing(), opts.now)
	if err != nil {
		return err
	}
	aliceToken, bobToken := rand.Text(), rand.Text()
	server, err := startServer(opts.addr, &handler{
		pager: pager,
		users: []user{newUser("alice", aliceToken), newUser("bob", bobToken)},
		log:   slog.New(slog.NewTextHandler(stderr, nil)),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, serveText, opts.root, server.url, aliceToken, bobToken)
	select {
	case <-ctx.Done():
		return server.stop()
	case err := <-server.failed:
		return err
	}
}

// serveText takes the root, the URL, and the bearer tokens of alice and of bob.
const serveText = `Serving fs.list and fs.dirs over %s until interrupted. Page one, as alice:

curl -s %s -H 'Authorization: Bearer %s' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs.list","arguments":{}}}'

For the next page, send "arguments":{"__cursor":"..."} with the nextCursor of the reply.
Arguments of both tools: "dir", a directory to list, and "pattern", such as "*.go".
Bob's bearer token: %s
`
