package contoken

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// bodyExamples are payloads with every optional field present and absent, and numbers around each length of a head.
func bodyExamples() []CursorPayload {
	var examples []CursorPayload
	for i, number := range []uint32{1, 23, 24, 255, 256, 65535, 65536, 1<<32 - 1} {
		p := CursorPayload{
			Scope:     Scope{Tool: string(bytes.Repeat([]byte("t"), 1+i*13))},
			PageIndex: number,
			IssuedAt:  time.Unix(int64(number)<<(i*3), 0).UTC(),
			Session:   [8]byte{1, 2, 3, 4, 5, 6, 7, byte(i)},
		}
		examples = append(examples, p)
		p.Subject = "用户"
		examples = append(examples, p)
		p.Args = Fingerprint{31: 1}
		examples = append(examples, p)
		p.OpaqueState = bytes.Repeat([]byte{0xf6}, 1+i*30)
		examples = append(examples, p)
	}
	return examples
}

func TestBodyIsCoreDeterministicCBOR(t *testing.T) {
	encoding, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range bodyExamples() {
		fields := map[int]any{
			bodyTool: p.Tool, bodyPage: p.PageIndex, bodyIssuedAt: p.IssuedAt.Unix(), bodySession: p.Session[:],
		}
		if p.Subject != "" {
			fields[bodySubject] = p.Subject
		}
		if p.Args != (Fingerprint{}) {
			fields[bodyArgs] = p.Args[:]
		}
		if len(p.OpaqueState) > 0 {
			fields[bodyState] = p.OpaqueState
		}
		want, err := encoding.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if body := appendBody(nil, &p); !bytes.Equal(body, want) {
			t.Errorf("example %d: body %x\nwant %x", i, body, want)
		}
	}
}

func TestReadBodyIsTheInverse(t *testing.T) {
	for i, p := range bodyExamples() {
		body := appendBody(nil, &p)
		got, ok := readBody(body)
		if !ok || fmt.Sprint(got) != fmt.Sprint(p) {
			t.Errorf("example %d: %v came back as %v, %v", i, p, got, ok)
		}
		clear(body)
		if fmt.Sprint(got) != fmt.Sprint(p) {
			t.Errorf("example %d: the payload shares memory with the body", i)
		}
	}
}

// The writer does not check values, and so can write what Issue refuses; the reader must not take it.
func TestReadBodyRefusesWhatIssueRefuses(t *testing.T) {
	good := bodyExamples()[3]
	if _, ok := readBody(appendBody(nil, &good)); !ok {
		t.Fatal("the good body is refused")
	}
	for name, spoil := range map[string]func(*CursorPayload){
		"no tool":               func(p *CursorPayload) { p.Tool = "" },
		"NUL in the tool":       func(p *CursorPayload) { p.Tool = "a\x00" },
		"tool not UTF-8":        func(p *CursorPayload) { p.Tool = "a\xff" },
		"NUL in the subject":    func(p *CursorPayload) { p.Subject = "a\x00" },
		"subject not UTF-8":     func(p *CursorPayload) { p.Subject = "a\xff" },
		"page 0":                func(p *CursorPayload) { p.PageIndex = 0 },
		"a time past 2^53":      func(p *CursorPayload) { p.IssuedAt = time.Unix(maxUnixTime+1, 0) },
		"a state of 257 bytes":  func(p *CursorPayload) { p.OpaqueState = make([]byte, 257) },
		"a time before 1970":    func(p *CursorPayload) { p.IssuedAt = time.Unix(-1, 0) },
		"a state of 1000 bytes": func(p *CursorPayload) { p.OpaqueState = make([]byte, 1000) },
	} {
		bad := good
		spoil(&bad)
		if p, ok := readBody(appendBody(nil, &bad)); ok {
			t.Errorf("%s: read as %v", name, p)
		}
	}
}

func TestReadBodyRefusesOtherMaps(t *testing.T) {
	const tool, page, issuedAt, session = "016174 ", "0402 ", "0505 ", "06480102030405060708 "
	for name, c := range map[string]struct {
		body string
		want bool
	}{
		"the good one":          {"a4" + tool + page + issuedAt + session, true},
		"no key before a page":  {"a3" + tool + "09" + issuedAt + session, false},
		"no page":               {"a3" + tool + issuedAt + session, false},
		"no issue time":         {"a3" + tool + page + session, false},
		"no session":            {"a3" + tool + page + issuedAt, false},
		"a count too high":      {"a5" + tool + page + issuedAt + session, false},
		"a count too low":       {"a3" + tool + page + issuedAt + session, false},
		"arguments of zeros":    {"a5" + tool + "035820" + strings.Repeat("00", 32) + page + issuedAt + session, false},
		"an empty subject":      {"a5" + tool + "0260" + page + issuedAt + session, false},
		"an empty state":        {"a5" + tool + page + issuedAt + session + "0740", false},
		"a page with 2^32":      {"a4" + tool + "041b0000000100000001" + issuedAt + session, false},
		"a text longer than it": {"a4" + "017bffffffffffffffff74" + page + issuedAt + session, false},
		"an array":              {"84" + tool + page + issuedAt + session, false},
		"nothing":               {"", false},
		"a head cut short":      {"a4" + "0178", false},
	} {
		if _, ok := readBody(unhex(t, strings.ReplaceAll(c.body, " ", ""))); ok != c.want {
			t.Errorf("%s: read %v, want %v", name, ok, c.want)
		}
	}
}

// Whatever bytes stand in place of a body, it is read only if writing it again gives these bytes.
func TestReadBodyTakesOneSpelling(t *testing.T) {
	accepted := 0
	try := func(body []byte) {
		if p, ok := readBody(body); ok {
			accepted++
			if again := appendBody(nil, &p); !bytes.Equal(again, body) {
				t.Errorf("%x is read as %v, which is written %x", body, p, again)
			}
		}
	}
	for _, p := range bodyExamples() {
		body := appendBody(nil, &p)
		for i := range body {
			for value := range 256 {
				edited := bytes.Clone(body)
				edited[i] = byte(value)
				try(edited)
			}
			try(append(bytes.Clone(body[:i]), body[i+1:]...))
			try(body[:i])
		}
		try(append(body, 0))
	}
	if accepted == 0 {
		t.Error("no body was accepted")
	}
}
