package contoken

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Limits and defaults of cursors.
const (
	// MaxCursorBytes is the length of the longest cursor, in characters, all of them ASCII.
	MaxCursorBytes = 512
	// MaxOpaqueStateBytes is the size of the largest position that a cursor carries. It shares the cursor with the
	// tool and the subject: the three have some 320 bytes, or 285 with arguments bound.
	MaxOpaqueStateBytes = 256
	// DefaultCursorTTL is how long a cursor lives unless CursorOptions says otherwise.
	DefaultCursorTTL = 5 * time.Minute
)

// CursorPayload is what a verified cursor carries. It is a plain value and shares no memory with the issuer.
type CursorPayload struct {
	// Scope is the one that the cursor was issued under.
	Scope
	// PageIndex is the number of the page that the cursor leads to; the first page of all is 1.
	PageIndex uint32
	// IssuedAt is when the cursor was issued, in whole seconds, UTC.
	IssuedAt time.Time
	// Session identifies the key (and with PerProcess the issuer) that the cursor comes from. It can be logged.
	Session [8]byte
	// OpaqueState is the tool's own position, nil where it gave none. It is the caller's to keep.
	OpaqueState []byte
}

// CursorOptions configures a [CursorIssuer]. The zero value is valid, and NewCursorIssuer copies it.
type CursorOptions struct {
	// TTL is how long a cursor lives, in whole seconds. Zero means DefaultCursorTTL.
	TTL time.Duration
	// Audience names the service: cursors of one audience do not verify under another, though the keys be the same.
	// It must be UTF-8 without NUL. Empty is an audience too, which all services that set none share.
	Audience string
	// PerProcess has cursors die with this issuer even where the key is shared: for positions that mean something to
	// this process alone, such as a database snapshot it holds open. Behind a load balancer it refuses genuine cursors.
	PerProcess bool
	// RequireSubject refuses scopes without a subject, as ErrInput. Set it wherever callers authenticate.
	RequireSubject bool
	// Now is the clock, read once a call. Nil means time.Now.
	Now func() time.Time
}

// CursorIssuer issues and verifies cursors. Make one with [NewCursorIssuer]. It is safe for concurrent use, and every
// issuer with the same key, audience and TTL takes the cursors of every other.
type CursorIssuer struct {
	policy
	keys *derivedKeys[cursorKey]
}

// cursorKey is what an issuer derives from a key.
type cursorKey struct {
	mac     *macKey
	session [8]byte
}

// NewCursorIssuer returns an issuer on keys; nil opts means the zero CursorOptions. A nil or zero ring is ErrKey. A
// TTL that is negative or not whole seconds, and an audience with NUL or invalid UTF-8, are ErrInput.
func NewCursorIssuer(keys *KeyRing, opts *CursorOptions) (*CursorIssuer, error) {
	if opts == nil {
		opts = new(CursorOptions)
	}
	policy, err := newPolicy(opts.Audience, opts.TTL, DefaultCursorTTL, opts.RequireSubject, opts.Now)
	if err != nil {
		return nil, err
	}
	sessionInfo := policy.audience
	if opts.PerProcess {
		var process [16]byte
		rand.Read(process[:])
		sessionInfo += "\x00" + string(process[:])
	}
	derived, err := newDerivedKeys(keys, func(k Key) cursorKey {
		return cursorKey{
			mac:     newMACKey(k.subKey("contoken/v1 cursor mac", policy.audience)),
			session: [8]byte(k.subKey("contoken/v1 cursor session", sessionInfo)),
		}
	})
	if err != nil {
		return nil, err
	}
	return &CursorIssuer{policy, derived}, nil
}

// Issue returns the cursor that leads to the page, numbered from 1, for whoever comes under scope. OpaqueState is the
// tool's position, such as the last key of the page before, or nil; anybody can read it in the cursor, but not change
// it. A position over MaxOpaqueStateBytes, or a cursor over MaxCursorBytes, is ErrTooLarge. A bad scope, a scope
// without a tool, page 0 and a bad clock are ErrInput.
func (c *CursorIssuer) Issue(scope Scope, page uint32, opaqueState []byte) (string, error) {
	now, err := c.admitCursor(&scope)
	if err != nil {
		return "", err
	}
	if page == 0 {
		return "", fmt.Errorf("%w: page 0; the first page is 1", ErrInput)
	}
	if len(opaqueState) > MaxOpaqueStateBytes {
		return "", fmt.Errorf("%w: position of %d bytes, want at most %d", ErrTooLarge, len(opaqueState), MaxOpaqueStateBytes)
	}
	buf := borrowBuffer()
	defer buf.giveBack()

	key := &c.keys.all()[0]
	payload := CursorPayload{scope, page, time.Unix(now, 0), key.session, opaqueState}
	tag := key.mac.sum(buf.extend(appendBody(buf.bytes, &payload)))
	buf.extend(append(buf.bytes, tag[:]...))
	cursor := buf.extend(base64URL.AppendEncode(buf.bytes, buf.bytes))
	if len(cursor) > MaxCursorBytes {
		return "", fmt.Errorf("%w: cursor of %d characters, want at most %d", ErrTooLarge, len(cursor), MaxCursorBytes)
	}
	return string(cursor), nil
}

