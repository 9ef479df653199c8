package contoken

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	minSecretBytes = 32
	maxRingKeys    = 16
)

// Key is a secret of at least 32 bytes. It never prints itself, and its zero value is not usable.
type Key struct {
	// A closure keeps the secret where reflection cannot follow, and so neither fmt, under whatever verb and inside
	// whatever struct, nor encoding/json, slog or a debug printer.
	secret func() []byte
}

// NewKey returns a key of a copy of secret. Fewer than 32 bytes, or one byte repeated, are ErrKey. The bytes must come
// from a random source or a key management service; a password is no key.
func NewKey(secret []byte) (Key, error) {
	if len(secret) < minSecretBytes {
		return Key{}, fmt.Errorf("%w: key of %d bytes, want at least %d", ErrKey, len(secret), minSecretBytes)
	}
	if bytes.Count(secret, secret[:1]) == len(secret) {
		return Key{}, fmt.Errorf("%w: key is one byte repeated", ErrKey)
	}
	own := bytes.Clone(secret)
	return Key{secret: func() []byte { return own }}, nil
}

// ParseKey reads a key from text: 64 hex digits, or at least 32 bytes in base64 (standard or URL alphabet, padded or
// not). White space around the text is ignored. Anything else is ErrKey, hex digits in any number but 64 included,
// since a hex key that lost a digit would otherwise pass for base64.
//
// A suitable text is what "openssl rand -hex 32" prints.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	if strings.Trim(text, "0123456789abcdefABCDEF") == "" {
		if len(text) != hex.EncodedLen(minSecretBytes) {
			return Key{}, fmt.Errorf("%w: key text of %d hex digits, want 64", ErrKey, len(text))
		}
		secret, _ := hex.DecodeString(text) // cannot fail: 64 hex digits
		return NewKey(secret)
	}
	secret, err := parseKeyBase64(text)
	if err != nil {
		return Key{}, err
	}
	return NewKey(secret)
}

func parseKeyBase64(text string) ([]byte, error) {
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	if strings.HasSuffix(text, "=") {
		encoding = encoding.WithPadding(base64.StdPadding)
	}
	secret, err := encoding.Strict().DecodeString(text)
	// The decoder skips CR and LF, which white space inside a key must not be.
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("%w: key text is neither 64 hex digits nor base64", ErrKey)
	}
	return secret, nil
}

// GenerateKey returns a key of 32 random bytes from the operating system.
func GenerateKey() Key {
	secret := make([]byte, minSecretBytes)
	rand.Read(secret) // never fails: it crashes the program instead
	return Key{secret: func() []byte { return secret }}
}

// equal compares in constant time.
func (k Key) equal(other Key) bool {
	return subtle.ConstantTimeCompare(k.secret(), other.secret()) == 1
}

// subKey derives the 32 bytes that serve one use of the key and no other: HKDF-SHA256 (RFC 5869) without salt, with
// the label of the use and the audience as info. A label holds no NUL, so the two cannot run into each other.
func (k Key) subKey(label, audience string) []byte {
	sub, err := hkdf.Key(sha256.New, k.secret(), nil, label+"\x00"+audience, sha256.Size)
	if err != nil {
		panic("contoken: " + err.Error()) // only for an output of over 8,160 bytes or a hash other than SHA-2
	}
	return sub
}

// KeyRing holds 1 to 16 different keys: the first signs, and all verify. One ring serves any number of issuers and
// codecs, of every kind. Make one with [NewKeyRing] or its kin; the zero value is not usable before a Replace or a
// ReloadFile. A KeyRing is safe for concurrent use, must not be copied, and never prints its keys.
type KeyRing struct {
	current atomic.Pointer[ringKeys]
}

// ringKeys is what a ring holds until the next Replace; it never changes.
type ringKeys struct {
	keys      []Key
	ephemeral bool
}

// NewKeyRing returns a ring of keys. None, more than 16, a zero Key or the same key twice are ErrKey.
func NewKeyRing(keys ...Key) (*KeyRing, error) {
	r := new(KeyRing)
	if err := r.Replace(keys...); err != nil {
		return nil, err
	}
	return r, nil
}

// ParseKeyRing reads keys, each as [ParseKey] does, separated by white space or by single commas. A comma with no key
// before or after it is ErrKey: a key seems to be missing there.
func ParseKeyRing(text string) (*KeyRing, error) {
	var keys []Key
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			return nil, fmt.Errorf("%w: key %d is missing", ErrKey, len(keys)+1)
		}
		for _, word := range words {
			key, err := ParseKey(word)
			if err != nil {
				return nil, fmt.Errorf("%w (key %d)", err, len(keys)+1)
			}
			keys = append(keys, key)
		}
	}
	return NewKeyRing(keys...)
}

// KeyRingFromEnv reads a ring from the environment variable name as [ParseKeyRing] does. Unset, blank and malformed
// are ErrKey. This is the one for a server that runs more than once or restarts: every instance needs the same keys.
func KeyRingFromEnv(name string) (*KeyRing, error) {
	text, err := readEnv(name)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, fmt.Errorf(`%w: environment variable %s is unset or blank; "openssl rand -hex 32" makes a key`, ErrKey, name)
	}
	ring, err := ParseKeyRing(text)
	if err != nil {
		return nil, fmt.Errorf("%w (environment variable %s)", err, name)
	}
	return ring, nil
}

