package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/contoken/contoken"
)

func fixedNow() time.Time { return time.Unix(1_790_000_000, 0) }

// long is the name of a directory that leaves no room in a cursor for what is below long/long/long.
var long = strings.Repeat("l", 100)

// nastyFiles are names that paging tends to get wrong, in the order of a walk.
var nastyFiles = []string{
	".hidden",
	"100%25",
	"B/upper",
	"a/b/c.txt",
	"a/x",
	"a b/ü & ß.txt",
	"a-b",
	"a.txt",
	"long/" + long + "/" + long + "/" + long + "/1",
	"long/" + long + "/" + long + "/" + long + "/2",
	"quote'd",
	"日本/語",
}

func writeTree(t *testing.T, files []string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, name := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The ninth file would end page three, but is too long for a cursor, and so is the tenth, so that page three has five.
const wantDemo = `alice pages through fs.list over ROOT, 3 paths a page
  pages    4
  files    12: those that a plain walk finds, each once
  cursors  148 to 159 characters

The cursor of page two gets alice a page of 3 paths, and attackers this:

ATTACK                ERROR   MESSAGE                   DATA  THE SERVER'S LOG
altered by one bit    -32602  invalid or expired token  1021  contoken: invalid token: signature mismatch
bob uses alice's      -32602  invalid or expired token  1021  contoken: invalid token: issued for another scope
with other arguments  -32602  invalid or expired token  1021  contoken: invalid token: issued for another scope
with another tool     -32602  invalid or expired token  1021  contoken: invalid token: issued for another scope
a made-up one         -32602  invalid or expired token  1021  contoken: invalid token: malformed
an empty one          -32602  invalid or expired token  1021  contoken: invalid token: malformed
null in place of one  -32602  invalid or expired token  1021  contoken: invalid token: malformed
five minutes later    -32602  invalid or expired token  1020  contoken: expired token
after a restart       -32602  invalid or expired token  1020  contoken: expired token
`

func TestProgramListsAllFilesAndShowsEveryAttackRefused(t *testing.T) {
	root := writeTree(t, nastyFiles)
	opts, err := parseOptions([]string{"-root", root, "-page-size", "3"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	opts.now = fixedNow
	var out bytes.Buffer
	if err := run(t.Context(), opts, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(out.String(), root, "ROOT"); got != wantDemo {
		t.Errorf("printed:\n%s\nwant:\n%s", got, wantDemo)
	}
}

func TestProgramTellsOfWrongUse(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		code int
		want string // in standard error
	}{
		{"help", []string{"-h"}, 0, "Usage: go run ./examples/pagination [flags]"},
		{"page size of zero", []string{"-page-size", "0"}, 2, "want 1 to 1000"},
		{"page size over the limit", []string{"-page-size", "1001"}, 2, "want 1 to 1000"},
		{"page size that is no number", []string{"-page-size", "ten"}, 2, "want 1 to 1000"},
		{"argument", []string{"here"}, 2, "takes flags only"},
		{"no such root", []string{"-root", filepath.Join(t.TempDir(), "none")}, 1, "name another directory with -root"},
		{"root without files", []string{"-root", t.TempDir()}, 1, "all files fit on one page"},
		{"unusable address", []string{"-root", t.TempDir(), "-addr", "127.0.0.1:none"}, 1, "listen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var errOut bytes.Buffer
			if code := exitCode(t.Context(), test.args, io.Discard, &errOut); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(errOut.String(), test.want) {
				t.Errorf("standard error has %q, want %q in it", errOut.String(), test.want)
			}
		})
	}
}

func TestProgramShowsWhatTheServerLoggedWhenAListingFails(t *testing.T) {
	tree := fstest.MapFS{"a": {}, "bad\xff": {}}
	var errOut bytes.Buffer
	err := runDemo(t.Context(), options{addr: "127.0.0.1:0", pageSize: 1, now: fixedNow}, tree, io.Discard, &errOut)
	want := &rpcError{Code: codeInternalError, Message: "internal error"}
	if got, _ := errors.AsType[*rpcError](err); got == nil || *got != *want {
		t.Errorf("error %v, want %v", err, want)
	}
	if !strings.Contains(errOut.String(), "is not UTF-8") {
		t.Errorf("standard error has %q, want what the server logged", errOut.String())
	}
}

func TestListingThatDiffersFromAWalkIsAnError(t *testing.T) {
	found := []string{"a", "b", "c"}
	for _, test := range []struct {
		name   string
		listed []string
		want   string
	}{
		{"same", []string{"a", "b", "c"}, ""},
		{"one missed", []string{"a", "c"}, "1 files missed, 0 repeated, 0 the walk did not find"},
		{"one repeated", []string{"a", "b", "b", "c"}, "0 files missed, 1 repeated, 0 the walk did not find"},
		{"one made up", []string{"a", "b", "c", "d"}, "0 files missed, 0 repeated, 1 the walk did not find"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := compareListing(test.listed, found); err != nil {
				got = strings.TrimPrefix(err.Error(), "the listing differs from a plain walk: ")
			}
			if got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

func TestAttackThatIsNotRefusedAsItShouldBeIsAFailure(t *testing.T) {
	tree := fstest.MapFS{"a": {}, "b": {}}
	for _, test := range []struct {
		name    string
		atdCode int
		cursor  string // empty: the genuine one
		want    string
	}{
		{"accepted", contoken.ATDCursorInvalid, "", "attack was accepted"},
		{"refused with another code", contoken.ATDCursorExpired, "page-2", "attack was not refused as expected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDemo(options{addr: "127.0.0.1:0", pageSize: 1, now: fixedNow}, tree, io.Discard)
			if err := d.start(); err != nil {
				t.Fatal(err)
			}
			defer d.stop()
			cursor, err := d.cursorOfPageTwo(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if test.cursor != "" {
				cursor = test.cursor
			}
			d.try(t.Context(), "attack", test.atdCode, d.alice, "fs.list", withCursor(nil, cursor))
			if err := errors.Join(d.failures...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("failures %v, want %q", err, test.want)
			}
		})
	}
}

func TestServePrintsACallThatWorksAndStopsWhenInterrupted(t *testing.T) {
	root := writeTree(t, nastyFiles)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, stdout := io.Pipe()
	code := make(chan int, 1)
	go func() {
		defer stdout.Close()
		code <- exitCode(ctx, []string{"-serve", "-root", root, "-page-size", "2"}, stdout, io.Discard)
	}()

	printed := readUntil(t, out, "Bob's bearer token")
	curlLine := regexp.MustCompile(`curl -s (\S+) -H 'Authorization: (Bearer \S+)' \\\n  -d '(.*)'`)
	curl := curlLine.FindStringSubmatch(printed)
	if curl == nil {
		t.Fatalf("no curl line in %q", printed)
	}
	url, authorization, body := curl[1], curl[2], curl[3]
	reply := send(t, http.MethodPost, url, authorization, body)
	want := `{"jsonrpc":"2.0","id":1,"result":{"paths":[".hidden","100%25"],"nextCursor":"`
	if !strings.HasPrefix(reply, want) {
		t.Errorf("reply %s, want it to begin with %s", reply, want)
	}
	if reply, want := send(t, http.MethodGet, url, authorization, ""), "Method Not Allowed\n"; reply != want {
		t.Errorf("reply to GET %q, want %q", reply, want)
	}

	interrupt()
	if code := <-code; code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func readUntil(t *testing.T, r io.Reader, lastLine string) string {
	t.Helper()
	var text strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), lastLine) {
			return text.String()
		}
	}
	t.Fatalf("no line %q in %q", lastLine, text.String())
	return ""
}

func send(t *testing.T, method, url, authorization, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

func TestDefaultRootIsTheStandardLibrary(t *testing.T) {
	src, err := goSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files, err := walk(filepath.Join(src, "io", "fs"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files, "walk.go") {
		t.Errorf("io/fs in %s has no walk.go", src)
	}
}