// Verify returns what cursor carries if it was issued under scope, by an issuer that shares a key and the audience
// with this one, less than a TTL ago. Otherwise the payload is zero and the error Is ErrExpired, where starting over
// is the answer, or one of those that are ErrInvalid, where someone should be told. A bad scope or clock is ErrInput,
// whatever the cursor.
//
// An empty cursor is ErrMalformed. A handler asks for a cursor's presence before it calls Verify, and must not serve
// the first page for a cursor that was refused.
func (c *CursorIssuer) Verify(scope Scope, cursor string) (CursorPayload, error) {
	now, err := c.admitCursor(&scope)
	if err != nil {
		return CursorPayload{}, err
	}
	buf := borrowBuffer()
	defer buf.giveBack()
	payload, err := c.open(buf, cursor)
	if err != nil {
		return CursorPayload{}, err
	}

	issuedAt := payload.IssuedAt.Unix()
	switch {
	case now >= issuedAt+c.ttl:
		return CursorPayload{}, ErrExpired
	case issuedAt > now+maxClockSkew:
		return CursorPayload{}, ErrNotYetValid
	case payload.Scope != scope:
		return CursorPayload{}, ErrScope
	}
	return payload, nil
}

func (c *CursorIssuer) admitCursor(scope *Scope) (unixNow int64, err error) {
	if scope.Tool == "" {
		return 0, fmt.Errorf("%w: a scope without a tool", ErrInput)
	}
	return c.admit(scope)
}

// open returns the authenticated payload of a cursor of this issuer's sessions.
func (c *CursorIssuer) open(buf *buffer, cursor string) (CursorPayload, error) {
	if len(cursor) > MaxCursorBytes {
		return CursorPayload{}, ErrMalformed
	}
	sealed, ok := buf.decodeBase64(buf.extend(append(buf.bytes, cursor...)))
	if !ok || len(sealed) <= sha256.Size {
		return CursorPayload{}, ErrMalformed
	}
	body, tag := sealed[:len(sealed)-sha256.Size], sealed[len(sealed)-sha256.Size:]

	keys := c.keys.all()
	for i := range keys {
		if keys[i].mac.verify(tag, body) {
			return keys[i].read(body)
		}
	}
	return CursorPayload{}, refuseUnauthenticated(keys, body)
}

// read returns what an authenticated body carries.
func (k *cursorKey) read(body []byte) (CursorPayload, error) {
	payload, ok := readBody(body)
	if !ok {
		return CursorPayload{}, ErrMalformed
	}
	if payload.Session != k.session {
		return CursorPayload{}, ErrExpired
	}
	return payload, nil
}

// refuseUnauthenticated chooses the error for a body that no key authenticates. A well-formed one of a session that is
// not ours most likely outlived its process or key. Nothing else of such a body is ever used.
func refuseUnauthenticated(keys []cursorKey, body []byte) error {
	payload, ok := readBody(body)
	if !ok {
		return ErrSignature
	}
	for i := range keys {
		if payload.Session == keys[i].session {
			return ErrSignature
		}
	}
	return ErrExpired
}

// CBOR for the positions of tools, both ways as strict as the library goes: what one encodes the other decodes.
var (
	stateEncoding = func() cbor.EncMode {
		options := cbor.CoreDetEncOptions()
		options.Time = cbor.TimeRFC3339Nano
		options.BigIntConvert = cbor.BigIntConvertReject
		options.TagsMd = cbor.TagsForbidden
		return must(options.EncMode())
	}()
	stateDecoding = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		BignumTag:         cbor.BignumTagForbidden,
		IntDec:            cbor.IntDecConvertSignedOrFail,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
)

func must[T any](mode T, err error) T {
	if err != nil {
		panic("contoken: " + err.Error()) // the options above contradict each other
	}
	return mode
}

// EncodeOpaqueState encodes a position for Issue in CBOR, in core deterministic encoding (RFC 8949, section 4.2.1). A
// value over MaxOpaqueStateBytes is ErrTooLarge; one that cannot be encoded, or that DecodeOpaqueState could not decode
// into the same type, such as invalid UTF-8 or a big.Int, is ErrInput. A value that holds itself overflows the stack.
//
// Short field names (struct tag `cbor:"id"`, or integers with `cbor:"1,keyasint"`) leave more room. A []byte needs no
// encoding: hand it to Issue.
func EncodeOpaqueState(v any) ([]byte, error) {
	state, err := stateEncoding.Marshal(v)
	if err != nil {
		return nil, errOpaqueState
	}
	if len(state) > MaxOpaqueStateBytes {
		return nil, fmt.Errorf("%w: position of %d bytes, want at most %d", ErrTooLarge, len(state), MaxOpaqueStateBytes)
	}
	inverse := any(new(any))
	if v != nil {
		inverse = reflect.New(reflect.TypeOf(v)).Interface()
	}
	if stateDecoding.Unmarshal(state, inverse) != nil {
		return nil, errOpaqueState
	}
	return state, nil
}

// errOpaqueState stands for the errors of the CBOR library, which may quote the value.
var errOpaqueState = fmt.Errorf("%w: the position cannot be encoded in CBOR and decoded again", ErrInput)

// DecodeOpaqueState decodes a position that EncodeOpaqueState encoded into what v points to, which is replaced whole
// or, on an error, left alone. In an any, integers are int64. A position of another shape than v, with a duplicate or
// unknown field, a field name in another case, an indefinite length, a tag or bytes after it is ErrMalformed, and so
// is an empty one; so roll out readers of a new field before its writers. Null is the zero value of every type. A v
// that is not a pointer, or nil, is ErrInput.
func (p CursorPayload) DecodeOpaqueState(v any) error {
	return decodeWhole(v, func(fresh any) error { return stateDecoding.Unmarshal(p.OpaqueState, fresh) })
}
