package contoken

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
)

// maxKeyFileBytes leaves 4 KiB for each key of the largest ring.
const maxKeyFileBytes = 64 << 10

// ReloadFile replaces the keys, as Replace does, with those in the file at path, which it reads as [ParseKeyRing]
// does. Keys that are as they were disturb nothing, so it may be called as often as the file might have changed: on a
// signal, and every few seconds. It also fills the zero KeyRing, when a server starts.
//
// On an error the ring keeps the keys that it has. Every error is ErrKey, quotes neither path nor keys, and Is what
// the operating system reports, such as [fs.ErrNotExist]. A file that is over 64 KiB or not a regular one is refused.
// So is one that others may read or write, or its group write (any of mode 0027, outside Windows): a service that does
// not own the file reads it by its group, which takes mode 0440 and an fsGroup for a Kubernetes secret. Symbolic links
// are followed, and it is the file they lead to that counts. Who owns it is not checked.
//
// Change the file by renaming a new one over it: one that is written in place may be read when half of it is there.
func (r *KeyRing) ReloadFile(path string) error {
	if r == nil {
		return fmt.Errorf("%w: nil key ring", ErrKey)
	}
	return r.reload(func() (string, error) { return readKeyFile(path) })
}

func (r *KeyRing) reload(read func() (string, error)) error {
	for {
		before := r.current.Load()
		text, err := read()
		if err != nil {
			return fmt.Errorf("%w: key file: %w", ErrKey, err)
		}
		ring, err := ParseKeyRing(text)
		if err != nil {
			return fmt.Errorf("%w (key file)", err)
		}
		after := ring.current.Load()
		// Keys that came into the ring while we read may be newer than ours: then the file has to be read again.
		if before.sameKeys(after) || r.current.CompareAndSwap(before, after) {
			return nil
		}
	}
}

// sameKeys reports whether both hold the same keys in the same order. A nil k, of a zero ring, holds none.
func (k *ringKeys) sameKeys(other *ringKeys) bool {
	return k != nil && slices.EqualFunc(k.keys, other.keys, Key.equal)
}

func readKeyFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", withoutPath(err)
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for its writer
		return "", errNotRegular
	}
	file, err := os.Open(path)
	if err != nil {
		return "", withoutPath(err)
	}
	defer file.Close()
	return readOpenKeyFile(file)
}

// readOpenKeyFile checks what is open, whatever has come to its path since.
func readOpenKeyFile(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", withoutPath(err)
	}
	if err := checkKeyFileMode(info.Mode()); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFileBytes+1))
	if err != nil {
		return "", withoutPath(err)
	}
	if len(text) > maxKeyFileBytes {
		return "", fmt.Errorf("over %d bytes", maxKeyFileBytes)
	}
	return string(text), nil
}

var errNotRegular = errors.New("not a regular file")

func checkKeyFileMode(mode fs.FileMode) error {
	const open = 0o027 // the group may write, or others do anything
	if !mode.IsRegular() {
		return errNotRegular
	}
	if runtime.GOOS != "windows" && mode&open != 0 {
		return fmt.Errorf("mode %04o lets others at it, or its group write; want 0400, 0440, 0600 or 0640", mode.Perm())
	}
	return nil
}

// withoutPath leaves out the path, for which a key may have been taken by mistake.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
