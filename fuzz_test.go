package contoken

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The targets hold each reader of the package against a second opinion that shares no code with it: the CBOR library
// for the body of a cursor, encoding/json for payloads and canonical JSON. The seeds come from the vectors; under
// testdata/fuzz are inputs that fuzzing found to tell a package that lacks one of its checks from one that has it.

// FuzzVerifyCursor: what opens is what a key of the issuer issues for its payload; all else is a documented error.
func FuzzVerifyCursor(f *testing.F) {
	addSeeds(f)
	vectors := readVectors[cursorVector](f, "cursor.json")
	issuers := make([]*CursorIssuer, len(vectors))
	for i, v := range vectors {
		issuers[i] = v.issuer(f)
	}
	f.Fuzz(func(t *testing.T, vector uint16, cursor string) {
		i := int(vector) % len(vectors)
		scope := vectors[i].Scope.scope(t)
		payload, err := issuers[i].Verify(scope, cursor)
		if err != nil {
			checkRefusal(t, err, payload, ErrMalformed, ErrSignature, ErrScope, ErrNotYetValid, ErrExpired)
			return
		}
		age := vectors[i].Now - payload.IssuedAt.Unix()
		if payload.Scope != scope || age < -60 || age >= vectors[i].TTL {
			t.Errorf("%q opens %d s after its time, under %+v, as %+v", cursor, age, scope, payload)
		}
		issuedBy := func(key string) bool {
			v := vectors[i]
			v.Keys, v.Now = []string{key}, payload.IssuedAt.Unix()
			again, err := v.issuer(t).Issue(payload.Scope, payload.PageIndex, payload.OpaqueState)
			return err == nil && again == cursor
		}
		if !slices.ContainsFunc(vectors[i].Keys, issuedBy) {
			t.Errorf("%q opens, but no key issues it for %+v", cursor, payload)
		}
	})
}

// FuzzCursorBody: an authenticated body opens if and only if the CBOR library reads and writes it as ours.
func FuzzCursorBody(f *testing.F) {
	addSeeds(f)
	v := readVectors[cursorVector](f, "cursor.json")[0]
	issuer, scope := v.issuer(f), v.Scope.scope(f)
	macKey := vectorRing(f, v.Keys).current.Load().keys[0].subKey("contoken/v1 cursor mac", v.Audience)
	f.Fuzz(func(t *testing.T, body []byte) {
		payload, ok := readBody(body)
		opinion, opinionOK := readLibraryBody(body)
		if ok != opinionOK || !reflect.DeepEqual(payload, opinion) {
			t.Fatalf("body %x: read as %+v (%v), by the library as %+v (%v)", body, payload, ok, opinion, opinionOK)
		}
		if ok && !bytes.Equal(appendBody(nil, &payload), body) {
			t.Errorf("body %x: written as %x", body, appendBody(nil, &payload))
		}
		cursor := rawBase64(slices.Concat(body, hmacSHA256(macKey, string(body))))
		_, err := issuer.Verify(scope, cursor)
		if refused := errors.Is(err, ErrMalformed); refused == (ok && len(cursor) <= MaxCursorBytes) {
			t.Errorf("body %x, sealed: error %v", body, err)
		}
	})
}

// FuzzDecodeState: what opens is what a key of the codec encodes for its state; all else is a documented error.
func FuzzDecodeState(f *testing.F) {
	addSeeds(f)
	vectors := readVectors[stateVector](f, "state.json")
	codecs := make([]*RequestStateCodec, len(vectors))
	for i := range vectors {
		vectors[i].Mode = ModeSigned.String() // available everywhere, and every codec decodes all modes
		codecs[i] = vectors[i].codec(f)
	}
	f.Fuzz(func(t *testing.T, vector uint16, wire string) {
		i := int(vector) % len(vectors)
		scope := vectors[i].Scope.scope(t)
		state, err := codecs[i].Decode(scope, wire)
		if err != nil {
			checkRefusal(t, err, state, ErrMalformed, ErrSignature, ErrScope, ErrExpired)
			return
		}
		text, ok := signedPayload(wire)
		if !ok {
			return // no two encryptions are the same
		}
		payload, _ := readLibraryPayload(text)
		encodedBy := func(key string) bool {
			v := vectors[i]
			v.Keys, v.Now, v.TTL = []string{key}, payload.Expires-1, 1
			again, err := v.codec(t).Encode(scope, state)
			return err == nil && again == wire
		}
		if !slices.ContainsFunc(vectors[i].Keys, encodedBy) {
			t.Errorf("%q opens, but no key encodes it for %q", wire, state)
		}
	})
}

