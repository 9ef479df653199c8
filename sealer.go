package contoken

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/chacha20poly1305"
)

// sealer makes and opens the wire strings of a RequestStateCodec or a OneTimeCodec.
type sealer struct {
	policy
	kind     sealedKind
	mode     RequestStateMode
	maxBytes int
	keys     *derivedKeys[stateKey]
}

// sealedKind is what the two codecs do not share. Labels of their own keep either from opening what the other made.
type sealedKind struct {
	label string // as in "contoken/v1 state mac"
	hasID bool   // in the payload
}

var (
	requestState = sealedKind{label: "state"}
	oneTime      = sealedKind{label: "one-time", hasID: true}
)

// stateKey is what a sealer derives from a key.
type stateKey struct {
	mac, bind *macKey
	aeads     [len(modes)]cipher.AEAD // nil for ModeSigned, and for a mode that may not be used here
}

func newSealer(kind sealedKind, keys *KeyRing, opts *RequestStateOptions) (sealer, error) {
	if opts == nil {
		opts = new(RequestStateOptions)
	}
	policy, err := newPolicy(opts.Audience, opts.TTL, DefaultRequestStateTTL, opts.RequireSubject, opts.Now)
	if err != nil {
		return sealer{}, err
	}
	if !opts.Mode.valid() {
		return sealer{}, fmt.Errorf("%w: unknown mode %v", ErrInput, opts.Mode)
	}
	if opts.MaxBytes < 0 {
		return sealer{}, fmt.Errorf("%w: MaxBytes of %d", ErrInput, opts.MaxBytes)
	}
	derived, err := newDerivedKeys(keys, func(k Key) stateKey { return newStateKey(k, kind.label, policy.audience) })
	if err != nil {
		return sealer{}, err
	}
	s := sealer{policy, kind, opts.Mode, opts.MaxBytes, derived}
	if s.maxBytes == 0 {
		s.maxBytes = DefaultMaxRequestStateBytes
	}
	if _, err := s.sealingKey(); err != nil {
		return sealer{}, err
	}
	return s, nil
}

// sealingKey returns the key that makes tokens, if the mode may be used.
func (s *sealer) sealingKey() (*stateKey, error) {
	key := &s.keys.all()[0]
	if s.mode != ModeSigned && key.aeads[s.mode] == nil {
		return nil, fmt.Errorf("%w: mode %v may not be used where FIPS 140 is enforced", ErrInput, s.mode)
	}
	return key, nil
}

func newStateKey(k Key, label, audience string) stateKey {
	subKey := func(use string) []byte { return k.subKey("contoken/v1 "+label+" "+use, audience) }
	key := stateKey{mac: newMACKey(subKey("mac")), bind: newMACKey(subKey("bind"))}
	block, err := aes.NewCipher(subKey("aes-256-gcm"))
	if err == nil {
		key.aeads[ModeEncrypted], err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		panic("contoken: " + err.Error()) // only for a key that is not 32 bytes, or a cipher that is not AES
	}
	aead, err := chacha20poly1305.NewX(subKey("xchacha20-poly1305"))
	if err == nil { // it fails where FIPS 140 is enforced
		key.aeads[ModeEncryptedX] = aead
	}
	return key
}

// seal returns the wire string that carries state and, if its kind has one, id.
func (s *sealer) seal(scope *Scope, state string, id []byte) (string, error) {
	now, err := s.admit(scope)
	if err != nil {
		return "", err
	}
	expires := now + s.ttl
	if expires > maxUnixTime {
		return "", fmt.Errorf("%w: the state would expire past 2^53 seconds", ErrInput)
	}
	if !utf8.ValidString(state) {
		return "", fmt.Errorf("%w: the state is not UTF-8", ErrInput)
	}
	if len(state) > s.maxBytes { // spare the work; the wire string is longer than its state
		return "", s.errTooLarge()
	}
	key, err := s.sealingKey()
	if err != nil {
		return "", err
	}
	buf := borrowBuffer()
	defer buf.giveBack()
	bindTag := key.bindTag(buf, scope)
	payload := buf.extend(appendPayload(buf.bytes, state, expires, id, bindTag))
	var wire []byte
	if s.mode == ModeSigned {
		wire = key.sign(buf, payload)
	} else {
		wire = key.encrypt(buf, s.mode, payload, bindTag)
	}
	if len(wire) > s.maxBytes {
		return "", s.errTooLarge()
	}
	return string(wire), nil
}

func (s *sealer) errTooLarge() error {
	return fmt.Errorf("%w: its wire string would be over %d bytes", ErrTooLarge, s.maxBytes)
}

// contents is what a wire string carries.
type contents struct {
	state   string
	id      string // empty unless its kind has one
	expires int64
}

// open returns what wire carries if it is genuine, of this kind and scope, and has not expired.
func (s *sealer) open(scope *Scope, wire string) (contents, error) {
	now, err := s.admit(scope)
	if err != nil {
		return contents{}, err
	}
	if len(wire) > s.maxBytes {
		return contents{}, ErrMalformed
	}
	buf := borrowBuffer()
	defer buf.giveBack()
	payload, bindTag, err := s.authenticate(buf, scope, wire)
	if err != nil {
		return contents{}, err
	}
	p, ok := readPayload(buf, payload)
	switch {
	case !ok || (p.id != nil) != s.kind.hasID:
		return contents{}, ErrMalformed
	case now >= p.expires:
		return contents{}, ErrExpired
	case !hmac.Equal(p.bindTag, bindTag):
		return contents{}, ErrScope
	}
	return contents{string(p.state), string(p.id), p.expires}, nil
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

// authenticate returns the authentic payload of a wire string, and the bind tag that it must carry for scope.
func (s *sealer) authenticate(buf *buffer, scope *Scope, wire string) (payload, bindTag []byte, err error) {
	for mode := range modes {
		switch {
		case !strings.HasPrefix(wire, modes[mode].prefix):
			continue
		case RequestStateMode(mode) == ModeSigned:
			return s.verify(buf, scope, wire)
		default:
			return s.decrypt(buf, scope, wire, RequestStateMode(mode))
		}
	}
	return nil, nil, ErrMalformed
}

func (s *sealer) verify(buf *buffer, scope *Scope, wire string) (payload, bindTag []byte, err error) {
	prefix := modes[ModeSigned].prefix
	text := buf.extend(append(buf.bytes, wire...))
	encoded, encodedTag, _ := bytes.Cut(text[len(prefix):], []byte{'.'})
	payload, ok := buf.decodeBase64(encoded)
	tag, tagOK := buf.decodeBase64(encodedTag)
	if !ok || !tagOK || len(tag) != sha256.Size {
		return nil, nil, ErrMalformed
	}
	signed := text[:len(prefix)+len(encoded)]
	keys := s.keys.all()
	for i := range keys {
		if keys[i].mac.verify(tag, signed) {
			return payload, keys[i].bindTag(buf, scope), nil
		}
	}
	return nil, nil, ErrSignature
}

func (s *sealer) decrypt(buf *buffer, scope *Scope, wire string, mode RequestStateMode) (payload, bindTag []byte, err error) {
	prefix := modes[mode].prefix
	sealed, ok := buf.decodeBase64(buf.extend(append(buf.bytes, wire[len(prefix):]...)))
	keys := s.keys.all()
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
