package contoken

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/chacha20poly1305"
)

// Defaults of request state.
const (
	// DefaultRequestStateTTL is how long a state lives unless RequestStateOptions says otherwise.
	DefaultRequestStateTTL = 10 * time.Minute
	// DefaultMaxRequestStateBytes is the longest wire string unless RequestStateOptions says otherwise.
	DefaultMaxRequestStateBytes = 64 << 10
)

// RequestStateMode says how a [RequestStateCodec] protects the states that it encodes. Every codec decodes all modes.
type RequestStateMode int

const (
	// ModeSigned: the client can read a state, but not change it. HMAC-SHA256; tokens start with "v1.".
	ModeSigned RequestStateMode = iota
	// ModeEncrypted: the client can do neither. AES-256-GCM with random 96-bit nonces, of which one key may make 2^32
	// (NIST SP 800-38D, section 8.3); rotate before. Tokens start with "v1e.".
	ModeEncrypted
	// ModeEncryptedX is as ModeEncrypted, but XChaCha20-Poly1305, whose 192-bit nonces have no such limit, for fleets
	// that make billions of tokens a key. Not available where FIPS 140 is enforced. Tokens start with "v1x.".
	ModeEncryptedX
)

// modes are the properties of each mode by its number.
var modes = [...]struct{ name, prefix string }{
	ModeSigned:     {"signed", "v1."},
	ModeEncrypted:  {"encrypted", "v1e."},
	ModeEncryptedX: {"encryptedX", "v1x."},
}

func (m RequestStateMode) valid() bool { return 0 <= m && int(m) < len(modes) }

// String returns "signed", "encrypted" or "encryptedX".
func (m RequestStateMode) String() string {
	if !m.valid() {
		return "RequestStateMode(" + strconv.Itoa(int(m)) + ")"
	}
	return modes[m].name
}

// RequestStateOptions configures a [RequestStateCodec]. The zero value is valid, and NewRequestStateCodec copies it.
type RequestStateOptions struct {
	// Mode says how Encode protects a state. Zero is ModeSigned. A fleet can change it while tokens are out.
	Mode RequestStateMode
	// TTL is how long a state lives, in whole seconds. Zero means DefaultRequestStateTTL.
	TTL time.Duration
	// Audience names the service: tokens of one audience do not open under another, though the keys be the same. It
	// must be UTF-8 without NUL. Empty is an audience too, which all services that set none share.
	Audience string
	// RequireSubject refuses scopes without a subject, as ErrInput. Set it wherever callers authenticate.
	RequireSubject bool
	// MaxBytes is the longest wire string that Encode makes and Decode looks at. Zero means
	// DefaultMaxRequestStateBytes.
	MaxBytes int
	// Now is the clock, read once a call. Nil means time.Now.
	Now func() time.Time
}

// RequestStateCodec turns the state of a multi round-trip request into a token that its client cannot change, and
// back. It is safe for concurrent use, and every codec with the same key and audience opens the tokens of every other.
type RequestStateCodec struct {
	policy
	mode     RequestStateMode
	maxBytes int
	keys     *derivedKeys[stateKey]
}

// stateKey is what a codec derives from a key.
type stateKey struct {
	mac, bind *macKey
	aeads     [len(modes)]cipher.AEAD // nil for ModeSigned, and for a mode that may not be used here
}

// NewRequestStateCodec returns a codec on keys; nil opts means the zero RequestStateOptions. A nil or zero ring is
// ErrKey. An unknown mode or one that is not available, a TTL that is negative or not whole seconds, a negative
// MaxBytes, and an audience with NUL or invalid UTF-8 are ErrInput.
func NewRequestStateCodec(keys *KeyRing, opts *RequestStateOptions) (*RequestStateCodec, error) {
	if opts == nil {
		opts = new(RequestStateOptions)
	}
	policy, err := newPolicy(opts.Audience, opts.TTL, DefaultRequestStateTTL, opts.RequireSubject, opts.Now)
	if err != nil {
		return nil, err
	}
	if !opts.Mode.valid() {
		return nil, fmt.Errorf("%w: unknown mode %v", ErrInput, opts.Mode)
	}
	if opts.MaxBytes < 0 {
		return nil, fmt.Errorf("%w: MaxBytes of %d", ErrInput, opts.MaxBytes)
	}
	derived, err := newDerivedKeys(keys, func(k Key) stateKey { return newStateKey(k, policy.audience) })
	if err != nil {
		return nil, err
	}
	codec := &RequestStateCodec{policy, opts.Mode, opts.MaxBytes, derived}
	if codec.maxBytes == 0 {
		codec.maxBytes = DefaultMaxRequestStateBytes
	}
	if codec.mode != ModeSigned && derived.all()[0].aeads[codec.mode] == nil {
		return nil, fmt.Errorf("%w: mode %v may not be used where FIPS 140 is enforced", ErrInput, opts.Mode)
	}
	return codec, nil
}