// KeyRingFromEnvOrEphemeral is [KeyRingFromEnv], but an unset or blank variable gives an [EphemeralKeyRing], for a
// server that runs once on its user's machine. A malformed variable is still ErrKey, never a random key.
func KeyRingFromEnvOrEphemeral(name string) (*KeyRing, error) {
	if text, err := readEnv(name); err == nil && text == "" {
		return EphemeralKeyRing(), nil
	}
	return KeyRingFromEnv(name)
}

// readEnv returns what an environment variable holds. To take a key for its name would come to an ephemeral ring, or to
// an error that shows the key.
func readEnv(name string) (string, error) {
	if _, err := ParseKeyRing(name); err == nil {
		return "", fmt.Errorf("%w: a key was given where the name of an environment variable belongs", ErrKey)
	}
	return strings.TrimSpace(os.Getenv(name)), nil
}

// EphemeralKeyRing returns a ring of a fresh random key that this process alone holds: every token dies with the
// process, and no other instance takes it.
func EphemeralKeyRing() *KeyRing {
	r := new(KeyRing)
	r.current.Store(&ringKeys{keys: []Key{GenerateKey()}, ephemeral: true})
	return r
}

// Replace changes the keys at once for every issuer and codec built on the ring, while they serve. On ErrKey, for the
// reasons that NewKeyRing has, the ring keeps the keys that it has.
//
// To rotate without refusing a token, roll out each step to all instances before the next: old,new, so that all
// verify the new key; then new,old, so that all sign with it; then, one TTL later, new alone. ReloadFile does the same
// from a file that all instances read.
func (r *KeyRing) Replace(keys ...Key) error {
	if r == nil {
		return fmt.Errorf("%w: nil key ring", ErrKey)
	}
	if len(keys) == 0 || len(keys) > maxRingKeys {
		return fmt.Errorf("%w: ring of %d keys, want 1 to %d", ErrKey, len(keys), maxRingKeys)
	}
	own := make([]Key, 0, len(keys))
	for i, key := range keys {
		if key.secret == nil {
			return fmt.Errorf("%w: key %d is the zero Key", ErrKey, i+1)
		}
		for j, earlier := range own {
			if key.equal(earlier) {
				return fmt.Errorf("%w: keys %d and %d are the same", ErrKey, j+1, i+1)
			}
		}
		own = append(own, key)
	}
	r.current.Store(&ringKeys{keys: own})
	return nil
}

// Ephemeral reports whether the ring still holds the random key of an EphemeralKeyRing. A server that is meant to
// share its tokens can refuse to start on one.
func (r *KeyRing) Ephemeral() bool {
	if r == nil {
		return false
	}
	current := r.current.Load()
	return current != nil && current.ephemeral
}

// derivedKeys holds what an issuer or codec derives from each key of its ring, computed once a change of the ring.
type derivedKeys[T any] struct {
	ring   *KeyRing
	derive func(Key) T
	latest atomic.Pointer[derivation[T]]
}

type derivation[T any] struct {
	from *ringKeys
	keys []T
}

func newDerivedKeys[T any](ring *KeyRing, derive func(Key) T) (*derivedKeys[T], error) {
	if ring == nil || ring.current.Load() == nil {
		return nil, fmt.Errorf("%w: nil or zero key ring", ErrKey)
	}
	return &derivedKeys[T]{ring: ring, derive: derive}, nil
}

// all returns the derived keys in the order of the ring: the first signs.
func (d *derivedKeys[T]) all() []T {
	current := d.ring.current.Load()
	if latest := d.latest.Load(); latest != nil && latest.from == current {
		return latest.keys
	}
	// Callers that race here each derive the same keys, and any of them may stay.
	keys := make([]T, len(current.keys))
	for i, key := range current.keys {
		keys[i] = d.derive(key)
	}
	d.latest.Store(&derivation[T]{from: current, keys: keys})
	return keys
}

// mac is an HMAC-SHA256 tag.
type mac [sha256.Size]byte

// macKey computes HMAC-SHA256 (RFC 2104) under one sub-key. It keeps keyed states, since to make one costs more than
// to hash a token. It is safe for concurrent use.
type macKey struct {
	states sync.Pool // of *macState
}

type macState struct {
	hash.Hash
	sum mac
}

func newMACKey(key []byte) *macKey {
	return &macKey{states: sync.Pool{New: func() any {
		state := &macState{Hash: hmac.New(sha256.New, key)}
		state.Reset() // has every later Reset restore the keyed state rather than compute it
		return state
	}}}
}

func (m *macKey) sum(message []byte) mac {
	state := m.states.Get().(*macState)
	state.Reset()
	state.Write(message)
	state.Sum(state.sum[:0])
	sum := state.sum
	m.states.Put(state)
	return sum
}

// verify reports, in constant time, whether tag is the MAC of message. Only a tag of 32 bytes can be.
func (m *macKey) verify(tag, message []byte) bool {
	sum := m.sum(message)
	return hmac.Equal(tag, sum[:])
}
