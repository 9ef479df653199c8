package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/contoken/contoken"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain has the test binary be the server where a test asks for one, as an MCP client starts a server on stdio.
func TestMain(m *testing.M) {
	if root := os.Getenv("TEST_SERVE_ROOT"); root != "" {
		if err := run(context.Background(), []string{"-root", root}, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-demo"}, &out); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`of [1-9]\d* characters`).ReplaceAllString(out.String(), "of N characters")
	const want = `Alice lists all files:
  page 1: 100 files, cursor of N characters
  page 2: 100 files, cursor of N characters
  page 3: 50 files, cursor of 0 characters
With the cursor of her second page:
  bob redeems it: invalid or expired token
  alice changes a character: invalid or expired token
  alice asks for other files: invalid or expired token
  alice makes one up: invalid or expired token
  alice comes back after 5 minutes: invalid or expired token
Alice deletes a file:
  the server asks, with a requestState of N characters
  she confirms, and it is gone
With the requestState of another question:
  bob confirms for alice: invalid or expired requestState
  alice changes a character: invalid or expired requestState
  alice confirms another file: invalid or expired requestState
  alice writes the state herself: invalid or expired requestState
  alice comes back after 10 minutes: invalid or expired requestState
`
	if got != want {
		t.Errorf("the demo printed\n%s\nwant\n%s", got, want)
	}
}

// A client that starts the server as a process and confirms what it is asked.
func TestStdio(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "scratch.txt")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "TEST_SERVE_ROOT="+root)
	var asked string
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked = req.Params.Message
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	page, err := list(t.Context(), session, nil)
	if err != nil || !slices.Equal(page.Files, []string{"scratch.txt"}) {
		t.Fatalf("listed %q, error %v", page.Files, err)
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: deleteTool, Arguments: map[string]any{"path": "scratch.txt"},
	})
	if err != nil || res.IsError {
		t.Fatalf("result %+v, error %v", res, err)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if asked != "Delete scratch.txt, 0 bytes?" {
		t.Errorf("the user was asked %q", asked)
	}
}

// newTestSession connects a client in memory that answers as the test says.
func newTestSession(t *testing.T, root string) *mcp.ClientSession {
	t.Helper()
	server, err := newServer(config{root: root, keys: contoken.EphemeralKeyRing(), logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	serverSide, clientSide := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), serverSide, nil); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	session, err := client.Connect(t.Context(), clientSide, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func TestDeleteOnlyWhatTheUserSaw(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "report.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("draft")
	session := newTestSession(t, root)
	state, err := askDelete(t.Context(), session, "report.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := confirm(t.Context(), session, "report.txt", ""); err == nil {
		t.Error("deleted on an answer without its question")
	}
	write("final version")
	if err := confirm(t.Context(), session, "report.txt", state); err == nil {
		t.Error("deleted a file that has changed since the question")
	}
	write("draft")
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: deleteTool, Arguments: map[string]any{"path": "report.txt"}, RequestState: state,
		InputResponses: mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: "decline"}},
	})
	if err != nil || res.IsError {
		t.Errorf("the user declines: result %+v, error %v", res, err)
	}
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"../outside", "/etc/hostname", ".", "missing.txt"} {
		if _, err := askDelete(t.Context(), session, path); err == nil {
			t.Errorf("the server asked to delete %s", path)
		}
	}
}

func TestPagesAreTheWholeTree(t *testing.T) {
	tree := fstest.MapFS{}
	long := strings.Repeat("long/", 60)
	for i := range 40 {
		for _, format := range []string{"a/b/%02d.go", "a-b/%02d.go", "a.d/%02d.txt", "%02d.go", "z/" + long + "%02d.go"} {
			tree[fmt.Sprintf(format, i)] = &fstest.MapFile{}
		}
	}
	tree["zz.go"] = &fstest.MapFile{}
	for _, suffix := range []string{"", ".go", ".none"} {
		var want []string
		err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(name, suffix) {
				want = append(want, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{1, 7, 1000} {
			if got := allPages(t, tree, suffix, limit); !slices.Equal(got, want) {
				t.Errorf("suffix %q, limit %d: %d files, want %d", suffix, limit, len(got), len(want))
			}
		}
	}
}

// allPages lists a tree page by page and checks that each page ends where a cursor can stand.
func allPages(t *testing.T, tree fs.FS, suffix string, limit int) (names []string) {
	t.Helper()
	after := ""
	for {
		page, more, err := listPage(tree, after, suffix, limit)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, page...)
		if !more {
			return names
		}
		after = page[len(page)-1]
		if len(page) < limit || len(after) > maxPosition {
			t.Fatalf("a page of %d files ends at a name of %d bytes", len(page), len(after))
		}
	}
}

func TestParseUsers(t *testing.T) {
	users, err := parseUsers("alice=0123456789abcdef, bob=fedcba9876543210")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := users.verify(t.Context(), "fedcba9876543210", nil); err != nil || info.UserID != "bob" {
		t.Errorf("bob's token: %+v, error %v", info, err)
	}
	if info, err := users.verify(t.Context(), "fedcba9876543211", nil); err == nil {
		t.Errorf("a wrong token is %s's", info.UserID)
	}
	for _, text := range []string{"", "alice", "alice=short", "=0123456789abcdef", "alice=0123456789abcdef,"} {
		if _, err := parseUsers(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
