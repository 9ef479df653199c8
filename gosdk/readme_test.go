package gosdk_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestREADMESnippets has the Go of the README be a part of the example, which is compiled and run, and its JSON valid.
func TestREADMESnippets(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		kind, text := block[1], block[2]
		kinds[kind]++
		switch kind {
		case "go":
			indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, "\t$1")
			if !strings.Contains(string(example), indented) {
				t.Errorf("not in example_test.go:\n%s", text)
			}
		case "json":
			if !json.Valid([]byte(text)) {
				t.Errorf("not JSON:\n%s", text)
			}
		}
	}
	if kinds["go"] == 0 || kinds["json"] == 0 {
		t.Errorf("snippets of each kind: %v, want some Go and some JSON", kinds)
	}
}
