package contoken

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"
)

const (
	maxJSONDepth  = 1000
	maxPooledJSON = 4 << 20 // what a reader that is done may keep of its text
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
	r := jsonReaders.Get().(*jsonReader)
	defer r.giveBack()
	r.src, r.except = src, except
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

	text    []byte       // canonical but for the order of members
	objects []jsonObject // by their position in text; those that are in order through and through are not kept
	sorted  []jsonSpan   // the members, in order, of the objects that have them otherwise in text

	// Of the objects being read, the innermost object's last:
	members []jsonMember
	names   []byte
	ordered []*jsonMember

	unescaped []byte // the last string that had escapes
}

// jsonSpan is a piece of a jsonReader's text.
type jsonSpan struct {
	start, end int
	object     int // index of the first object that starts in the span or after it
}

type jsonObject struct {
	jsonSpan             // all between the braces
	inOrder         bool // its members stand in the text as they should
	sorted, members int  // otherwise: index of the first of its members in sorted, and their number
	next            int  // index of the first object that starts after this one
}

type jsonMember struct {
	jsonSpan               // name, colon and value
	nameStart, nameEnd int // its name in names, without quotes and escapes
}

// jsonReaders keeps the memory of readers that are done.
var jsonReaders = sync.Pool{New: func() any { return new(jsonReader) }}

func (r *jsonReader) giveBack() {
	if cap(r.text) > maxPooledJSON {
		return
	}
	*r = jsonReader{
		text: r.text[:0], objects: r.objects[:0], sorted: r.sorted[:0],
		members: r.members[:0], ordered: r.ordered[:0], names: r.names[:0], unescaped: r.unescaped[:0],
	}
	jsonReaders.Put(r)
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
		for j, member := range r.sorted[object.sorted:][:object.members] {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = r.appendSorted(dst, member)
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
	index, outerMembers, outerNames := len(r.objects), len(r.members), len(r.names)
	r.objects = append(r.objects, jsonObject{jsonSpan: jsonSpan{start: len(r.text), object: index + 1}})
	if !r.punctuation('}') {
		if err := r.objectMembers(depth); err != nil {
			return err
		}
	}
	object := &r.objects[index]
	object.end = len(r.text) - 1
	object.next = len(r.objects)
	var except []string
	if depth == 1 {
		except = r.except
	}
	if err := r.order(object, r.members[outerMembers:], except); err != nil {
		return err
	}
	r.members, r.names = r.members[:outerMembers], r.names[:outerNames]
	if object.inOrder && object.next == index+1 {
		r.objects = r.objects[:index] // it has nothing that needs sorting
	}
	return nil
}

// objectMembers reads the members of an object and the brace behind them.
func (r *jsonReader) objectMembers(depth int) error {
	for {
		r.space()
		if r.pos >= len(r.src) || r.src[r.pos] != '"' {
			return r.fail("no member name")
		}
		member := jsonMember{jsonSpan: jsonSpan{start: len(r.text), object: len(r.objects)}, nameStart: len(r.names)}
		name, err := r.str()
		if err != nil {
			return err
		}
		r.names = append(r.names, name...)
		member.nameEnd = len(r.names)
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

// order sorts the members of an object, refuses duplicates among them, and leaves out what except names.
func (r *jsonReader) order(object *jsonObject, members []jsonMember, except []string) error {
	object.inOrder = len(except) == 0
	for i := 1; i < len(members) && object.inOrder; i++ {
		object.inOrder = r.compareNames(&members[i-1], &members[i]) < 0
	}
	if object.inOrder {
		return nil
	}
	r.ordered = r.ordered[:0]
	for i := range members {
		r.ordered = append(r.ordered, &members[i])
	}
	slices.SortFunc(r.ordered, r.compareNames)
	object.sorted = len(r.sorted)
	for i, member := range r.ordered {
		if i > 0 && r.compareNames(r.ordered[i-1], member) == 0 {
			return r.fail("duplicate member name in the object that ends")
		}
		if !slices.Contains(except, string(r.name(member))) {
			r.sorted = append(r.sorted, member.jsonSpan)
		}
	}
	object.members = len(r.sorted) - object.sorted
	return nil
}

func (r *jsonReader) name(m *jsonMember) []byte { return r.names[m.nameStart:m.nameEnd] }

// compareNames orders members by the UTF-16 code units of their names (RFC 8785, section 3.2.3).
func (r *jsonReader) compareNames(m, n *jsonMember) int {
	a, b := r.name(m), r.name(n)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return cmp.Compare(utf16Weight(a[i]), utf16Weight(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// utf16Weight makes the order of UTF-8 bytes that of UTF-16 code units. The two differ in one place: U+E000 to U+FFFF,
// which start with 0xEE or 0xEF, come after the surrogates that stand for all from U+10000, which starts with 0xF0.
func utf16Weight(c byte) byte {
	if c == 0xEE || c == 0xEF {
		return c + 0x10
	}
	return c
}
