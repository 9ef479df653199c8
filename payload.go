package contoken

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"unicode/utf8"
)

// The payload of request state is JSON, in this order and without white space. Only a one-time token has an id:
//
//	{"s":state,"exp":unixSeconds,"id":id,"b":bindTag}
const (
	payloadState   = `{"s":`
	payloadExpires = `,"exp":`
	payloadID      = `,"id":"`
	payloadIDEnd   = `"`
	payloadBindTag = `,"b":"`
	payloadEnd     = `"}`
	bindTagLength  = 2 * sha256.Size
	idBytes        = 16
	idLength       = (8*idBytes + 5) / 6 // in base64url
)

// payloadFields is what readPayload finds in a payload, whose memory it may share.
type payloadFields struct {
	state   []byte
	expires int64
	id      []byte // in base64url, or nil
	bindTag []byte // in hex
}

// appendPayload leaves out an id that is nil.
func appendPayload(dst []byte, state string, expires int64, id, bindTag []byte) []byte {
	dst = appendQuoted(append(dst, payloadState...), state)
	dst = strconv.AppendInt(append(dst, payloadExpires...), expires, 10)
	if id != nil {
		dst = append(append(append(dst, payloadID...), id...), payloadIDEnd...)
	}
	dst = append(append(dst, payloadBindTag...), bindTag...)
	return append(dst, payloadEnd...)
}

// readPayload returns what an authenticated payload carries. It accepts exactly what appendPayload writes for what
// either codec encodes.
func readPayload(buf *buffer, payload []byte) (p payloadFields, ok bool) {
	rest, stateOK := bytes.CutPrefix(payload, []byte(payloadState))
	state, rest, quotedOK := readQuoted(buf, rest)
	rest, expiresOK := bytes.CutPrefix(rest, []byte(payloadExpires))
	expires, rest, secondsOK := readSeconds(rest)
	id, rest, idOK := readID(buf, rest)
	rest, tagOK := bytes.CutPrefix(rest, []byte(payloadBindTag))
	bindTag, endOK := bytes.CutSuffix(rest, []byte(payloadEnd))
	ok = stateOK && quotedOK && expiresOK && secondsOK && idOK && tagOK && endOK &&
		utf8.Valid(state) && len(bindTag) == bindTagLength && isLowerHex(bindTag)
	return payloadFields{state, expires, id, bindTag}, ok
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

// readSeconds reads a time at the start of text that is spelled as strconv.AppendInt spells it.
func readSeconds(text []byte) (seconds int64, rest []byte, ok bool) {
	n := 0
	for ; n < len(text) && isDigit(text[n]) && seconds <= maxUnixTime; n++ {
		seconds = seconds*10 + int64(text[n]-'0')
	}
	leadingZero := n > 1 && text[0] == '0'
	return seconds, text[n:], n > 0 && !leadingZero && seconds <= maxUnixTime
}

// readID reads the member id at the start of text, if that is there.
func readID(buf *buffer, text []byte) (id, rest []byte, ok bool) {
	rest, found := bytes.CutPrefix(text, []byte(payloadID))
	if !found {
		return nil, text, true
	}
	id, rest, _ = bytes.Cut(rest, []byte(payloadIDEnd))
	_, ok = buf.decodeBase64(id)
	return id, rest, ok && len(id) == idLength
}

func isLowerHex(text []byte) bool {
	for _, c := range text {
		if !isDigit(c) && (c < 'a' || 'f' < c) {
			return false
		}
	}
	return true
}
