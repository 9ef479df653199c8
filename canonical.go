package contoken

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxJSONDepth     = 1000
	maxIntegerDigits = 308
)

// canonicalJSON returns src in canonical form (RFC 8785, but for the digits of integers), without the members of the
// top-level object that except names. Empty src and null at the top give {}. What has no canonical form is ErrInput.
//
// It works in two steps, so that each byte is moved twice however deep src nests. A jsonReader checks src and writes
// all of it in canonical spelling, with the members of objects as they come; then appendSorted puts those in order.
func canonicalJSON(src []byte, except []string) ([]byte, error) {
	if len(src) == 0 {
		return []byte("{}"), nil
	}
	r := jsonReader{src: src, except: except, text: make([]byte, 0, len(src))}
	if err := r.document(); err != nil {
		return nil, err
	}
	if string(r.text) == "null" {
		return []byte("{}"), nil
	}
	return r.appendSorted(make([]byte, 0, len(r.text)), jsonSpan{0, len(r.text), 0}), nil
}

// jsonReader reads one JSON text (RFC 8259).
type jsonReader struct {
	src    []byte
	pos    int
	except []string

	text      []byte       // canonical but for the order of members
	objects   []jsonObject // by their position in text
	members   []jsonMember // of the objects being read, the innermost object's last
	sorted    []jsonMember // of the objects that have been read and were not in order
	unescaped []byte       // the strings that were spelled with escapes
}

// jsonSpan is a piece of a jsonReader's text.
type jsonSpan struct {
	start, end int
	object     int // index of the first object that starts in the span or after it
}

type jsonMember struct {
	jsonSpan        // name, colon and value
	name     []byte // without quotes and escapes
}

type jsonObject struct {
	jsonSpan              // all between the braces
	inOrder  bool         // its members stand in the text as they should
	members  []jsonMember // in order, without those left out, where the text has them otherwise
	next     int          // index of the first object that starts after this one
}

// appendSorted appends a span of the text with the members of every object in order.
func (r *jsonReader) appendSorted(dst []byte, span jsonSpan) []byte {
	from, i := span.start, span.object
	for i < len(r.objects) && r.objects[i].start < span.end {
		object := &r.objects[i]
		if object.inOrder {
			i++ // there may be objects in it that are not
			continue
		}
		dst = append(dst, r.text[from:object.start]...)
		for j, member := range object.members {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = r.appendSorted(dst, member.jsonSpan)
		}
		from, i = object.end, object.next
	}
	return append(dst, r.text[from:span.end]...)
}

func (r *jsonReader) fail(problem string) error {
	return fmt.Errorf("%w: arguments: %s at byte %d", ErrInput, problem, r.pos)
}

func (r *jsonReader) document() error {
	if err := r.value(0); err != nil {
		return err
	}
	r.space()
	if r.pos < len(r.src) {
		return r.fail("text after the value")
	}
	return nil
}

func (r *jsonReader) space() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// punctuation moves past the character if it is the next one after white space, and writes it.
func (r *jsonReader) punctuation(c byte) bool {
	r.space()
	if r.pos >= len(r.src) || r.src[r.pos] != c {
		return false
	}
	r.pos++
	r.text = append(r.text, c)
	return true
}

// value reads a value that stands inside depth arrays and objects.
func (r *jsonReader) value(depth int) error {
	r.space()
	if r.pos >= len(r.src) {
		return r.fail("no value")
	}
	switch c := r.src[r.pos]; {
	case c == '{':
		return r.object(depth + 1)
	case c == '[':
		return r.array(depth + 1)
	case c == '"':
		_, err := r.str()
		return err
	case c == '-' || isDigit(c):
		return r.number()
	default:
		return r.literal()
	}
}

func (r *jsonReader) literal() error {
	for _, literal := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(r.src[r.pos:], []byte(literal)) {
			r.pos += len(literal)
			r.text = append(r.text, literal...)
			return nil
		}
	}
	return r.fail("no value")
}

func (r *jsonReader) array(depth int) error {
	if depth > maxJSONDepth {
		return r.fail("too many nested values")
	}
	r.punctuation('[')
	if r.punctuation(']') {
		return nil
	}
	for {
		if err := r.value(depth); err != nil {
			return err
		}
		if r.punctuation(']') {
			return nil
		}
		if !r.punctuation(',') {
			return r.fail("no comma or bracket after an element")
		}
	}
}

