//go:build unix

package sqlstore

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The example is compiled, and the README shows a part of it.
func TestReadmeShowsTheExample(t *testing.T) {
	example, err := os.ReadFile("example_test.go")
	must(t, err)
	unindented := strings.ReplaceAll(string(example), "\n\t", "\n")
	for _, snippet := range readmeSnippets(t, "go") {
		if !strings.Contains(unindented, snippet) {
			t.Errorf("the example does not hold this snippet:\n%s", snippet)
		}
	}
}

func TestReadmeShowsTheStatementsOfCreateTable(t *testing.T) {
	for dialect, syntax := range dialects {
		create := newStatements(DefaultTable, syntax).create[len(syntax.lock):]
		want := strings.Join(create, ";\n") + ";\n"
		if shown := strings.Join(readmeSnippets(t, "sql"), ""); shown != want {
			t.Errorf("dialect %d: the README shows\n%swant\n%s", dialect, shown, want)
		}
	}
}

func readmeSnippets(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	must(t, err)
	var snippets []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(readme, -1) {
		snippets = append(snippets, string(match[1]))
	}
	if len(snippets) == 0 {
		t.Fatalf("the README has no snippet in %s", language)
	}
	return snippets
}
