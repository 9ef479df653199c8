package contoken

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Defaults of request state.
const (
	// DefaultRequestStateTTL is how long a state lives unless RequestStateOptions says otherwise.
	DefaultRequestStateTTL = 10 * time.Minute
	// DefaultMaxRequestStateBytes is the longest wire string unless RequestStateOptions says otherwise.
	DefaultMaxRequestStateBytes = 64 << 10
)

// RequestStateMode says how a [RequestStateCodec] or [OneTimeCodec] protects the states that it encodes. Every codec
// decodes all modes.
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

// RequestStateOptions configures a [RequestStateCodec] or [OneTimeCodec]. The zero value is valid, and the constructors
// copy it.
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
	// MaxBytes is the longest wire string that Encode makes and Decode or Redeem looks at. Zero means
	// DefaultMaxRequestStateBytes.
	MaxBytes int
	// Now is the clock, read once a call, and by Redeem once more. Nil means time.Now.
	Now func() time.Time
}

// RequestStateCodec turns the state of a multi round-trip request into a token that its client cannot change, and
// back. Make one with [NewRequestStateCodec]. It is safe for concurrent use, and every codec with the same key and
// audience opens the tokens of every other.
type RequestStateCodec struct {
	sealer
}

// NewRequestStateCodec returns a codec on keys; nil opts means the zero RequestStateOptions. A nil or zero ring is
// ErrKey. An unknown mode or one that is not available, a TTL that is negative or not whole seconds, a negative
// MaxBytes, and an audience with NUL or invalid UTF-8 are ErrInput.
func NewRequestStateCodec(keys *KeyRing, opts *RequestStateOptions) (*RequestStateCodec, error) {
	sealer, err := newSealer(requestState, keys, opts)
	if err != nil {
		return nil, err
	}
	return &RequestStateCodec{sealer}, nil
}

// Encode returns the wire string that carries state, any UTF-8 text, to whoever comes under scope within the TTL. In
// ModeSigned its client can read it. A state whose wire string would be over MaxBytes is ErrTooLarge; one that is not
// UTF-8, a bad scope and a bad clock are ErrInput.
func (c *RequestStateCodec) Encode(scope Scope, state string) (string, error) {
	return c.seal(&scope, state, nil)
}

// Decode returns the state that wire carries if it was encoded under scope, by a codec that shares a key and the
// audience with this one, in whatever mode, and has not expired. Otherwise the state is empty and the error Is
// ErrExpired, where starting over is the answer, or one of those that are ErrInvalid, where someone should be told. A
// bad scope or clock is ErrInput, whatever the wire string.
//
// A token can be decoded any number of times until it expires; where once is the limit, use a [OneTimeCodec]. An empty
// wire string is ErrMalformed: a handler asks for the presence of state before it calls Decode.
func (c *RequestStateCodec) Decode(scope Scope, wire string) (string, error) {
	opened, err := c.open(&scope, wire)
	return opened.state, err
}

// EncodeJSON is Encode for the JSON encoding of v, without the escapes that encoding/json has for HTML. A v that cannot
// be encoded, or holds a string that is not UTF-8, is ErrInput. What a json.Marshaler or json.RawMessage brings along
// is taken as it is.
func (c *RequestStateCodec) EncodeJSON(scope Scope, v any) (string, error) {
	state, err := encodeJSON(v)
	if err != nil { // the encoder's own error may quote v
		return "", fmt.Errorf("%w: the state cannot be encoded in JSON", ErrInput)
	}
	if strings.Contains(state, invalidUTF8) && !survivesJSON(state, v) {
		return "", fmt.Errorf("%w: the state holds a string that is not UTF-8", ErrInput)
	}
	return c.Encode(scope, state)
}

// DecodeJSON is Decode followed by a JSON decoding into what v points to, which is replaced whole or, on an error, left
// alone. A state that is not one JSON value of v's shape, with no unknown field, is ErrMalformed; so roll out readers
// of a new field before its writers. In an any, numbers are json.Number, so that no digit is lost. As in encoding/json,
// names match without regard to case, and the last of two that match wins. A v that is not a pointer, or nil, is
// ErrInput.
func (c *RequestStateCodec) DecodeJSON(scope Scope, wire string, v any) error {
	state, err := c.Decode(scope, wire)
	if err != nil {
		return err
	}
	return decodeWhole(v, func(fresh any) error {
		return decodeJSON(state, fresh)
	})
}

// invalidUTF8 is what the encoder writes for a byte that is not UTF-8. It writes the character itself as it is.
const invalidUTF8 = `\ufffd`

// survivesJSON reports whether state, the encoding of v, decodes to a value that has the same encoding. A replaced byte
// does not, and has become a character. The text of the escape itself, in a string or raw JSON, does.
func survivesJSON(state string, v any) bool {
	decoded := reflect.New(reflect.TypeOf(v)).Interface()
	if decodeJSON(state, decoded) != nil {
		return false
	}
	again, err := encodeJSON(decoded)
	return err == nil && again == state
}

func encodeJSON(v any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return strings.TrimSuffix(text.String(), "\n"), err
}

func decodeJSON(text string, v any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return ErrMalformed // text after the value
	}
	return nil
}
