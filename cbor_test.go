package contoken

import (
	"bytes"
	"fmt"
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