func (r *jsonReader) object(depth int) error {
	if depth > maxJSONDepth {
		return r.fail("too many nested values")
	}
	r.punctuation('{')
	index, outer := len(r.objects), len(r.members)
	r.objects = append(r.objects, jsonObject{jsonSpan: jsonSpan{start: len(r.text), object: index + 1}})
	if !r.punctuation('}') {
		if err := r.objectMembers(depth); err != nil {
			return err
		}
	}
	object, members := &r.objects[index], r.members[outer:]
	r.members = r.members[:outer]
	object.end = len(r.text) - 1
	object.next = len(r.objects)
	if depth == 1 {
		return r.order(object, members, r.except)
	}
	return r.order(object, members, nil)
}

// objectMembers reads the members of an object and the brace behind them.
func (r *jsonReader) objectMembers(depth int) error {
	for {
		r.space()
		if r.pos >= len(r.src) || r.src[r.pos] != '"' {
			return r.fail("no member name")
		}
		member := jsonMember{jsonSpan: jsonSpan{start: len(r.text), object: len(r.objects)}}
		var err error
		if member.name, err = r.str(); err != nil {
			return err
		}
		if !r.punctuation(':') {
			return r.fail("no colon after a member name")
		}
		if err := r.value(depth); err != nil {
			return err
		}
		member.end = len(r.text)
		r.members = append(r.members, member)
		if r.punctuation('}') {
			return nil
		}
		if !r.punctuation(',') {
			return r.fail("no comma or brace after a member")
		}
	}
}

// order refuses duplicates among the members of an object, sorts them and leaves out what except names.
func (r *jsonReader) order(object *jsonObject, members []jsonMember, except []string) error {
	object.inOrder = len(except) == 0 && slices.IsSortedFunc(members, compareMembers)
	if !object.inOrder {
		first := len(r.sorted)
		r.sorted = append(r.sorted, members...)
		members = r.sorted[first:]
		slices.SortFunc(members, compareMembers)
	}
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].name, members[i].name) {
			return r.fail("duplicate member name in the object that ends")
		}
	}
	object.members = slices.DeleteFunc(members, func(m jsonMember) bool {
		return slices.Contains(except, string(m.name))
	})
	return nil
}

// compareMembers orders members by the UTF-16 code units of their names (RFC 8785, section 3.2.3).
func compareMembers(a, b jsonMember) int {
	for i := range min(len(a.name), len(b.name)) {
		if a.name[i] != b.name[i] {
			return cmp.Compare(utf16Weight(a.name[i]), utf16Weight(b.name[i]))
		}
	}
	return cmp.Compare(len(a.name), len(b.name))
}

// utf16Weight makes the order of UTF-8 bytes that of UTF-16 code units. The two differ in one place: U+E000 to U+FFFF,
// which start with 0xEE or 0xEF, come after the surrogates that stand for all from U+10000, which starts with 0xF0.
func utf16Weight(c byte) byte {
	if c == 0xEE || c == 0xEF {
		return c + 0x10
	}
	return c
}

func (r *jsonReader) number() error {
	start := r.pos
	r.skip("-")
	leadingZero := r.pos < len(r.src) && r.src[r.pos] == '0'
	digits := r.digits()
	if digits == 0 || leadingZero && digits > 1 {
		return r.fail("no number")
	}
	integer := true
	if r.skip(".") {
		integer = false
		if r.digits() == 0 {
			return r.fail("no digit after the decimal point")
		}
	}
	if r.skip("eE") {
		integer = false
		r.skip("+-")
		if r.digits() == 0 {
			return r.fail("no digit in the exponent")
		}
	}
	literal := r.src[start:r.pos]
	if integer {
		return r.integer(literal, digits)
	}
	double, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return r.fail("number past the range of a double")
	}
	r.text = appendDouble(r.text, double)
	return nil
}

// skip moves past the next character if it is one of set.
func (r *jsonReader) skip(set string) bool {
	if r.pos >= len(r.src) || strings.IndexByte(set, r.src[r.pos]) < 0 {
		return false
	}
	r.pos++
	return true
}

