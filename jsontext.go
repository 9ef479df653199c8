package contoken

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Here are the strings and numbers of JSON: how a jsonReader reads them, and the one way in which we write them.

// str reads a string, writes it, and returns it without quotes and escapes, until the next string is read.
func (r *jsonReader) str() ([]byte, error) {
	raw, escaped, err := r.rawString()
	if err != nil {
		return nil, err
	}
	if !escaped {
		r.text = append(r.text, r.src[r.pos-len(raw)-2:r.pos]...) // with its quotes
		return raw, nil
	}
	unescaped, ok := appendUnescaped(r.unescaped[:0], raw)
	if !ok {
		return nil, r.fail("invalid escape in the string that ends")
	}
	r.unescaped = unescaped
	r.text = appendQuoted(r.text, unescaped)
	return unescaped, nil
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

// appendUnescaped appends the text that raw, the inside of a JSON string, stands for. It refuses an escape that JSON
// does not have (RFC 8259, section 7) and a lone surrogate.
func appendUnescaped(dst, raw []byte) ([]byte, bool) {
	start := 0 // of what has no escapes and is not yet appended
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			i++
			continue
		}
		dst = append(dst, raw[start:i]...)
		char, size := readEscape(raw[i:])
		if size == 0 {
			return dst, false
		}
		dst = utf8.AppendRune(dst, char)
		i += size
		start = i
	}
	return append(dst, raw[start:]...), true
}

// readEscape returns the character that the escape at the start of raw stands for and the size of the escape, which is
// 0 if it stands for none.
func readEscape(raw []byte) (char rune, size int) {
	if len(raw) < 2 {
		return 0, 0
	}
	switch c := raw[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return unicodeEscape(raw)
	default:
		return 0, 0
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

// escapes are the characters that a JSON string cannot hold as they are, and how RFC 8785, section 3.2.2.2 spells them.
var escapes = func() (escapes [256]string) {
	for c := range ' ' {
		escapes[c] = fmt.Sprintf(`\u%04x`, c)
	}
	escapes['"'], escapes['\\'] = `\"`, `\\`
	escapes['\b'], escapes['\t'], escapes['\n'], escapes['\f'], escapes['\r'] = `\b`, `\t`, `\n`, `\f`, `\r`
	return escapes
}()

// appendQuoted appends text as a JSON string with no more escapes than it needs.
func appendQuoted[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(text) {
		if escape := escapes[text[i]]; escape != "" {
			dst = append(append(dst, text[start:i]...), escape...)
			start = i + 1
		}
	}
	return append(append(dst, text[start:]...), '"')
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

const maxIntegerDigits = 308

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