// FuzzStatePayload: an authenticated payload opens, in every mode, if and only if encoding/json reads and writes it as
// ours.
func FuzzStatePayload(f *testing.F) {
	addSeeds(f)
	v := readVectors[stateVector](f, "state.json")[0]
	codec, scope, sealer := v.codec(f), v.Scope.scope(f), newPayloadSealer(f, v)
	available := availableModes(f)
	f.Fuzz(func(t *testing.T, payload []byte) {
		opinion, ok := readLibraryPayload(payload)
		var want error
		switch {
		case !ok:
			want = ErrMalformed
		case opinion.Expires <= v.Now:
			want = ErrExpired
		case opinion.BindTag != hex.EncodeToString(sealer.bindTag):
			want = ErrScope
		}
		for _, mode := range available {
			state, err := codec.Decode(scope, sealer.wire(mode, payload))
			if want != nil {
				checkRefusal(t, err, state, want)
			} else if err != nil || state != opinion.State {
				t.Errorf("%v payload %q: state %q, error %v; want %q", mode, payload, state, err, opinion.State)
			}
		}
	})
}

// FuzzEncodeState: text without NUL that fits encodes, in every mode, and opens again; all else is a documented error.
func FuzzEncodeState(f *testing.F) {
	addSeeds(f)
	v := readVectors[stateVector](f, "state.json")[0]
	v.MaxBytes = 256
	var codecs []*RequestStateCodec
	for _, mode := range availableModes(f) {
		v.Mode = mode.String()
		codecs = append(codecs, v.codec(f))
	}
	f.Fuzz(func(t *testing.T, subject, tool, state string) {
		nulOrInvalid := strings.Contains(subject+tool, "\x00") ||
			!utf8.ValidString(subject) || !utf8.ValidString(tool) || !utf8.ValidString(state)
		payload := libraryPayload{state, v.Now + v.TTL, strings.Repeat("0", 64)}
		for _, codec := range codecs {
			size := wireBytes(codec.mode, len(libraryJSON(payload)))
			wire, err := codec.Encode(Scope{Subject: subject, Tool: tool}, state)
			switch {
			case nulOrInvalid:
				checkRefusal(t, err, wire, ErrInput)
			case size > v.MaxBytes:
				checkRefusal(t, err, wire, ErrTooLarge)
			case err != nil || len(wire) != size:
				t.Errorf("%v: %d bytes, error %v; want %d bytes", codec.mode, len(wire), err, size)
			default:
				checkEncoded(t, codec, Scope{Subject: subject, Tool: tool}, wire, payload)
			}
		}
	})
}

// checkEncoded checks that wire opens under scope and no other, and that its payload, where it can be read, is the one
// that is wanted, apart from the bind tag.
func checkEncoded(t *testing.T, codec *RequestStateCodec, scope Scope, wire string, want libraryPayload) {
	t.Helper()
	if state, err := codec.Decode(scope, wire); err != nil || state != want.State {
		t.Errorf("%v: decoded as %q, error %v; want %q", codec.mode, state, err, want.State)
	}
	scope.Tool += "x"
	state, err := codec.Decode(scope, wire)
	checkRefusal(t, err, state, ErrScope, ErrSignature)
	if text, ok := signedPayload(wire); ok {
		payload, ok := readLibraryPayload(text)
		if !ok || payload.State != want.State || payload.Expires != want.Expires {
			t.Errorf("%v: payload %q, want %+v", codec.mode, text, want)
		}
	}
}

