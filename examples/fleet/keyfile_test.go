package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contoken/contoken"
)

// watched has a ring follow a key file, and returns the path and where the outcome of each reload arrives.
func watched(t *testing.T, ring *contoken.KeyRing, every time.Duration) (path string, reloads <-chan error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys")
	if err := replaceFile(path, newKeyText()); err != nil {
		t.Fatal(err)
	}
	outcomes := make(chan error)
	watchKeyFile(t.Context(), ring, path, every, func(err error) {
		select {
		case outcomes <- err:
		case <-t.Context().Done():
		}
	})
	return path, outcomes
}

func TestWatchKeyFileReloadsOnSIGHUP(t *testing.T) {
	ring := contoken.EphemeralKeyRing()
	_, reloads := watched(t, ring, time.Hour)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := <-reloads; err != nil || ring.Ephemeral() {
		t.Errorf("not reloaded, error %v", err)
	}
}

func TestWatchKeyFilePollsAndKeepsTheKeysOfBefore(t *testing.T) {
	ring := contoken.EphemeralKeyRing()
	issuer, err := contoken.NewCursorIssuer(ring, nil)
	if err != nil {
		t.Fatal(err)
	}
	path, reloads := watched(t, ring, time.Millisecond)
	if err := <-reloads; err != nil {
		t.Fatal(err)
	}
	scope := contoken.Scope{Tool: "list"}
	token, err := issuer.Issue(scope, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(path, newKeyText()[:40]); err != nil {
		t.Fatal(err)
	}
	for err = range reloads {
		if err != nil {
			break
		}
	}
	if !errors.Is(err, contoken.ErrKey) {
		t.Errorf("error %v, want ErrKey", err)
	}
	if _, err := issuer.Verify(scope, token); err != nil {
		t.Errorf("the keys of before are gone: %v", err)
	}
}

// The guide shows the code of this example, which thus stays code that works.
func TestGuideShowsThisWatchKeyFile(t *testing.T) {
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("keyfile.go")
	if err != nil {
		t.Fatal(err)
	}
	begin, end := strings.Index(string(source), "// watchKeyFile"), strings.Index(string(source), "// replaceFile")
	if begin < 0 || end < begin || !strings.Contains(string(guide), strings.TrimSpace(string(source[begin:end]))) {
		t.Error("docs/operations.md does not have watchKeyFile as keyfile.go has it")
	}
}
