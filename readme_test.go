package contoken_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readReadme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The snippets of the README are programs. They are compiled and run as they stand, and print what they should.
func TestReadmeSnippetsRun(t *testing.T) {
	want := []string{
		"2 /usr/lib/os-release <nil>\ncontoken: invalid token: issued for another scope\n",
		"deploy 4f2c9e1 to staging <nil>\ntrue\n",
	}
	snippets := regexp.MustCompile("(?s)\n```go\n(.*?)```").FindAllStringSubmatch(readReadme(t), -1)
	if len(snippets) != len(want) {
		t.Fatalf("%d snippets, want %d", len(snippets), len(want))
	}
	for i, snippet := range snippets {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			if output := runProgram(t, snippet[1]); output != want[i] {
				t.Errorf("the snippet prints %q, want %q", output, want[i])
			}
		})
	}
}

// runProgram runs a program as if it stood in a folder of this module, where it finds the package and its requirements.
func runProgram(t *testing.T, source string) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	placed, err := json.Marshal(map[string]any{
		"Replace": map[string]string{filepath.Join(root, "examples", "snippet", "main.go"): file},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{file: []byte(source), overlay: placed} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("go", "run", "-overlay", overlay, "./examples/snippet")
	command.Env = append(os.Environ(), "CONTOKEN_KEYS=", "GODEBUG=") // the go command itself needs more than FIPS 140
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

func TestReadmeStaysShortAndItsLinksLead(t *testing.T) {
	text := readReadme(t)
	if lines := strings.Count(text, "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, want at most 150", lines)
	}
	links := regexp.MustCompile(`\]\(([^):# ]+)\)`).FindAllStringSubmatch(text, -1)
	if len(links) == 0 {
		t.Error("no links to files")
	}
	for _, link := range links {
		if _, err := os.Stat(link[1]); err != nil {
			t.Errorf("a link leads to no file: %v", err)
		}
	}
}
