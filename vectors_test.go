package contoken

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The vectors come from an independent implementation of SPEC.md.

type scopeVector struct {
	Tool    string `json:"tool"`
	Subject string `json:"subject"`
	Args    string `json:"args"`
}

func (s scopeVector) scope(t testing.TB) Scope {
	t.Helper()
	scope := Scope{Tool: s.Tool, Subject: s.Subject}
	if s.Args != "" && copy(scope.Args[:], unhex(t, s.Args)) != len(scope.Args) {
		t.Fatalf("fingerprint of another length: %q", s.Args)
	}
	return scope
}

type cursorVector struct {
	Name     string      `json:"name"`
	Keys     []string    `json:"keys"`
	Audience string      `json:"audience"`
	Now      int64       `json:"now"`
	TTL      int64       `json:"ttl"`
	Scope    scopeVector `json:"scope"`
	Cursor   string      `json:"cursor"`
	Page     uint32      `json:"page"`
	State    string      `json:"state"`
	IssuedAt int64       `json:"issuedAt"`
	Issue    bool        `json:"issue"`
	Error    string      `json:"error"`
}

type stateVector struct {
	Name     string      `json:"name"`
	Keys     []string    `json:"keys"`
	Audience string      `json:"audience"`
	Now      int64       `json:"now"`
	TTL      int64       `json:"ttl"`
	MaxBytes int         `json:"maxBytes"`
	Mode     string      `json:"mode"`
	Scope    scopeVector `json:"scope"`
	Wire     string      `json:"wire"`
	State    string      `json:"state"`
	Encode   bool        `json:"encode"`
	Error    string      `json:"error"`
}

type oneTimeVector struct {
	Name        string      `json:"name"`
	Keys        []string    `json:"keys"`
	Audience    string      `json:"audience"`
	Now         int64       `json:"now"`
	TTL         int64       `json:"ttl"`
	MaxBytes    int         `json:"maxBytes"`
	Mode        string      `json:"mode"`
	Scope       scopeVector `json:"scope"`
	Wire        string      `json:"wire"`
	State       string      `json:"state"`
	ID          string      `json:"id"`
	RecordUntil int64       `json:"recordUntil"`
	Encode      bool        `json:"encode"`
	Error       string      `json:"error"`
}

type fingerprintVector struct {
	Name      string `json:"name"`
	JSON      []byte `json:"json"`
	Canonical string `json:"canonical"`
	SHA256    string `json:"sha256"`
	Error     bool   `json:"error"`
}

// vectorErrors are the names that the vectors have for errors.
var vectorErrors = map[string]error{
	"malformed": ErrMalformed,
	"signature": ErrSignature,
	"scope":     ErrScope,
	"expired":   ErrExpired,
	"future":    ErrNotYetValid,
}

// readVectors reads a file of vectors. An empty one, or one with a field unknown to us, fails the test.
func readVectors[T any](t testing.TB, name string) []T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var vectors []T
	if err := decoder.Decode(&vectors); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(vectors) == 0 {
		t.Fatalf("%s: no vectors", name)
	}
	return vectors
}

func vectorRing(t testing.TB, keys []string) *KeyRing {
	t.Helper()
	var parsed []Key
	for _, text := range keys {
		key, err := NewKey(unhex(t, text))
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, key)
	}
	ring, err := NewKeyRing(parsed...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// at is a clock that stands at a Unix time.
func at(seconds int64) func() time.Time {
	return func() time.Time { return time.Unix(seconds, 0) }
}

func (v cursorVector) issuer(t testing.TB) *CursorIssuer {
	t.Helper()
	return mustIssuer(t, vectorRing(t, v.Keys), &CursorOptions{
		TTL:      time.Duration(v.TTL) * time.Second,
		Audience: v.Audience,
		Now:      at(v.Now),
	})
}

func (v stateVector) codec(t testing.TB) *RequestStateCodec {
	t.Helper()
	return mustCodec(t, vectorRing(t, v.Keys), &RequestStateOptions{
		Mode:     vectorMode(t, v.Mode),
		TTL:      time.Duration(v.TTL) * time.Second,
		Audience: v.Audience,
		MaxBytes: v.MaxBytes,
		Now:      at(v.Now),
	})
}

func (v oneTimeVector) codec(t testing.TB, store RedeemStore) *OneTimeCodec {
	t.Helper()
	return mustOneTime(t, vectorRing(t, v.Keys), store, &RequestStateOptions{
		Mode:     vectorMode(t, v.Mode),
		TTL:      time.Duration(v.TTL) * time.Second,
		Audience: v.Audience,
		MaxBytes: v.MaxBytes,
		Now:      at(v.Now),
	})
}

func vectorMode(t testing.TB, name string) RequestStateMode {
	t.Helper()
	for mode := ModeSigned; mode.valid(); mode++ {
		if mode.String() == name {
			return mode
		}
	}
	t.Fatalf("unknown mode %q", name)
	return 0
}

// rawBase64 is base64url without padding, for tests that build tokens by hand.
func rawBase64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
