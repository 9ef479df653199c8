package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/contoken/contoken"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const demoFiles = 250

// demo is a server over loopback HTTP with two users, and what a client does with it.
type demo struct {
	out        io.Writer
	root       string
	clock      atomic.Int64 // seconds by which the server's clock is ahead
	alice, bob *mcp.ClientSession
}

// runDemo uses both tools as a client should, and then as it should not. It fails if an attack succeeds.
func runDemo(ctx context.Context, out io.Writer) error {
	root, err := os.MkdirTemp("", "contoken-files-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := fillTree(root); err != nil {
		return err
	}
	d := &demo{out: out, root: root}
	stop, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	steps := []func(context.Context) error{d.pageThrough, d.attackCursor, d.confirmDeletion, d.attackDeletion}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func fillTree(root string) error {
	for i := range demoFiles {
		name := filepath.Join(root, fmt.Sprintf("dir-%d", i%7), fmt.Sprintf("file-%03d.txt", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// start starts the server and connects alice and bob.
func (d *demo) start(ctx context.Context) (stop func(), err error) {
	server, err := newServer(config{
		root:           d.root,
		keys:           contoken.EphemeralKeyRing(),
		requireSubject: true,
		logger:         slog.New(slog.DiscardHandler),
		now:            func() time.Time { return time.Now().Add(time.Duration(d.clock.Load()) * time.Second) },
	})
	if err != nil {
		return nil, err
	}
	tokens := map[string]string{"alice": rand.Text(), "bob": rand.Text()}
	users, err := parseUsers("alice=" + tokens["alice"] + ",bob=" + tokens["bob"])
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	httpServer := &http.Server{Handler: newHandler(server, users), ReadHeaderTimeout: 10 * time.Second}
	go httpServer.Serve(listener)
	url := "http://" + listener.Addr().String()
	if d.alice, err = dial(ctx, url, tokens["alice"]); err == nil {
		d.bob, err = dial(ctx, url, tokens["bob"])
	}
	if err != nil {
		httpServer.Close()
		return nil, err
	}
	return func() { httpServer.Close() }, nil
}

type bearerToken string

func (token bearerToken) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(req)
}

// dial connects a client that confirms nothing by itself, so that it can answer with what it likes.
func dial(ctx context.Context, url, token string) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "demo", Version: "1.0.0"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	return client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearerToken(token)}, DisableStandaloneSSE: true,
	}, nil)
}

// list calls the list tool. A refusal comes as a result that says so, for the model to read, and becomes an error here.
func list(ctx context.Context, user *mcp.ClientSession, args map[string]any) (listOutput, error) {
	res, err := user.CallTool(ctx, &mcp.CallToolParams{Name: listTool, Arguments: args})
	if err != nil {
		return listOutput{}, err
	}
	if res.IsError {
		return listOutput{}, errors.New(res.Content[0].(*mcp.TextContent).Text)
	}
	structured, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return listOutput{}, err
	}
	var page listOutput
	return page, json.Unmarshal(structured, &page)
}

func (d *demo) pageThrough(ctx context.Context) error {
	fmt.Fprintln(d.out, "Alice lists all files:")
	args := map[string]any{"suffix": ".txt"}
	pages, files := 0, 0
	for {
		page, err := list(ctx, d.alice, args)
		if err != nil {
			return err
		}
		pages, files = pages+1, files+len(page.Files)
		fmt.Fprintf(d.out, "  page %d: %d files, cursor of %d characters\n", pages, len(page.Files), len(page.NextCursor))
		if page.NextCursor == "" {
			break
		}
		args["cursor"] = page.NextCursor
	}
	if files != demoFiles {
		return fmt.Errorf("%d files listed, want %d", files, demoFiles)
	}
	return nil
}

func (d *demo) attackCursor(ctx context.Context) error {
	fmt.Fprintln(d.out, "With the cursor of her second page:")
	page, err := list(ctx, d.alice, map[string]any{"suffix": ".txt"})
	if err != nil {
		return err
	}
	redeem := func(user *mcp.ClientSession, suffix, cursor string) error {
		_, err := list(ctx, user, map[string]any{"suffix": suffix, "cursor": cursor})
		return err
	}
	cursor := page.NextCursor
	return errors.Join(
		d.refused("bob redeems it", redeem(d.bob, ".txt", cursor)),
		d.refused("alice changes a character", redeem(d.alice, ".txt", alter(cursor))),
		d.refused("alice asks for other files", redeem(d.alice, "", cursor)),
		d.refused("alice makes one up", redeem(d.alice, ".txt", "next")),
		d.refused("alice comes back after 5 minutes", d.later(contoken.DefaultCursorTTL, func() error {
			return redeem(d.alice, ".txt", cursor)
		})),
	)
}