func newStateKey(k Key, audience string) stateKey {
	key := stateKey{
		mac:  newMACKey(k.subKey("contoken/v1 state mac", audience)),
		bind: newMACKey(k.subKey("contoken/v1 state bind", audience)),
	}
	block, err := aes.NewCipher(k.subKey("contoken/v1 state aes-256-gcm", audience))
	if err == nil {
		key.aeads[ModeEncrypted], err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		panic("contoken: " + err.Error()) // only for a key that is not 32 bytes, or a cipher that is not AES
	}
	aead, err := chacha20poly1305.NewX(k.subKey("contoken/v1 state xchacha20-poly1305", audience))
	if err == nil { // it fails where FIPS 140 is enforced
		key.aeads[ModeEncryptedX] = aead
	}
	return key
}

// Encode returns the wire string that carries state, any UTF-8 text, to whoever comes under scope within the TTL. In
// ModeSigned its client can read it. A state whose wire string would be over MaxBytes is ErrTooLarge; one that is not
// UTF-8, a bad scope and a bad clock are ErrInput.
func (c *RequestStateCodec) Encode(scope Scope, state string) (string, error) {
	now, err := c.admit(&scope)
	if err != nil {
		return "", err
	}
	expires := now + c.ttl
	if expires > maxUnixTime {
		return "", fmt.Errorf("%w: the state would expire past 2^53 seconds", ErrInput)
	}
	if !utf8.ValidString(state) {
		return "", fmt.Errorf("%w: the state is not UTF-8", ErrInput)
	}
	if len(state) > c.maxBytes { // spare the work; the wire string is longer than its state
		return "", c.errTooLarge()
	}
	buf := borrowBuffer()
	defer buf.giveBack()
	key := &c.keys.all()[0]
	bindTag := key.bindTag(buf, &scope)
	payload := buf.extend(appendPayload(buf.bytes, state, expires, bindTag))
	var wire []byte
	if c.mode == ModeSigned {
		wire = key.sign(buf, payload)
	} else {
		wire = key.encrypt(buf, c.mode, payload, bindTag)
	}
	if len(wire) > c.maxBytes {
		return "", c.errTooLarge()
	}
	return string(wire), nil
}

func (c *RequestStateCodec) errTooLarge() error {
	return fmt.Errorf("%w: its wire string would be over %d bytes", ErrTooLarge, c.maxBytes)
}

// Decode returns the state that wire carries if it was encoded under scope, by a codec that shares a key and the
// audience with this one, in whatever mode, and has not expired. Otherwise the state is empty and the error Is
// ErrExpired, where starting over is the answer, or one of those that are ErrInvalid, where someone should be told. A
// bad scope or clock is ErrInput, whatever the wire string.
//
// A token can be decoded any number of times until it expires. An empty wire string is ErrMalformed: a handler asks
// for the presence of state before it calls Decode.
func (c *RequestStateCodec) Decode(scope Scope, wire string) (string, error) {
	now, err := c.admit(&scope)
	if err != nil {
		return "", err
	}
	if len(wire) > c.maxBytes {
		return "", ErrMalformed
	}
	buf := borrowBuffer()
	defer buf.giveBack()
	payload, bindTag, err := c.open(buf, &scope, wire)
	if err != nil {
		return "", err
	}
	state, expires, tag, ok := readPayload(buf, payload)
	switch {
	case !ok:
		return "", ErrMalformed
	case now >= expires:
		return "", ErrExpired
	case !hmac.Equal(tag, bindTag):
		return "", ErrScope
	}
	return string(state), nil
}

// EncodeJSON is Encode for the JSON encoding of v, without the escapes that encoding/json has for HTML. A v that cannot
// be encoded, or holds a string that is not UTF-8, is ErrInput.
func (c *RequestStateCodec) EncodeJSON(scope Scope, v any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(v) != nil { // its error may quote v
		return "", fmt.Errorf("%w: the state cannot be encoded in JSON", ErrInput)
	}
	// The encoder writes this escape, which it has no other use for, where a string was not UTF-8.
	if strings.Contains(strings.ReplaceAll(text.String(), `\\`, ""), `\ufffd`) {
		return "", fmt.Errorf("%w: the state holds a string that is not UTF-8", ErrInput)
	}
	return c.Encode(scope, strings.TrimSuffix(text.String(), "\n"))
}

