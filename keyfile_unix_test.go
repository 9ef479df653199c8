//go:build unix

package contoken

import (
	"path/filepath"
	"syscall"
	"testing"
)

// The test hangs where the pipe is opened, since nobody writes to it.
func TestReloadFileRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	checkReloadRefused(t, testRing(t, 1), path)
}