// askDelete asks to delete a file and returns the token that has to come back with the answer.
func askDelete(ctx context.Context, user *mcp.ClientSession, path string) (string, error) {
	res, err := user.CallTool(ctx, &mcp.CallToolParams{Name: deleteTool, Arguments: map[string]any{"path": path}})
	if err != nil {
		return "", err
	}
	if !res.NeedsInput() {
		return "", errors.New("the server did not ask before it deletes")
	}
	return res.RequestState, nil
}

func confirm(ctx context.Context, user *mcp.ClientSession, path, state string) error {
	res, err := user.CallTool(ctx, &mcp.CallToolParams{
		Name: deleteTool, Arguments: map[string]any{"path": path}, RequestState: state,
		InputResponses: mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: "accept"}},
	})
	if err == nil && (res.IsError || res.NeedsInput()) {
		return errors.New("the file was not deleted")
	}
	return err
}

const scratch, precious = "dir-0/file-000.txt", "dir-1/file-001.txt"

func (d *demo) confirmDeletion(ctx context.Context) error {
	fmt.Fprintln(d.out, "Alice deletes a file:")
	state, err := askDelete(ctx, d.alice, scratch)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  the server asks, with a requestState of %d characters\n", len(state))
	if err := confirm(ctx, d.alice, scratch, state); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(d.root, scratch)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is still there: %v", scratch, err)
	}
	fmt.Fprintln(d.out, "  she confirms, and it is gone")
	return nil
}

func (d *demo) attackDeletion(ctx context.Context) error {
	fmt.Fprintln(d.out, "With the requestState of another question:")
	const path = "dir-2/file-002.txt"
	state, err := askDelete(ctx, d.alice, path)
	if err != nil {
		return err
	}
	plaintext, err := json.Marshal(deletion{Path: precious})
	if err != nil {
		return err
	}
	err = errors.Join(
		d.refused("bob confirms for alice", confirm(ctx, d.bob, path, state)),
		d.refused("alice changes a character", confirm(ctx, d.alice, path, alter(state))),
		d.refused("alice confirms another file", confirm(ctx, d.alice, precious, state)),
		d.refused("alice writes the state herself", confirm(ctx, d.alice, precious, string(plaintext))),
		d.refused("alice comes back after 10 minutes", d.later(contoken.DefaultRequestStateTTL, func() error {
			return confirm(ctx, d.alice, path, state)
		})),
	)
	for _, name := range []string{path, precious} {
		if _, statErr := os.Stat(filepath.Join(d.root, name)); statErr != nil {
			err = errors.Join(err, statErr)
		}
	}
	return err
}

// later does something as if the time had passed.
func (d *demo) later(passed time.Duration, do func() error) error {
	d.clock.Add(int64(passed / time.Second))
	defer d.clock.Add(-int64(passed / time.Second))
	return do()
}

// refused prints what an attack got. Only a token that the server did not accept will do.
func (d *demo) refused(attack string, err error) error {
	var rpcError *jsonrpc.Error
	switch {
	case err == nil:
		return fmt.Errorf("%s: it succeeded", attack)
	case errors.As(err, &rpcError) && rpcError.Code == jsonrpc.CodeInvalidParams:
		fmt.Fprintf(d.out, "  %s: %s\n", attack, rpcError.Message)
	case err.Error() == contoken.PublicMessage:
		fmt.Fprintf(d.out, "  %s: %s\n", attack, err)
	default:
		return fmt.Errorf("%s: %w", attack, err)
	}
	return nil
}

// alter changes one character in the middle of a token.
func alter(token string) string {
	altered := []byte(token)
	middle := &altered[len(altered)/2]
	if *middle == 'A' {
		*middle = 'B'
	} else {
		*middle = 'A'
	}
	return string(altered)
}