// FuzzCanonicalJSON: text has the canonical form that encoding/json gives it, and that is its own canonical form.
func FuzzCanonicalJSON(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, src []byte, name string) {
		for _, except := range [][]string{nil, {name}} {
			canonical, err := canonicalJSON(src, except)
			opinion, ok := canonicalLibraryJSON(src, except)
			if ok != (err == nil) || string(canonical) != opinion {
				t.Fatalf("%q without %q: %q, error %v; want %q (%v)", src, except, canonical, err, opinion, ok)
			}
			if err != nil {
				checkRefusal(t, err, canonical, ErrInput)
				continue
			}
			if !json.Valid(canonical) {
				t.Errorf("%q: its canonical form %q is not JSON", src, canonical)
			}
			if again, err := canonicalJSON(canonical, nil); err != nil || !bytes.Equal(again, canonical) {
				t.Errorf("%q: the canonical form of this canonical form is %q, error %v", canonical, again, err)
			}
		}
	})
}

// FuzzParseKeyRing: what parses parses to the same keys in another spelling; all else is ErrKey and quoted nowhere.
func FuzzParseKeyRing(f *testing.F) {
	addSeeds(f)
	const quote = 8 // bytes: more than a text has in common with an error by chance
	f.Fuzz(func(t *testing.T, text string) {
		ring, err := ParseKeyRing(text)
		if err != nil {
			checkRefusal(t, err, ring, ErrKey)
			for i := range max(len(text)-quote+1, 0) {
				if piece := text[i : i+quote]; strings.Contains(err.Error(), piece) {
					t.Errorf("error %q quotes %q", err, piece)
				}
			}
			return
		}
		keys := ring.current.Load().keys
		var texts []string
		for _, key := range keys {
			if len(key.secret()) < 32 {
				t.Errorf("%q: key of %d bytes", text, len(key.secret()))
			}
			texts = append(texts, base64.StdEncoding.EncodeToString(key.secret()))
		}
		again, err := ParseKeyRing(strings.Join(texts, ","))
		if err != nil {
			t.Fatalf("%q: its keys in base64: %v", text, err)
		}
		if !slices.EqualFunc(again.current.Load().keys, keys, Key.equal) {
			t.Errorf("%q: its keys in base64 are others", text)
		}
	})
}

// FuzzOpaqueState: a position that decodes encodes again, and then decodes as the same; all else is ErrMalformed.
func FuzzOpaqueState(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, state []byte) {
		if len(state) <= MaxOpaqueStateBytes {
			checkOpaqueState[any](t, state)
			checkOpaqueState[libraryBody](t, state)
		}
	})
}

// checkOpaqueState checks that a state that decodes into a T encodes again, and that this decodes into the same T.
func checkOpaqueState[T any](t *testing.T, state []byte) {
	t.Helper()
	var value, again T
	if err := (CursorPayload{OpaqueState: state}).DecodeOpaqueState(&value); err != nil {
		checkRefusal(t, err, value, ErrMalformed)
		return
	}
	encoded, err := EncodeOpaqueState(value)
	if err != nil {
		t.Fatalf("%x decodes as %#v, which does not encode: %v", state, value, err)
	}
	if err := (CursorPayload{OpaqueState: encoded}).DecodeOpaqueState(&again); err != nil {
		t.Fatalf("%x decodes, but its encoding %x does not: %v", state, encoded, err)
	}
	hasNaN := bytes.Contains(encoded, []byte{0xf9, 0x7e, 0x00}) // which is not equal to itself
	if !reflect.DeepEqual(again, value) && !hasNaN {
		t.Errorf("%x decodes as %#v, and its encoding %x as %#v", state, value, encoded, again)
	}
}

// checkRefusal checks that err is exactly one of the documented errors and that the result beside it is zero.
func checkRefusal[T any](t *testing.T, err error, result T, documented ...error) {
	t.Helper()
	matches := 0
	for _, sentinel := range documented {
		if errors.Is(err, sentinel) {
			matches++
		}
	}
	if matches != 1 {
		t.Errorf("error %v is %d of the documented ones: %v", err, matches, documented)
	}
	if !reflect.ValueOf(&result).Elem().IsZero() {
		t.Errorf("result %v beside the error %v", result, err)
	}
}
