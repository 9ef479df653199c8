package contoken

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/crypto/chacha20poly1305"
)

// These tests compute the examples of SPEC.md anew from the inputs listed there, with primitives alone and with the
// library, and compare its tables with the constants.

//go:embed SPEC.md
var specText string

func TestSpecExamples(t *testing.T) {
	checks := map[string]func(*specExample){
		"Secret":                         (*specExample).checkSecret,
		"Sub-keys":                       (*specExample).checkSubKeys,
		"Sub-keys of the empty audience": (*specExample).checkSubKeys,
		"Fingerprint":                    (*specExample).checkFingerprint,
		"Fingerprint of unusual text":    (*specExample).checkFingerprint,
		"Fingerprint of no arguments":    (*specExample).checkFingerprint,
		"Cursor":                         (*specExample).checkCursor,
		"Shortest body":                  (*specExample).checkCursor,
		"Session of one process":         (*specExample).checkProcessSession,
		"Signed state":                   (*specExample).checkSignedState,
		"AES-256-GCM state":              (*specExample).checkAESState,
		"XChaCha20-Poly1305 state":       (*specExample).checkXChaChaState,
		"Signed one-time token":          (*specExample).checkOneTimeToken,
	}
	examples := readSpecExamples(t)
	if len(examples) != len(checks) {
		t.Fatalf("%d examples, want %d", len(examples), len(checks))
	}
	secret := examples["Secret"]["secret"]
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			e := &specExample{t, examples[name], []string{secret}, unhex(t, secret)}
			check(e)
			if len(e.fields) > 0 {
				t.Errorf("fields that nothing here asked for: %q", e.fields)
			}
		})
	}
}

// specExample is a worked example. A check takes fields out of it, so that what it does not look at stays behind.
type specExample struct {
	*testing.T
	fields map[string]string
	keys   []string // the secret in hex, as vectors have it
	secret []byte
}

var (
	specExamplePattern = regexp.MustCompile("(?ms)^### ([^\n]+)\n.*?^```text\n(.*?)^```$")
	specFieldPattern   = regexp.MustCompile(`(?m)^(\S[^=\n]*) =((?: \S.*)?(?:\n    \S.*)*)\n`)
)

// readSpecExamples returns the fields of each example by its heading.
func readSpecExamples(t *testing.T) map[string]map[string]string {
	_, section, _ := strings.Cut(specText, "\n## Worked examples\n")
	examples := make(map[string]map[string]string)
	for _, example := range specExamplePattern.FindAllStringSubmatch(section, -1) {
		matches, fields := specFieldPattern.FindAllStringSubmatch(example[2], -1), make(map[string]string)
		for _, match := range matches {
			fields[match[1]] = strings.ReplaceAll(strings.TrimPrefix(match[2], " "), "\n    ", "")
		}
		if rest := specFieldPattern.ReplaceAllString(example[2], ""); rest != "" || len(fields) != len(matches) {
			t.Fatalf("%s: a repeated field, or lines that are none: %q", example[1], rest)
		}
		examples[example[1]] = fields
	}
	return examples
}

// take returns a field, which is empty where it is not listed.
func (e *specExample) take(name string) string {
	value := e.fields[name]
	delete(e.fields, name)
	return value
}

// takeHex returns bytes that stand in hex, in lower case.
func (e *specExample) takeHex(name string) []byte {
	value := unhex(e, e.fields[name])
	e.want(name, value)
	return value
}

func (e *specExample) takeNumber(name string) int64 {
	value, err := strconv.ParseUint(e.take(name), 10, 32)
	if err != nil {
		e.Fatalf("%s: %v", name, err)
	}
	return int64(value)
}

// want compares a field with what follows from others: text, a number, or bytes, which stand in hex.
func (e *specExample) want(name string, computed any) {
	e.Helper()
	text := fmt.Sprint(computed)
	if b, ok := computed.([]byte); ok {
		text = hex.EncodeToString(b)
	}
	if value := e.take(name); value != text {
		e.Errorf("%s = %s\nwant %s", name, value, text)
	}
}

func hmacSHA256(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}

// subKey is HKDF-SHA256 in the two steps that the document spells out.
func (e *specExample) subKey(info string) []byte { return hmacSHA256(e.prk(), info+"\x01") }
func (e *specExample) prk() []byte               { return hmacSHA256(make([]byte, 32), string(e.secret)) }

