package contoken

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// keyTexts returns the keys of testRing in hex, one to a line.
func keyTexts(t *testing.T, seeds ...byte) string {
	t.Helper()
	var text strings.Builder
	for _, seed := range seeds {
		text.WriteString(hex.EncodeToString(testKey(t, seed).secret()) + "\n")
	}
	return text.String()
}

// replaceFile has path hold text, with no moment in which it is missing or half there.
func replaceFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(fresh, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		t.Fatal(err)
	}
}

func writeKeyFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys")
	replaceFile(t, path, text, 0o600)
	return path
}

func checkRing(t *testing.T, ring *KeyRing, seeds ...byte) {
	t.Helper()
	if want := testRing(t, seeds...); !ring.current.Load().sameKeys(want.current.Load()) {
		t.Errorf("the ring does not hold the keys %v", seeds)
	}
}

func TestReloadFileReadsWhatParseKeyRingReads(t *testing.T) {
	hexText := strings.Fields(keyTexts(t, 1, 2))
	for name, text := range map[string]string{
		"a key a line":        keyTexts(t, 1, 2),
		"CR LF, none at last": hexText[0] + "\r\n" + hexText[1],
		"commas":              hexText[0] + " , " + hexText[1],
		"64 KiB":              keyTexts(t, 1, 2) + strings.Repeat(" ", 64<<10-len(keyTexts(t, 1, 2))),
	} {
		t.Run(name, func(t *testing.T) {
			ring := testRing(t, 3)
			if err := ring.ReloadFile(writeKeyFile(t, text)); err != nil {
				t.Fatal(err)
			}
			checkRing(t, ring, 1, 2)
		})
	}
}

func TestReloadFileFillsTheZeroRing(t *testing.T) {
	ring := new(KeyRing)
	if err := ring.ReloadFile(writeKeyFile(t, keyTexts(t, 1))); err != nil {
		t.Fatal(err)
	}
	checkRing(t, ring, 1)
}

func TestReloadFileEndsAnEphemeralRing(t *testing.T) {
	ring := EphemeralKeyRing()
	if err := ring.ReloadFile(writeKeyFile(t, keyTexts(t, 1))); err != nil {
		t.Fatal(err)
	}
	if ring.Ephemeral() {
		t.Error("still ephemeral")
	}
}

func TestReloadFileReachesLiveIssuersAndCodecs(t *testing.T) {
	ring := testRing(t, 1)
	issuer, codec := mustIssuer(t, ring, nil), mustCodec(t, ring, nil)
	cursor := mustIssue(t, issuer)
	path := writeKeyFile(t, keyTexts(t, 2, 1))
	if err := ring.ReloadFile(path); err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.Verify(testScope, cursor); err != nil {
		t.Errorf("a cursor of the key that is now the second: %v", err)
	}
	next := testRing(t, 2)
	if _, err := mustIssuer(t, next, nil).Verify(testScope, mustIssue(t, issuer)); err != nil {
		t.Errorf("a cursor issued after the reload is not of the first key: %v", err)
	}
	if _, err := mustCodec(t, next, nil).Decode(testScope, mustEncode(t, codec, "state")); err != nil {
		t.Errorf("a state encoded after the reload is not of the first key: %v", err)
	}
	replaceFile(t, path, keyTexts(t, 2), 0o600)
	if err := ring.ReloadFile(path); err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.Verify(testScope, cursor); !errors.Is(err, ErrExpired) {
		t.Errorf("a cursor of the retired key: error %v, want ErrExpired", err)
	}
}

func TestReloadFileOfTheSameKeysDisturbsNothing(t *testing.T) {
	ring := testRing(t, 1, 2)
	before := ring.current.Load()
	if err := ring.ReloadFile(writeKeyFile(t, strings.ReplaceAll(keyTexts(t, 1, 2), "\n", " \n\n"))); err != nil {
		t.Fatal(err)
	}
	if ring.current.Load() != before {
		t.Error("the keys were replaced by themselves")
	}
	if err := ring.ReloadFile(writeKeyFile(t, keyTexts(t, 2, 1))); err != nil {
		t.Fatal(err)
	}
	checkRing(t, ring, 2, 1) // another order is a change
}

func TestReloadFileKeepsTheKeysIfTheFileIsMalformed(t *testing.T) {
	good := keyTexts(t, 1)
	for name, text := range map[string]string{
		"empty":              "",
		"blank":              " \r\n\n",
		"key cut short":      good + keyTexts(t, 2)[:63],
		"comma at the end":   strings.TrimSpace(good) + ",",
		"comment":            "# the new key\n" + good,
		"same key twice":     good + good,
		"17 keys":            keyTexts(t, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17),
		"byte order mark":    "\ufeff" + good,
		"NUL at the end":     good + "\x00",
		"64 KiB and 1 byte":  good + strings.Repeat(" ", 64<<10+1-len(good)),
		"text of some other": "-----BEGIN PRIVATE KEY-----\n" + good,
	} {
		t.Run(name, func(t *testing.T) {
			ring := testRing(t, 9, 8)
			checkReloadRefused(t, ring, writeKeyFile(t, text))
			checkRing(t, ring, 9, 8)
			checkNoPieceOf(t, ring.ReloadFile(writeKeyFile(t, text)), text)
		})
	}
}

