package contoken

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// libraryBody is the body of a cursor as the CBOR library takes it.
type libraryBody struct {
	Tool     string  `cbor:"1,keyasint,omitzero"`
	Subject  string  `cbor:"2,keyasint,omitzero"`
	Args     []byte  `cbor:"3,keyasint,omitzero"`
	Page     uint32  `cbor:"4,keyasint,omitzero"`
	IssuedAt *uint64 `cbor:"5,keyasint,omitzero"`
	Session  []byte  `cbor:"6,keyasint,omitzero"`
	State    []byte  `cbor:"7,keyasint,omitzero"`
}

var (
	libraryBodyDecoding = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
	libraryBodyEncoding = must(cbor.CoreDetEncOptions().EncMode())
)

// readLibraryBody is the second opinion on readBody. It encodes again what it has decoded, since the strictest decoding
// still takes null for a missing field, arrays for byte strings, long heads and keys in any order.
func readLibraryBody(body []byte) (CursorPayload, bool) {
	var b libraryBody
	if libraryBodyDecoding.Unmarshal(body, &b) != nil {
		return CursorPayload{}, false
	}
	again, err := libraryBodyEncoding.Marshal(b)
	badArgs := b.Args != nil && (len(b.Args) != 32 || Fingerprint(b.Args) == Fingerprint{})
	badState := b.State != nil && (len(b.State) == 0 || len(b.State) > 256)
	if err != nil || !bytes.Equal(again, body) || badArgs || badState ||
		b.Tool == "" || strings.Contains(b.Tool+b.Subject, "\x00") ||
		b.Page == 0 || b.IssuedAt == nil || *b.IssuedAt > 1<<53 || len(b.Session) != 8 {
		return CursorPayload{}, false
	}
	p := CursorPayload{
		Scope:       Scope{Tool: b.Tool, Subject: b.Subject},
		PageIndex:   b.Page,
		IssuedAt:    time.Unix(int64(*b.IssuedAt), 0).UTC(),
		Session:     [8]byte(b.Session),
		OpaqueState: b.State,
	}
	copy(p.Args[:], b.Args)
	return p, true
}

// libraryPayload is the payload of request state as encoding/json takes it.
type libraryPayload struct {
	State   string `json:"s"`
	Expires int64  `json:"exp"`
	BindTag string `json:"b"`
}

// readLibraryPayload is the second opinion on readPayload. It encodes again what it has decoded, since encoding/json
// takes members in any order, number and case, null for each, white space, other escapes and invalid UTF-8.
func readLibraryPayload(payload []byte) (libraryPayload, bool) {
	var p libraryPayload
	if json.Unmarshal(payload, &p) != nil || p.Expires < 0 || p.Expires > 1<<53 {
		return libraryPayload{}, false
	}
	tag, err := hex.DecodeString(p.BindTag)
	if err != nil || len(tag) != sha256.Size || hex.EncodeToString(tag) != p.BindTag ||
		libraryJSON(p) != string(payload) {
		return libraryPayload{}, false
	}
	return p, true
}

// libraryJSON is what encoding/json writes for v, without the escapes that it adds for HTML and JavaScript.
func libraryJSON(v any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // not for text, numbers, booleans, null and structs of them
	}
	return unescapeSeparators.Replace(strings.TrimSuffix(text.String(), "\n"))
}

// unescapeSeparators undoes the escapes of U+2028 and U+2029. It passes over escaped backslashes.
var unescapeSeparators = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")

// canonicalLibraryJSON is the second opinion on canonicalJSON. It refuses by itself what encoding/json is not exact in:
// that replaces invalid UTF-8 and lone surrogates, takes duplicate names, and has other limits on depth and numbers.
func canonicalLibraryJSON(src []byte, except []string) (string, bool) {
	if len(src) == 0 {
		return "{}", true
	}
	if !json.Valid(src) || !utf8.Valid(src) || hasLoneSurrogate(src) {
		return "", false
	}
	decoder := json.NewDecoder(bytes.NewReader(src))
	decoder.UseNumber()
	canonical, ok := canonicalLibraryValue(decoder, 0, except)
	if canonical == "null" {
		canonical = "{}"
	}
	return canonical, ok
}

// surrogates matches escapes other than \u, which may end in a backslash, then pairs, and in its group lone surrogates.
var surrogates = regexp.MustCompile(`(?i)\\[^u]|\\ud[89ab]..\\ud[c-f]|(\\ud[89a-f])`)

// hasLoneSurrogate reports whether an escape in src, which is JSON, stands for half of a surrogate pair.
func hasLoneSurrogate(src []byte) bool {
	return slices.ContainsFunc(surrogates.FindAllSubmatch(src, -1), func(match [][]byte) bool { return match[1] != nil })
}

// canonicalLibraryValue reads the next value, which stands inside depth others.
func canonicalLibraryValue(decoder *json.Decoder, depth int, except []string) (string, bool) {
	token, err := decoder.Token()
	if err != nil {
		return "", false
	}
	switch token := token.(type) {
	case json.Number:
		return canonicalLibraryNumber(token)
	case json.Delim:
		if depth == 1000 {
			return "", false
		}
		if token == '[' {
			return canonicalLibraryArray(decoder, depth+1)
		}
		return canonicalLibraryObject(decoder, depth+1, except)
	default:
		return libraryJSON(token), true
	}
}

func canonicalLibraryArray(decoder *json.Decoder, depth int) (string, bool) {
	var elements []string
	for decoder.More() {
		element, ok := canonicalLibraryValue(decoder, depth, nil)
		if !ok {
			return "", false
		}
		elements = append(elements, element)
	}
	decoder.Token() // the bracket
	return "[" + strings.Join(elements, ",") + "]", true
}

func canonicalLibraryObject(decoder *json.Decoder, depth int, except []string) (string, bool) {
	members := make(map[string]string)
	for decoder.More() {
		token, _ := decoder.Token()
		name := token.(string)
		value, ok := canonicalLibraryValue(decoder, depth, nil)
		if _, duplicate := members[name]; duplicate || !ok {
			return "", false
		}
		members[name] = libraryJSON(name) + ":" + value
	}
	decoder.Token() // the brace
	for _, name := range except {
		delete(members, name)
	}
	names := slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	for i, name := range names {
		names[i] = members[name]
	}
	return "{" + strings.Join(names, ",") + "}", true
}

// canonicalLibraryNumber leaves an integer alone and has encoding/json write a double, which it does as ECMAScript.
func canonicalLibraryNumber(number json.Number) (string, bool) {
	literal := number.String()
	isInteger := !strings.ContainsAny(literal, ".eE")
	double, err := number.Float64()
	if err != nil || isInteger && len(strings.TrimPrefix(literal, "-")) > 308 {
		return "", false
	}
	if isInteger && literal != "-0" {
		return literal, true
	}
	return libraryJSON(double + 0), true // the sum is 0 for -0, too
}
