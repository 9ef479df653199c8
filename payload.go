package contoken

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"unicode/utf8"
)

// The payload of request state is JSON, in this order and without white space:
//
//	{"s":state,"exp":unixSeconds,"b":bindTag}
const (
	payloadState   = `{"s":`
	payloadExpires = `,"exp":`
	payloadBindTag = `,"b":"`
	payloadEnd     = `"}`
	bindTagLength  = 2 * sha256.Size
)

func appendPayload[T string | []byte](dst []byte, state T, expires int64, bindTag []byte) []byte {
	dst = appendQuoted(append(dst, payloadState...), state)
	dst = strconv.AppendInt(append(dst, payloadExpires...), expires, 10)
	dst = append(append(dst, payloadBindTag...), bindTag...)
	return append(dst, payloadEnd...)
}

// readPayload returns what an authenticated payload carries. It accepts exactly what appendPayload writes for what
// Encode accepts.
func readPayload(buf *buffer, payload []byte) (state []byte, expires int64, bindTag []byte, ok bool) {
	rest, stateOK := bytes.CutPrefix(payload, []byte(payloadState))
	state, rest, quotedOK := readQuoted(buf, rest)
	rest, expiresOK := bytes.CutPrefix(rest, []byte(payloadExpires))
	digits, rest, tagOK := bytes.Cut(rest, []byte(payloadBindTag))
	bindTag, endOK := bytes.CutSuffix(rest, []byte(payloadEnd))
	expires, secondsOK := readSeconds(digits)
	ok = stateOK && quotedOK && expiresOK && tagOK && endOK && secondsOK &&
		utf8.Valid(state) && len(bindTag) == bindTagLength && isLowerHex(bindTag)
	return state, expires, bindTag, ok
}

// readQuoted reads a JSON string at the start of quoted that is spelled as appendQuoted spells it.
func readQuoted(buf *buffer, quoted []byte) (text, rest []byte, ok bool) {
	if len(quoted) == 0 || quoted[0] != '"' {
		return nil, nil, false
	}
	text = buf.bytes
	start := 1 // of what is not yet appended
	for i := 1; i < len(quoted); i++ {
		switch c := quoted[i]; {
		case escapes[c] == "":
		case c == '"':
			return buf.extend(append(text, quoted[start:i]...)), quoted[i+1:], true
		default: // an escape, or else a control character
			char, size := readEscape(quoted[i:])
			if char >= utf8.RuneSelf || escapes[char] != string(quoted[i:i+size]) {
				return nil, nil, false
			}
			text = append(append(text, quoted[start:i]...), byte(char))
			i += size - 1
			start = i + 1
		}
	}
	return nil, nil, false
}

// readSeconds reads a time as strconv.AppendInt spells it.
func readSeconds(digits []byte) (seconds int64, ok bool) {
	for _, c := range digits {
		if !isDigit(c) || seconds > maxUnixTime {
			return 0, false
		}
		seconds = seconds*10 + int64(c-'0')
	}
	leadingZero := len(digits) > 1 && digits[0] == '0'
	return seconds, len(digits) > 0 && !leadingZero && seconds <= maxUnixTime
}

func isLowerHex(text []byte) bool {
	for _, c := range text {
		if !isDigit(c) && (c < 'a' || 'f' < c) {
			return false
		}
	}
	return true
}
