package redisstore

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The example is compiled, and the README shows a part of it.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	must(t, err)
	example, err := os.ReadFile("example_test.go")
	must(t, err)
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(snippets) == 0 {
		t.Fatal("the README has no snippet")
	}
	unindented := strings.ReplaceAll(string(example), "\n\t", "\n")
	for _, snippet := range snippets {
		if !strings.Contains(unindented, string(snippet[1])) {
			t.Errorf("the example does not hold this snippet:\n%s", snippet[1])
		}
	}
}
