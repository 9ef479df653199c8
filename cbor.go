package contoken

import (
	"encoding/binary"
	"math"
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
// that Issue accepts.
func readBody(body []byte) (CursorPayload, bool) {
	r := bodyReader{rest: body}
	fields := r.head(cborMap)
	tool := r.str(bodyTool, cborText)
	subject := r.str(bodySubject, cborText)
	args := r.str(bodyArgs, cborBytes)
	page := r.uint(bodyPage)
	issuedAt := r.uint(bodyIssuedAt)
	session := r.str(bodySession, cborBytes)
	state := r.str(bodyState, cborBytes)
	if r.failed || len(r.rest) > 0 || r.fields != fields {
		return CursorPayload{}, false
	}

	names := string(tool) + string(subject) // one allocation for the two
	p := CursorPayload{
		Scope:     Scope{Tool: names[:len(tool)], Subject: names[len(tool):]},
		PageIndex: uint32(page),
		IssuedAt:  time.Unix(int64(issuedAt), 0).UTC(),
	}
	copy(p.Args[:], args)
	copy(p.Session[:], session)
	p.OpaqueState = append(p.OpaqueState, state...) // a copy, nil if empty
	ok := p.Tool != "" && isScopeText(p.Tool) && isScopeText(p.Subject) &&
		(args == nil || len(args) == len(p.Args) && p.Args != Fingerprint{}) &&
		0 < page && page <= math.MaxUint32 && issuedAt <= maxUnixTime &&
		len(session) == len(p.Session) && len(state) <= MaxOpaqueStateBytes
	if !ok {
		return CursorPayload{}, false
	}
	return p, true
}

// bodyReader reads the fields of a body in the order of their keys.
type bodyReader struct {
	rest   []byte
	fields uint64 // how many have been read
	failed bool   // something was not spelled as appendBody does
}

// next moves past the key if it comes next.
func (r *bodyReader) next(key byte) bool {
	if len(r.rest) == 0 || r.rest[0] != key {
		return false
	}
	r.rest = r.rest[1:]
	r.fields++
	return true
}

// uint reads a field that always stands.
func (r *bodyReader) uint(key byte) uint64 {
	if !r.next(key) {
		r.failed = true
	}
	return r.head(cborUint)
}

// str reads a field of text or bytes. It returns nil if the field is absent; one that is there is never empty.
func (r *bodyReader) str(key, major byte) []byte {
	if !r.next(key) {
		return nil
	}
	n := r.head(major)
	if n == 0 {
		r.failed = true
	}
	return r.take(n)
}

// head reads the head of an item of the major type and returns its argument, which must be spelled in the shortest way.
func (r *bodyReader) head(major byte) uint64 {
	first := r.take(1)
	if first == nil || first[0]&^31 != major || first[0]&31 > 27 {
		r.failed = true
		return 0
	}
	info := first[0] & 31
	if info < 24 {
		return uint64(info)
	}
	var argument uint64
	for _, b := range r.take(1 << (info - 24)) {
		argument = argument<<8 | uint64(b)
	}
	shortest := [...]uint64{24, 1 << 8, 1 << 16, 1 << 32}
	if argument < shortest[info-24] {
		r.failed = true
	}
	return argument
}

func (r *bodyReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}