func (e *specExample) checkSecret() {
	e.want("secret", e.secret)
	e.want("base64 text", base64.StdEncoding.EncodeToString(e.secret))
	e.want("base64url text", rawBase64(e.secret))
}

// checkSubKeys derives a key from each label of the table. The other examples show that the library uses the same.
func (e *specExample) checkSubKeys() {
	audience := e.take("audience")
	e.want("prk", e.prk())
	for _, label := range specTable("label", 1) {
		info := label + "\x00" + audience
		e.want(label+" info", []byte(info))
		e.want(label, e.subKey(info))
	}
}

func (e *specExample) checkFingerprint() {
	raw, except := []byte(e.take("json")), strings.Fields(e.take("except"))
	e.want("json in hex", raw)
	canonical := must(canonicalJSON(raw, except))
	e.want("canonical", string(canonical))
	sum := sha256.Sum256(canonical)
	e.want("sha256", sum[:])
	if got, err := FingerprintArgs(raw, except...); err != nil || got != sum {
		e.Errorf("FingerprintArgs: %x, error %v", got, err)
	}
}

// specBody has a CBOR library write the body of a cursor.
type specBody struct {
	Tool        string `cbor:"1,keyasint"`
	Subject     string `cbor:"2,keyasint,omitempty"`
	Args        []byte `cbor:"3,keyasint,omitempty"`
	Page        int64  `cbor:"4,keyasint"`
	IssuedAt    int64  `cbor:"5,keyasint"`
	Session     []byte `cbor:"6,keyasint"`
	OpaqueState []byte `cbor:"7,keyasint,omitempty"`
}

func (e *specExample) checkCursor() {
	v := cursorVector{Keys: e.keys, Audience: e.take("audience")}
	page, args, state := e.takeNumber("page"), e.takeHex("args"), []byte(e.take("opaque state"))
	v.Scope = scopeVector{e.take("tool"), e.take("subject"), hex.EncodeToString(args)}
	v.Now, v.TTL = e.takeNumber("issued at"), e.takeNumber("lifetime")
	session := e.subKey("contoken/v1 cursor session\x00" + v.Audience)[:8]
	fields := specBody{v.Scope.Tool, v.Scope.Subject, args, page, v.Now, session, state}
	body := must(cbor.Marshal(fields))
	tag := hmacSHA256(e.subKey("contoken/v1 cursor mac\x00"+v.Audience), string(body))
	v.Cursor = rawBase64(slices.Concat(body, tag))
	e.want("session", session)
	e.want("body", body)
	e.want("diagnostic notation", must(cbor.Diagnose(body)))
	e.want("tag", tag)
	e.want("cursor", v.Cursor)
	e.want("refused from", v.Now+v.TTL)
	scope := v.Scope.scope(e)
	if got, err := v.issuer(e).Issue(scope, uint32(page), state); err != nil || got != v.Cursor {
		e.Errorf("Issue: %s, error %v", got, err)
	}
	for now, want := range map[int64]error{v.Now + v.TTL - 1: nil, v.Now + v.TTL: ErrExpired} {
		v.Now = now
		if _, err := v.issuer(e).Verify(scope, v.Cursor); !errors.Is(err, want) {
			e.Errorf("Verify at %d: error %v, want %v", now, err, want)
		}
	}
}

func (e *specExample) checkProcessSession() {
	audience, process := e.take("audience"), e.takeHex("process")
	info := "contoken/v1 cursor session\x00" + audience + "\x00"
	e.want("info", []byte(info+string(process)))
	e.want("session", e.subKey(info + string(process))[:8])

	// An issuer draws its own bytes. The same seed gives the same here.
	drawn := make([]byte, len(process))
	cryptotest.SetGlobalRandom(e.T, 1)
	rand.Read(drawn)
	cryptotest.SetGlobalRandom(e.T, 1)
	issuer := must(NewCursorIssuer(vectorRing(e, e.keys), &CursorOptions{Audience: audience, PerProcess: true}))
	scope := Scope{Tool: "fs.list"}
	payload := must(issuer.Verify(scope, must(issuer.Issue(scope, 1, nil))))
	if !bytes.Equal(payload.Session[:], e.subKey(info + string(drawn))[:8]) {
		e.Errorf("an issuer that draws %x has the session %x", drawn, payload.Session)
	}
}