// checkReloadRefused checks that the ring stays as it was, to the pointer.
func checkReloadRefused(t *testing.T, ring *KeyRing, path string) {
	t.Helper()
	before := ring.current.Load()
	if err := ring.ReloadFile(path); !errors.Is(err, ErrKey) {
		t.Errorf("error %v, want ErrKey", err)
	}
	if ring.current.Load() != before {
		t.Error("the keys of the ring were replaced")
	}
}

// checkNoPieceOf checks that err quotes no 8 characters of any word of text.
func checkNoPieceOf(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range strings.Fields(text) {
		for i := range max(len(word)-7, 0) {
			if strings.Contains(err.Error(), word[i:i+8]) {
				t.Fatalf("the error quotes the text: %v", err)
			}
		}
	}
}

func TestReloadFileTellsOfAMissingFile(t *testing.T) {
	ring := testRing(t, 1)
	missing := filepath.Join(t.TempDir(), "missing")
	checkReloadRefused(t, ring, missing)
	if err := ring.ReloadFile(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}

func TestReloadFileNeverQuotesAKeyThatWasTakenForThePath(t *testing.T) {
	key := strings.TrimSpace(keyTexts(t, 1))
	checkNoPieceOf(t, testRing(t, 2).ReloadFile(key), key)
}

func TestReloadFileRefusesADirectory(t *testing.T) {
	checkReloadRefused(t, testRing(t, 1), t.TempDir())
}

func TestReloadFileOfNoRing(t *testing.T) {
	if err := (*KeyRing)(nil).ReloadFile(writeKeyFile(t, keyTexts(t, 1))); !errors.Is(err, ErrKey) {
		t.Errorf("error %v, want ErrKey", err)
	}
}

func TestReloadFileRefusesAFileThatIsOpenToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	path := filepath.Join(t.TempDir(), "keys")
	for _, mode := range []fs.FileMode{0o644, 0o604, 0o602, 0o601, 0o660, 0o620, 0o444, 0o777} {
		ring := testRing(t, 9)
		replaceFile(t, path, keyTexts(t, 1), mode)
		t.Logf("mode %04o", mode)
		checkReloadRefused(t, ring, path)
	}
	for _, mode := range []fs.FileMode{0o600, 0o400, 0o640, 0o440} {
		ring := testRing(t, 9)
		replaceFile(t, path, keyTexts(t, 1), mode)
		if err := ring.ReloadFile(path); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

// Of two reloads at once, the one that read the file before it changed must not have the last word.
func TestReloadFileNeverBringsBackOlderKeys(t *testing.T) {
	ring := testRing(t, 1)
	path := writeKeyFile(t, keyTexts(t, 3))
	reads := 0
	err := ring.reload(func() (string, error) {
		reads++
		if reads == 1 {
			return keyTexts(t, 2), ring.ReloadFile(path) // the other reload, which comes in between
		}
		return readKeyFile(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	checkRing(t, ring, 3)
}

// A mounted Kubernetes secret is a link to a file in a directory that is itself a link, and it is the latter that
// changes.
func TestReloadFileFollowsAMountedSecret(t *testing.T) {
	mount := t.TempDir()
	for name, text := range map[string]string{"..1": keyTexts(t, 1), "..2": keyTexts(t, 2)} {
		if err := os.Mkdir(filepath.Join(mount, name), 0o700); err != nil {
			t.Fatal(err)
		}
		replaceFile(t, filepath.Join(mount, name, "keys"), text, 0o440)
	}
	data, path := filepath.Join(mount, "..data"), filepath.Join(mount, "keys")
	link(t, filepath.Join("..data", "keys"), path)
	ring := new(KeyRing)
	for _, version := range []byte{1, 2} {
		fresh := data + "_tmp"
		link(t, ".."+string('0'+version), fresh)
		if err := os.Rename(fresh, data); err != nil {
			t.Fatal(err)
		}
		if err := ring.ReloadFile(path); err != nil {
			t.Fatal(err)
		}
		checkRing(t, ring, version)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	err := os.Symlink(target, path)
	if runtime.GOOS == "windows" && err != nil {
		t.Skip("links need a privilege here:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSameKeysMindsOrderAndNumber(t *testing.T) {
	keys := testRing(t, 1, 2).current.Load()
	for _, seeds := range [][]byte{{1}, {2, 1}, {1, 3}, {1, 2, 3}} {
		if keys.sameKeys(testRing(t, seeds...).current.Load()) {
			t.Errorf("1, 2 taken for %v", seeds)
		}
	}
	if !keys.sameKeys(&ringKeys{keys: slices.Clone(keys.keys)}) {
		t.Error("the same keys are not the same")
	}
}