// DecodeJSON is Decode followed by a strict JSON decoding into what v points to, which is replaced whole or, on an
// error, left alone. A state that is not one JSON value of v's shape, with no unknown field, is ErrMalformed. In an
// any, numbers are json.Number, so that no digit is lost. A v that is not a pointer, or nil, is ErrInput.
func (c *RequestStateCodec) DecodeJSON(scope Scope, wire string, v any) error {
	state, err := c.Decode(scope, wire)
	if err != nil {
		return err
	}
	return decodeWhole(v, func(fresh any) error {
		decoder := json.NewDecoder(strings.NewReader(state))
		decoder.DisallowUnknownFields()
		decoder.UseNumber()
		if err := decoder.Decode(fresh); err != nil {
			return err
		}
		if _, err := decoder.Token(); err != io.EOF {
			return ErrMalformed
		}
		return nil
	})
}

// sign returns the wire string of a signed state:
//
//	"v1." base64url(payload) "." base64url(HMAC-SHA256(mac key, "v1." base64url(payload)))
func (k *stateKey) sign(buf *buffer, payload []byte) []byte {
	signed := base64URL.AppendEncode(append(buf.bytes, modes[ModeSigned].prefix...), payload)
	tag := k.mac.sum(signed[len(buf.bytes):])
	return buf.extend(base64URL.AppendEncode(append(signed, '.'), tag[:]))
}

// encrypt returns the wire string of an encrypted state, after the prefix of its mode:
//
//	"v1e." base64url(nonce || ciphertext || tag)
func (k *stateKey) encrypt(buf *buffer, mode RequestStateMode, payload, bindTag []byte) []byte {
	associated := associatedData(buf, mode, bindTag)
	sealed := buf.extend(appendSealed(buf.bytes, k.aeads[mode], payload, associated))
	return buf.extend(base64URL.AppendEncode(append(buf.bytes, modes[mode].prefix...), sealed))
}

// associatedData keeps an encrypted token from being opened under another prefix or scope.
func associatedData(buf *buffer, mode RequestStateMode, bindTag []byte) []byte {
	return buf.extend(append(append(buf.bytes, modes[mode].prefix...), bindTag...))
}

// open returns the authenticated payload of a wire string, and the bind tag that it must carry for scope.
func (c *RequestStateCodec) open(buf *buffer, scope *Scope, wire string) (payload, bindTag []byte, err error) {
	for mode := range modes {
		switch {
		case !strings.HasPrefix(wire, modes[mode].prefix):
			continue
		case RequestStateMode(mode) == ModeSigned:
			return c.verify(buf, scope, wire)
		default:
			return c.decrypt(buf, scope, wire, RequestStateMode(mode))
		}
	}
	return nil, nil, ErrMalformed
}

func (c *RequestStateCodec) verify(buf *buffer, scope *Scope, wire string) (payload, bindTag []byte, err error) {
	prefix := modes[ModeSigned].prefix
	text := buf.extend(append(buf.bytes, wire...))
	encoded, encodedTag, _ := bytes.Cut(text[len(prefix):], []byte{'.'})
	payload, ok := buf.decodeBase64(encoded)
	tag, tagOK := buf.decodeBase64(encodedTag)
	if !ok || !tagOK || len(tag) != sha256.Size {
		return nil, nil, ErrMalformed
	}
	signed := text[:len(prefix)+len(encoded)]
	keys := c.keys.all()
	for i := range keys {
		if keys[i].mac.verify(tag, signed) {
			return payload, keys[i].bindTag(buf, scope), nil
		}
	}
	return nil, nil, ErrSignature
}

func (c *RequestStateCodec) decrypt(buf *buffer, scope *Scope, wire string, mode RequestStateMode) (payload, bindTag []byte, err error) {
	prefix := modes[mode].prefix
	sealed, ok := buf.decodeBase64(buf.extend(append(buf.bytes, wire[len(prefix):]...)))
	keys := c.keys.all()
	if !ok || keys[0].aeads[mode] == nil || len(sealed) < sealedOverhead(keys[0].aeads[mode]) {
		return nil, nil, ErrMalformed
	}
	for i := range keys {
		bindTag := keys[i].bindTag(buf, scope)
		associated := associatedData(buf, mode, bindTag)
		opened, err := appendOpened(buf.bytes, keys[i].aeads[mode], sealed, associated)
		if err == nil {
			return buf.extend(opened), bindTag, nil
		}
	}
	return nil, nil, ErrSignature
}

// bindTag returns what ties a payload to a scope: the lower-case hex of its HMAC-SHA256. The key is not that of the
// payload's MAC, under which a client could choose a subject that is a payload and have the server sign it.
func (k *stateKey) bindTag(buf *buffer, scope *Scope) []byte {
	tag := k.bind.sum(buf.extend(appendScope(buf.bytes, scope)))
	return buf.extend(hex.AppendEncode(buf.bytes, tag[:]))
}
