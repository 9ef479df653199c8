package contoken

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
)

// fuzzSeeds has, for each target, what adds its seeds: the arguments of one call at a time.
var fuzzSeeds = map[string]func(testing.TB, func(...any)){
	"FuzzVerifyCursor": func(t testing.TB, add func(...any)) {
		for i, v := range readVectors[cursorVector](t, "cursor.json") {
			add(uint16(i), v.Cursor)
		}
	},
	"FuzzCursorBody":  addBodies,
	"FuzzOpaqueState": addBodies, // the body of a cursor is a position as good as any
	"FuzzDecodeState": func(t testing.TB, add func(...any)) {
		for i, v := range readVectors[stateVector](t, "state.json") {
			add(uint16(i), v.Wire)
		}
	},
	"FuzzStatePayload": func(t testing.TB, add func(...any)) {
		for _, v := range readVectors[stateVector](t, "state.json") {
			if payload, ok := signedPayload(v.Wire); ok {
				add(payload)
			}
		}
	},
	"FuzzEncodeState": func(t testing.TB, add func(...any)) {
		for _, v := range readVectors[stateVector](t, "state.json") {
			add(v.Scope.Subject, v.Scope.Tool, v.State)
		}
	},
	"FuzzCanonicalJSON": func(t testing.TB, add func(...any)) {
		for _, v := range readVectors[fingerprintVector](t, "fingerprint.json") {
			add(v.JSON, "a")
		}
	},
	"FuzzRedeem": func(t testing.TB, add func(...any)) {
		for i, v := range readVectors[oneTimeVector](t, "onetime.json") {
			add(uint8(i), v.Wire)
		}
	},
	"FuzzOneTimePayload": func(t testing.TB, add func(...any)) {
		for _, v := range readVectors[oneTimeVector](t, "onetime.json") {
			if payload, ok := signedPayload(v.Wire); ok {
				add(payload)
			}
		}
	},
	"FuzzParseKeyRing": func(t testing.TB, add func(...any)) {
		for _, v := range readVectors[cursorVector](t, "cursor.json") {
			add(strings.Join(v.Keys, ","))
			add(rawBase64(unhex(t, v.Keys[0])))
		}
	},
}

// addBodies adds the bodies of cursors, and two misspellings of each that chance would hardly find.
func addBodies(t testing.TB, add func(...any)) {
	for _, v := range readVectors[cursorVector](t, "cursor.json") {
		sealed := unbase64(v.Cursor)
		if len(sealed) <= sha256.Size {
			continue
		}
		body := sealed[:len(sealed)-sha256.Size]
		add(body)
		args := unhex(t, v.Scope.Args)
		add(bytes.Replace(body, args, make([]byte, len(args)), 1))            // bound to zeros
		add(bytes.Replace(body, []byte{5, 26}, []byte{5, 27, 0, 0, 0, 0}, 1)) // a time of 8 bytes, the first 4 of them 0
	}
}

// addSeeds adds the seeds of a target to it. A target without seeds fails.
func addSeeds(f *testing.F) {
	f.Helper()
	none := true
	fuzzSeeds[f.Name()](f, func(args ...any) { none = false; f.Add(args...) })
	if none {
		f.Fatal("no seeds")
	}
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\) \{\n(\taddSeeds\(f\)\n)?`)

func TestEveryFuzzTargetHasSeedsFromTheVectors(t *testing.T) {
	var targets [][][]byte
	for _, name := range []string{"fuzz_test.go", "onetime_fuzz_test.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, fuzzTarget.FindAllSubmatch(source, -1)...)
	}
	if len(targets) != len(fuzzSeeds) {
		t.Errorf("%d targets, but seeds for %d", len(targets), len(fuzzSeeds))
	}
	for _, target := range targets {
		name, seeded := string(target[1]), target[2] != nil
		if !seeded || fuzzSeeds[name] == nil {
			t.Errorf("%s is not seeded", name)
			continue
		}
		seeds := 0
		fuzzSeeds[name](t, func(...any) { seeds++ })
		if seeds == 0 {
			t.Errorf("%s has no seeds", name)
		}
	}
}

// unbase64 decodes what it can of a text that may be no base64url.
func unbase64(text string) []byte {
	decoded, _ := base64.RawURLEncoding.DecodeString(text)
	return decoded
}

// signedPayload is what stands, or ought to stand, between the prefix and the MAC of a signed state.
func signedPayload(wire string) ([]byte, bool) {
	signed, ok := strings.CutPrefix(wire, "v1.")
	encoded, _, _ := strings.Cut(signed, ".")
	return unbase64(encoded), ok
}

// availableModes are all modes or, where FIPS 140 is enforced, those without XChaCha20.
func availableModes(t testing.TB) []RequestStateMode {
	t.Helper()
	if fips140.Enforced() {
		t.Logf("not run where FIPS 140 is enforced: %v", ModeEncryptedX)
		return []RequestStateMode{ModeSigned, ModeEncrypted}
	}
	return []RequestStateMode{ModeSigned, ModeEncrypted, ModeEncryptedX}
}

// wireBytes is the length of the wire string for a payload of n bytes.
func wireBytes(mode RequestStateMode, n int) int {
	encoded := base64.RawURLEncoding.EncodedLen
	switch mode {
	case ModeEncrypted:
		return len("v1e.") + encoded(12+n+16)
	case ModeEncryptedX:
		return len("v1x.") + encoded(24+n+16)
	default:
		return len("v1.") + encoded(n) + len(".") + encoded(sha256.Size)
	}
}

// payloadSealer seals payloads that Encode would not write, so that they reach the reader behind the authentication.
type payloadSealer struct {
	bindTag, macKey []byte
	gcm, xchacha    cipher.AEAD
}

func newPayloadSealer(t testing.TB, v stateVector) *payloadSealer {
	t.Helper()
	key := vectorRing(t, v.Keys).current.Load().keys[0]
	sub := func(use string) []byte { return key.subKey("contoken/v1 state "+use, v.Audience) }
	s := &payloadSealer{
		bindTag: hmacSHA256(sub("bind"), v.Scope.Subject+"\x00"+v.Scope.Tool),
		macKey:  sub("mac"),
	}
	block, err := aes.NewCipher(sub("aes-256-gcm"))
	if err != nil {
		t.Fatal(err)
	}
	if s.gcm, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		t.Fatal(err)
	}
	if fips140.Enforced() {
		return s
	}
	if s.xchacha, err = chacha20poly1305.NewX(sub("xchacha20-poly1305")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *payloadSealer) wire(mode RequestStateMode, payload []byte) string {
	tag := hex.EncodeToString(s.bindTag)
	switch mode {
	case ModeEncrypted:
		return "v1e." + rawBase64(s.gcm.Seal(nil, nil, payload, []byte("v1e."+tag)))
	case ModeEncryptedX:
		nonce := make([]byte, s.xchacha.NonceSize())
		return "v1x." + rawBase64(s.xchacha.Seal(nonce, nonce, payload, []byte("v1x."+tag)))
	default:
		signed := "v1." + rawBase64(payload)
		return signed + "." + rawBase64(hmacSHA256(s.macKey, signed))
	}
}
