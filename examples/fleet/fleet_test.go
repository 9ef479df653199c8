package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The fleet runs this same program as its instances, which here is the test binary.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{instanceCommand}) {
		main()
	}
	os.Exit(m.Run())
}

// shortTempDir has temporary files go to a directory with a path that is short enough for sockets, and checks
// afterwards that none is left.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or each instance takes a second to end under the race detector
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("temporary files are left: %v, error %v", left, err)
		}
		os.RemoveAll(dir)
	})
	return dir
}

func testOptions(t *testing.T, args ...string) options {
	t.Helper()
	opts, err := parseOptions(append([]string{"-time", "1s", "-callers", "10"}, args...), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// wantTable is the lines of the table, their white space aside. <some> is a number over zero, <any> one that depends on
// what was going on when an instance went away.
const wantTable = `SHARED KEYS PER-PROCESS SESSIONS
requests <some> <some>
retried, as their instance was gone <any> <any>
tokens minted <some> <some>
tokens verified <some> <some>
by another instance than minted them <some> <some>
genuine cursors refused 0 of <some> <some> of <some>
genuine request states refused 0 of <some> 0 of <some>
genuine one-time tokens refused 0 of <some> 0 of <some>
forged tokens tried <some> <some>
accepted 0 0
one-time tokens raced <some> <some>
redeemed twice 0 0
used up by an instance that was killed <any> <any>
latency p50 / p99, retries included <time> / <time> <time> / <time>`

func TestFleetRefusesNoGenuineToken(t *testing.T) {
	shortTempDir(t)
	var out bytes.Buffer
	if err := run(t.Context(), testOptions(t, "-proxy", "builtin"), &out, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	for _, step := range []string{"refused, and the keys stay", "rotation 1", "rotation 2", "rotation 3", "restarted instance c", "killed instance b"} {
		if strings.Count(out.String(), step) != 2 {
			t.Errorf("step %q was not taken twice", step)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := strings.Split(wantTable, "\n")
	for i, line := range lines[len(lines)-len(want):] {
		pattern := strings.NewReplacer(
			"<some>", `[1-9]\d*`, "<any>", `\d+`, "<time>", `\d+\.\d ms`,
		).Replace(want[i])
		got := strings.Join(strings.Fields(line), " ")
		if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
			t.Errorf("the table has %q, want %q", got, want[i])
		}
	}
}

func TestEveryProxyReachesEveryInstance(t *testing.T) {
	for _, proxy := range []string{haproxyFront, nginxFront, builtInFront} {
		t.Run(proxy, func(t *testing.T) {
			if _, _, err := chooseFront(proxy); err != nil {
				t.Skip(err)
			}
			shortTempDir(t)
			opts := testOptions(t, "-proxy", proxy)
			users, tokens := newUsers(2)
			f, err := startFleet(t.Context(), opts, newKeyText(), users, false)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.stop(); err != nil {
					t.Error(err)
				}
			}()
			c := &caller{http: socketClient(f.front, 1), tally: new(tally)}
			served := map[string]int{}
			for range 9 {
				out, err := c.call(t.Context(), tokens[0], listTool, call{Arguments: mustJSON(listArguments{First: 1})})
				if err != nil {
					t.Fatal(err)
				}
				served[out.Instance]++
			}
			if want := map[string]int{"a": 3, "b": 3, "c": 3}; !maps.Equal(served, want) {
				t.Errorf("served by %v, want %v", served, want)
			}
		})
	}
}

func TestInstanceEndsWithItsParent(t *testing.T) {
	dir := shortTempDir(t)
	t.Setenv(keysFileVariable, filepath.Join(dir, "keys"))
	if err := replaceFile(filepath.Join(dir, "keys"), newKeyText()); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(filepath.Join(dir, "keys"))
	config := mustMarshal(t, instanceConfig{Name: "a", Socket: filepath.Join(dir, "a.sock"), TTL: time.Second})
	if err := runInstance(t.Context(), bytes.NewReader(config), t.Output()); err != nil {
		t.Error(err)
	}
}

func TestInstanceDoesNotStartWithoutKeys(t *testing.T) {
	config := mustMarshal(t, instanceConfig{Name: "a", TTL: time.Second})
	for _, path := range []string{"", filepath.Join(t.TempDir(), "missing")} {
		t.Setenv(keysFileVariable, path)
		if err := runInstance(t.Context(), bytes.NewReader(config), t.Output()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want fs.ErrNotExist", err)
		}
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestProgramTellsOfWrongUse(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		code int
		want string // in standard error
	}{
		{"help", []string{"-h"}, 0, "Usage: go run . [flags]"},
		{"argument", []string{"here"}, 2, "an argument that is no flag"},
		{"one caller", []string{"-callers", "1"}, 2, "out of range"},
		{"no time", []string{"-time", "0s"}, 2, "out of range"},
		{"unknown proxy", []string{"-proxy", "none"}, 2, `unknown proxy "none"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var errOut bytes.Buffer
			if code := exitCode(t.Context(), test.args, nil, io.Discard, &errOut); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(errOut.String(), test.want) {
				t.Errorf("standard error has %q, want %q in it", errOut.String(), test.want)
			}
		})
	}
}