// takeState takes what all modes of a kind of request state have in common. The payload has a further member, if any,
// between expiry and bind tag.
func (e *specExample) takeState(kind, member string) (v stateVector, bindTag, payload string) {
	v = stateVector{Keys: e.keys, Audience: e.take("audience"), Mode: "signed"}
	v.Scope = scopeVector{e.take("tool"), e.take("subject"), e.take("args")}
	v.State = e.take("state") + string(e.takeHex("state in hex"))
	v.Now, v.TTL = e.takeNumber("now"), e.takeNumber("lifetime")
	bindInput := strings.TrimRight(v.Scope.Subject+"\x00"+v.Scope.Tool+"\x00"+v.Scope.Args, "\x00")
	bindTag = hex.EncodeToString(hmacSHA256(e.subKey("contoken/v1 "+kind+" bind\x00"+v.Audience), bindInput))
	quoted := must(json.Marshal(v.State)) // escapes as the format does, but for HTML
	payload = fmt.Sprintf(`{"s":%s,"exp":%d%s,"b":"%s"}`, quoted, v.Now+v.TTL, member, bindTag)
	e.want("bind input", []byte(bindInput))
	e.want("bind tag", bindTag)
	e.want("payload", payload)
	return v, bindTag, payload
}

func (e *specExample) checkSignedState() {
	v, _, payload := e.takeState("state", "")
	signed := "v1." + rawBase64([]byte(payload))
	tag := hmacSHA256(e.subKey("contoken/v1 state mac\x00"+v.Audience), signed)
	v.Wire = signed + "." + rawBase64(tag)
	e.want("tag", tag)
	if got, err := v.codec(e).Encode(v.Scope.scope(e), v.State); err != nil || got != v.Wire {
		e.Errorf("Encode: %s, error %v", got, err)
	}
	e.checkWire(v)
}

func (e *specExample) checkOneTimeToken() {
	id := rawBase64(e.takeHex("id in hex"))
	v, _, payload := e.takeState("one-time", `,"id":"`+id+`"`)
	signed := "v1." + rawBase64([]byte(payload))
	tag := hmacSHA256(e.subKey("contoken/v1 one-time mac\x00"+v.Audience), signed)
	wire := signed + "." + rawBase64(tag)
	e.want("id", id)
	e.want("tag", tag)
	e.want("wire", wire)
	e.want("kept until", v.Now+v.TTL+maxClockSkew)

	store, scope := newSpyStore(v.Now), v.Scope.scope(e)
	codec := oneTimeVector{Keys: v.Keys, Audience: v.Audience, Now: v.Now, TTL: v.TTL, Mode: v.Mode}.codec(e, store)
	if got, err := codec.seal(&scope, v.State, []byte(id)); err != nil || got != wire {
		e.Errorf("sealed %s, error %v", got, err)
	}
	got, err := codec.Redeem(e.Context(), scope, wire)
	if err != nil || got != v.State || store.id != id || store.expires.Unix() != v.Now+v.TTL+maxClockSkew {
		e.Errorf("Redeem: %q, recorded %q until %v, error %v", got, store.id, store.expires, err)
	}
}

func (e *specExample) checkAESState() {
	e.checkEncryptedState("v1e.", "contoken/v1 state aes-256-gcm", func(key []byte) (cipher.AEAD, error) {
		return cipher.NewGCM(must(aes.NewCipher(key)))
	})
}

func (e *specExample) checkXChaChaState() {
	if fips140.Enforced() {
		e.Skip("XChaCha20-Poly1305 may not be used where FIPS 140 is enforced")
	}
	e.checkEncryptedState("v1x.", "contoken/v1 state xchacha20-poly1305", chacha20poly1305.NewX)
}

func (e *specExample) checkEncryptedState(prefix, label string, newAEAD func([]byte) (cipher.AEAD, error)) {
	v, bindTag, payload := e.takeState("state", "")
	nonce := e.takeHex("nonce")
	var sealed []byte
	fips140.WithoutEnforcement(func() { // which forbids a nonce of one's choice
		aead := must(newAEAD(e.subKey(label + "\x00" + v.Audience)))
		sealed = aead.Seal(nil, nonce, []byte(payload), []byte(prefix+bindTag))
	})
	v.Wire = prefix + rawBase64(slices.Concat(nonce, sealed))
	e.want("associated data", prefix+bindTag)
	e.want("ciphertext", sealed[:len(payload)])
	e.want("tag", sealed[len(payload):])
	e.checkWire(v)
}

