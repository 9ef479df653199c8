package contoken

import (
	"bytes"
	"encoding/binary"
	"time"
)

// The body of a cursor is a CBOR map in core deterministic encoding (RFC 8949, section 4.2.1). These are its keys. A
// field that would hold its empty value is left out. A later version of the format gets a key derivation label of its
// own, so that readers of this one need not know of it.
const (
	bodyTool     = 1 // text
	bodySubject  = 2 // text; absent: anonymous
	bodyArgs     = 3 // 32 bytes; absent: not bound
	bodyPage     = 4 // unsigned, 1 to 2^32-1
	bodyIssuedAt = 5 // unsigned, Unix seconds
	bodySession  = 6 // 8 bytes
	bodyState    = 7 // 1 to 256 bytes; absent: empty
)

// CBOR major types (RFC 8949, section 3.1).
const (
	cborUint  = 0 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborMap   = 5 << 5
)

// appendBody appends the body of a cursor that carries p.
func appendBody(dst []byte, p *CursorPayload) []byte {
	fields := byte(4) // tool, page, issue time and session always stand
	if p.Subject != "" {
		fields++
	}
	if p.Args != (Fingerprint{}) {
		fields++
	}
	if len(p.OpaqueState) > 0 {
		fields++
	}
	dst = append(dst, cborMap|fields, bodyTool)
	dst = append(appendHead(dst, cborText, uint64(len(p.Tool))), p.Tool...)
	if p.Subject != "" {
		dst = append(dst, bodySubject)
		dst = append(appendHead(dst, cborText, uint64(len(p.Subject))), p.Subject...)
	}
	if p.Args != (Fingerprint{}) {
		dst = append(dst, bodyArgs)
		dst = append(appendHead(dst, cborBytes, uint64(len(p.Args))), p.Args[:]...)
	}
	dst = append(dst, bodyPage)
	dst = appendHead(dst, cborUint, uint64(p.PageIndex))
	dst = append(dst, bodyIssuedAt)
	dst = appendHead(dst, cborUint, uint64(p.IssuedAt.Unix()))
	dst = append(dst, bodySession)
	dst = append(appendHead(dst, cborBytes, uint64(len(p.Session))), p.Session[:]...)
	if len(p.OpaqueState) > 0 {
		dst = append(dst, bodyState)
		dst = append(appendHead(dst, cborBytes, uint64(len(p.OpaqueState))), p.OpaqueState...)
	}
	return dst
}

// appendHead appends the head of a data item, as short as its argument allows.
func appendHead(dst []byte, major byte, argument uint64) []byte {
	switch {
	case argument < 24:
		return append(dst, major|byte(argument))
	case argument < 1<<8:
		return append(dst, major|24, byte(argument))
	case argument < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(argument))
	case argument < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(argument))
	default:
		return binary.BigEndian.AppendUint64(append(dst, major|27), argument)
	}
}

// readBody returns what a body carries, in memory of its own. It accepts exactly what appendBody writes for a payload
// that Issue accepts: it reads the fields, checks their values, and has appendBody spell them again.
func readBody(body []byte) (CursorPayload, bool) {
	r := bodyReader{body: bytes.Clone(body), text: string(body), ok: true}
	r.head(cborMap)
	var p CursorPayload
	r.key(bodyTool)
	p.Tool = r.textString()
	if r.nextKey(bodySubject) {
		p.Subject = r.textString()
	}
	if r.nextKey(bodyArgs) {
		r.fixed(p.Args[:])
	}
	r.key(bodyPage)
	page := r.head(cborUint)
	r.key(bodyIssuedAt)
	issuedAt := r.head(cborUint)
	r.key(bodySession)
	r.fixed(p.Session[:])
	if r.nextKey(bodyState) {
		p.OpaqueState = r.byteString()
	}
	p.PageIndex = uint32(page)
	p.IssuedAt = time.Unix(int64(issuedAt), 0).UTC()

	var spelling [MaxCursorBytes]byte
	ok := r.ok &&
		p.Tool != "" && isScopeText(p.Tool) && isScopeText(p.Subject) &&
		page != 0 && issuedAt <= maxUnixTime && len(p.OpaqueState) <= MaxOpaqueStateBytes &&
		bytes.Equal(appendBody(spelling[:0], &p), body)
	if !ok {
		return CursorPayload{}, false
	}
	return p, true
}

// bodyReader reads data items one after the other. Once one is not as asked for, ok is false and all further ones are
// empty.
type bodyReader struct {
	body []byte
	text string // the same bytes, for the strings
	pos  int
	ok   bool
}

// nextKey moves past the key of the map if it is the next item.
func (r *bodyReader) nextKey(key byte) bool {
	if !r.ok || r.pos >= len(r.body) || r.body[r.pos] != key {
		return false
	}
	r.pos++
	return true
}

func (r *bodyReader) key(key byte) {
	if !r.nextKey(key) {
		r.ok = false
	}
}

// head reads the head of an item of the major type and returns its argument.
func (r *bodyReader) head(major byte) uint64 {
	if !r.ok || r.pos >= len(r.body) || r.body[r.pos]&^31 != major {
		r.ok = false
		return 0
	}
	info := r.body[r.pos] & 31
	r.pos++
	if info < 24 {
		return uint64(info)
	}
	if info > 27 { // reserved, or an indefinite length
		r.ok = false
		return 0
	}
	var argument uint64
	for _, b := range r.take(1 << (info - 24)) {
		argument = argument<<8 | uint64(b)
	}
	return argument
}

// take returns the next n bytes.
func (r *bodyReader) take(n uint64) []byte {
	if !r.ok || n > uint64(len(r.body)-r.pos) {
		r.ok = false
		return nil
	}
	from := r.pos
	r.pos += int(n)
	return r.body[from:r.pos:r.pos]
}

func (r *bodyReader) byteString() []byte { return r.take(r.head(cborBytes)) }

func (r *bodyReader) textString() string {
	n := len(r.take(r.head(cborText)))
	return r.text[r.pos-n : r.pos]
}

func (r *bodyReader) fixed(dst []byte) {
	if copy(dst, r.byteString()) != len(dst) {
		r.ok = false
	}
}
