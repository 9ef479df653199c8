package contoken

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Scope says who may redeem a token and for which request. The scope that a token is issued under is the scope that
// it verifies under, so build it in one place, from the request and never from the token. Its zero value is an
// anonymous caller and no request; cursors need a Tool.
//
// Text is compared byte by byte. It must be UTF-8 without NUL, or the call is ErrInput.
type Scope struct {
	// Tool is what the token continues: the name of a tool, or "tools/call deploy" where one name may stand under
	// several methods.
	Tool string
	// Subject is the authenticated principal, such as the user id of a verified access token. Empty is an anonymous
	// caller: whoever holds the token may redeem it. Never take it from what the client says of itself.
	Subject string
	// Args is the digest of the original arguments, from [FingerprintArgs]. Zero is not bound to arguments.
	Args Fingerprint
}

// check reports, as ErrInput, a scope that no token may be issued or verified under.
func (s *Scope) check(requireSubject bool) error {
	if !isScopeText(s.Tool) {
		return fmt.Errorf("%w: the tool of a scope has NUL or invalid UTF-8", ErrInput)
	}
	if !isScopeText(s.Subject) {
		return fmt.Errorf("%w: the subject of a scope has NUL or invalid UTF-8", ErrInput)
	}
	if requireSubject && s.Subject == "" {
		return fmt.Errorf("%w: a scope without the required subject", ErrInput)
	}
	return nil
}

// isScopeText reports whether text can be a part of a scope or key derivation, where NUL separates the parts.
func isScopeText(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// appendScope appends what a bind tag authenticates: subject [NUL tool [NUL hex(args)]], without trailing parts that
// are empty. No two scopes share it, since no part holds NUL.
func appendScope(dst []byte, s *Scope) []byte {
	bound := s.Args != Fingerprint{}
	dst = append(dst, s.Subject...)
	if s.Tool != "" || bound {
		dst = append(dst, 0)
		dst = append(dst, s.Tool...)
	}
	if bound {
		dst = append(dst, 0)
		dst = hex.AppendEncode(dst, s.Args[:])
	}
	return dst
}

// maxUnixTime is the last second that a token may name: 2^53, so that every JSON library reads it exactly.
const maxUnixTime = 1 << 53

// maxClockSkew is by how many seconds the clocks of two instances may differ.
const maxClockSkew = 60

// policy is what the options of all kinds of token have in common, checked and with its defaults filled in.
type policy struct {
	audience       string
	ttl            int64 // seconds
	requireSubject bool
	now            func() time.Time
}

func newPolicy(audience string, ttl, defaultTTL time.Duration, requireSubject bool, now func() time.Time) (policy, error) {
	if ttl == 0 {
		ttl = defaultTTL
	}
	if ttl < time.Second || ttl%time.Second != 0 {
		return policy{}, fmt.Errorf("%w: TTL of %v, want whole seconds", ErrInput, ttl)
	}
	if !isScopeText(audience) {
		return policy{}, fmt.Errorf("%w: the audience has NUL or invalid UTF-8", ErrInput)
	}
	if now == nil {
		now = time.Now
	}
	return policy{audience, int64(ttl / time.Second), requireSubject, now}, nil
}

// admit checks what a call brings along before any token is looked at, and reads the clock once for it.
func (p *policy) admit(scope *Scope) (unixNow int64, err error) {
	if err := scope.check(p.requireSubject); err != nil {
		return 0, err
	}
	unixNow = p.now().Unix()
	if unixNow < 0 || unixNow > maxUnixTime {
		return 0, fmt.Errorf("%w: the clock stands before 1970 or past 2^53 seconds", ErrInput)
	}
	return unixNow, nil
}

// maxPooledBytes keeps a buffer that one unusual token made large from staying so.
const maxPooledBytes = 256 << 10

// buffer takes the forms that a token goes through, such as body, tag and text, one behind the other. Each call borrows
// one: what goes to a hash or a cipher behind an interface would otherwise be allocated anew every time.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 2<<10)} }}

func borrowBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) giveBack() {
	b.bytes = b.bytes[:0]
	if cap(b.bytes) <= maxPooledBytes {
		buffers.Put(b)
	}
}

// extend takes b.bytes as an append function has returned it and returns what that appended.
func (b *buffer) extend(appended []byte) []byte {
	start := len(b.bytes)
	b.bytes = appended
	return appended[start:]
}

// base64URL is base64url without padding (RFC 4648, section 5) that takes one spelling of each value.
var base64URL = base64.RawURLEncoding.Strict()

// decodeBase64 returns what text decodes to.
func (b *buffer) decodeBase64(text []byte) (decoded []byte, ok bool) {
	// Even the strict decoder skips CR and LF.
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, false
	}
	appended, err := base64URL.AppendDecode(b.bytes, text)
	return b.extend(appended), err == nil
}

// appendSealed appends nonce || ciphertext || tag. AES-GCM draws and writes its nonce by itself, and its NonceSize
// is 0: see [cipher.NewGCMWithRandomNonce].
func appendSealed(dst []byte, aead cipher.AEAD, plaintext, associated []byte) []byte {
	nonceAt := len(dst)
	dst = append(dst, make([]byte, aead.NonceSize())...)
	nonce := dst[nonceAt:]
	rand.Read(nonce)
	return aead.Seal(dst, nonce, plaintext, associated)
}

// appendOpened is the inverse of appendSealed, for what has at least sealedOverhead bytes.
func appendOpened(dst []byte, aead cipher.AEAD, sealed, associated []byte) ([]byte, error) {
	n := aead.NonceSize()
	return aead.Open(dst, sealed[:n], sealed[n:], associated)
}

func sealedOverhead(aead cipher.AEAD) int { return aead.NonceSize() + aead.Overhead() }

// decodeWhole has decode fill a fresh value of the type that target points to and copies it to target when that
// succeeds, so that target is written whole or not at all and keeps nothing of what it held before.
func decodeWhole(target any, decode func(any) error) error {
	pointer := reflect.ValueOf(target)
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
		return fmt.Errorf("%w: the target to decode into is not a non-nil pointer", ErrInput)
	}
	fresh := reflect.New(pointer.Type().Elem())
	if decode(fresh.Interface()) != nil {
		// The decoder's own error may quote the state.
		return fmt.Errorf("%w: the state has another shape than the target", ErrMalformed)
	}
	pointer.Elem().Set(fresh.Elem())
	return nil
}