// checkWire checks the wire string and has the library decode it.
func (e *specExample) checkWire(v stateVector) {
	e.want("wire", v.Wire)
	if got, err := v.codec(e).Decode(v.Scope.scope(e), v.Wire); err != nil || got != v.State {
		e.Errorf("Decode: %q, error %v", got, err)
	}
}

func TestSpecTables(t *testing.T) {
	tables := map[string][]string{
		"key":    {"1 | tool", "2 | subject", "3 | args", "4 | page", "5 | issued at", "6 | session", "7 | opaque state"},
		"prefix": {"v1. | signed | 0 | 32", "v1e. | encrypted | 12 | 16", "v1x. | encryptedX | 24 | 16"},
		"error": {
			fmt.Sprint("ErrInvalid | - | ", ATDCode(ErrInvalid)),
			fmt.Sprint("ErrMalformed | malformed | ", ATDCode(ErrMalformed)),
			fmt.Sprint("ErrSignature | signature | ", ATDCode(ErrSignature)),
			fmt.Sprint("ErrScope | scope | ", ATDCode(ErrScope)),
			fmt.Sprint("ErrNotYetValid | future | ", ATDCode(ErrNotYetValid)),
			fmt.Sprint("ErrRedeemed | - | ", ATDCode(ErrRedeemed)),
			fmt.Sprint("ErrExpired | expired | ", ATDCode(ErrExpired)),
			"ErrTooLarge | - | -", "ErrInput | - | -", "ErrKey | - | -",
		},
		"limit": {
			fmt.Sprint("bytes of a secret, at least | ", minSecretBytes),
			fmt.Sprint("secrets of a ring, at most | ", maxRingKeys),
			fmt.Sprint("characters of a cursor, at most | ", MaxCursorBytes),
			fmt.Sprint("bytes of an opaque state, at most | ", MaxOpaqueStateBytes),
			fmt.Sprint("seconds that a cursor lives, unless configured | ", DefaultCursorTTL.Seconds()),
			fmt.Sprint("seconds that a cursor may be ahead of the clock | ", maxClockSkew),
			fmt.Sprint("seconds that a request state lives, unless configured | ", DefaultRequestStateTTL.Seconds()),
			fmt.Sprint("characters of a request state, at most, unless configured | ", DefaultMaxRequestStateBytes),
			fmt.Sprint("bytes of the id of a one-time token | ", idBytes),
			fmt.Sprint("seconds that the id of a one-time token is kept after it has expired | ", maxClockSkew),
			fmt.Sprint("latest time | ", int64(maxUnixTime)),
			fmt.Sprint("nested arrays and objects of arguments, at most | ", maxJSONDepth),
			fmt.Sprint("digits of an integer in arguments, at most | ", maxIntegerDigits),
		},
		"cursor.json":      fieldNames[cursorVector](),
		"state.json":       fieldNames[stateVector](),
		"onetime.json":     fieldNames[oneTimeVector](),
		"member of scope":  fieldNames[scopeVector](),
		"fingerprint.json": fieldNames[fingerprintVector](),
	}
	for heading, want := range tables {
		if got := specTable(heading, strings.Count(want[0], "|")+1); !slices.Equal(got, want) {
			t.Errorf("table of %s\n%q\nwant\n%q", heading, got, want)
		}
	}
	if strings.Count(specText, "`"+PublicMessage+"`") != 1 {
		t.Errorf("the message %q for clients is missing", PublicMessage)
	}
}

// fieldNames returns the names that a kind of vector has in JSON.
func fieldNames[T any]() (names []string) {
	for field := range reflect.TypeFor[T]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}

// specTable returns the first columns of the table whose first column has the heading.
func specTable(heading string, columns int) (rows []string) {
	_, table, _ := strings.Cut(specText, "\n| "+heading+" |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n| ")[1:] {
		cells := strings.Split(strings.TrimSuffix(strings.ReplaceAll(line, "`", ""), " |"), " | ")
		rows = append(rows, strings.Join(cells[:min(columns, len(cells))], " | "))
	}
	return rows
}
