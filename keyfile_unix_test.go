//go:build unix

package contoken

import (
	"errors"
	"os"
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

// What stands at the path may change before it is opened.
func TestKeyFileIsCheckedAgainOnceItIsOpen(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	write.Close()
	if _, err := readOpenKeyFile(read); !errors.Is(err, errNotRegular) {
		t.Errorf("a pipe: error %v, want %v", err, errNotRegular)
	}
	shared, err := os.OpenFile(filepath.Join(t.TempDir(), "keys"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	if err := shared.Chmod(0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := readOpenKeyFile(shared); err == nil {
		t.Errorf("a file that is open to others is read: %q", text)
	}
}