// digits moves past digits and returns how many there were.
func (r *jsonReader) digits() int {
	start := r.pos
	for r.pos < len(r.src) && isDigit(r.src[r.pos]) {
		r.pos++
	}
	return r.pos - start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// integer writes an integer with all its digits. Up to 2^53 that is what RFC 8785 has; past it, rounding to a double
// would merge ids that differ.
func (r *jsonReader) integer(literal []byte, digits int) error {
	if digits > maxIntegerDigits {
		return r.fail("integer of more than 308 digits")
	}
	if string(literal) == "-0" {
		literal = literal[1:]
	}
	r.text = append(r.text, literal...)
	return nil
}

// appendDouble appends a number as ECMAScript writes it (RFC 8785, section 3.2.2.3).
func appendDouble(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // also for -0
	}
	if abs := math.Abs(f); 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-2] == '0' && !isDigit(dst[n-3]) {
		dst = append(dst[:n-2], dst[n-1]) // e-07 is written e-7
	}
	return dst
}

// str reads a string, writes it, and returns it without quotes and escapes.
func (r *jsonReader) str() ([]byte, error) {
	raw, escaped, err := r.rawString()
	if err != nil {
		return nil, err
	}
	if !escaped {
		r.text = append(r.text, '"')
		r.text = append(r.text, raw...)
		r.text = append(r.text, '"')
		return raw, nil
	}
	start, ok := len(r.unescaped), false
	if r.unescaped, ok = appendUnescaped(r.unescaped, raw); !ok {
		return nil, r.fail("invalid escape in the string that ends")
	}
	r.text = appendQuoted(r.text, r.unescaped[start:])
	return r.unescaped[start:], nil
}

// rawString reads a string and returns what stands between its quotes, and whether that has escapes.
func (r *jsonReader) rawString() (raw []byte, escaped bool, err error) {
	r.pos++
	start, ascii := r.pos, true
	for ; r.pos < len(r.src); r.pos++ {
		switch c := r.src[r.pos]; {
		case c == '"':
			raw = r.src[start:r.pos]
			if !ascii && !utf8.Valid(raw) {
				return nil, false, r.fail("invalid UTF-8 in the string that ends")
			}
			r.pos++
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			r.pos++ // an escaped quote ends no string
		case c < ' ':
			return nil, false, r.fail("control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, r.fail("a string without end")
}

// The two-character escapes (RFC 8259, section 7) and what they stand for.
const escapeLetters, escapedChars = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

// appendUnescaped appends the text that raw, the inside of a JSON string, stands for. It refuses an escape that JSON
// does not have and a lone surrogate.
func appendUnescaped(dst, raw []byte) ([]byte, bool) {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...), true
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i:]
		if len(raw) < 2 {
			return dst, false
		}
		if raw[1] != 'u' {
			letter := strings.IndexByte(escapeLetters, raw[1])
			if letter < 0 {
				return dst, false
			}
			dst = append(dst, escapedChars[letter])
			raw = raw[2:]
			continue
		}
		char, size := unicodeEscape(raw)
		if size == 0 {
			return dst, false
		}
		dst = utf8.AppendRune(dst, char)
		raw = raw[size:]
	}
}

// unicodeEscape returns the character that the \uXXXX, or two of them for a surrogate pair, at the start of raw stand
// for and their size, which is 0 if they stand for none.
func unicodeEscape(raw []byte) (char rune, size int) {
	high, ok := codeUnit(raw)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(high) {
		return high, 6
	}
	low, ok := codeUnit(raw[6:])
	char = utf16.DecodeRune(high, low)
	if !ok || char == utf8.RuneError {
		return 0, 0
	}
	return char, 12
}

// codeUnit returns the UTF-16 code unit of the \uXXXX at the start of raw.
func codeUnit(raw []byte) (rune, bool) {
	var unit [2]byte
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	_, err := hex.Decode(unit[:], raw[2:6])
	return rune(unit[0])<<8 | rune(unit[1]), err == nil
}

// appendQuoted appends text as a JSON string with no more escapes than it needs (RFC 8785, section 3.2.2.2).
func appendQuoted[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		dst = appendEscape(dst, c)
		start = i + 1
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	if letter := strings.IndexByte(escapedChars, c); letter >= 0 {
		return append(dst, '\\', escapeLetters[letter])
	}
	return append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
}
