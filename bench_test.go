package contoken

import (
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each call is measured beside its floor: the same primitives alone, over the same number of bytes and into memory
// that is there already. The ratio of the two, from one run, says what this package adds, whatever the machine. The
// clock stands still, as reading it costs more on some machines than all that is measured here.

var (
	benchScope    = Scope{"celia:fhir.list_observations", "test-caller", sha256.Sum256([]byte("arguments"))}
	benchPosition = []byte("keyset:last_id=42,page=3")
	benchStates   = []string{
		`{"step":1}`,
		`{"step":2,"environment":"staging","commit":"9fceb02d0ae598e95dc970b74767f19372d61af8"}`,
	}
)

// run measures call, which may not fail.
func run(b *testing.B, name string, call func() error) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkIssue(b *testing.B) {
	issuer, cursor := benchIssuer(b)
	run(b, "contoken", func() error {
		_, err := issuer.Issue(benchScope, 2, benchPosition)
		return err
	})
	mac := newFloorMAC()
	text, sealed := []byte(cursor), make([]byte, base64.RawURLEncoding.DecodedLen(len(cursor)))
	run(b, "floor", func() error {
		mac.compute(sealed[sha256.Size:])
		base64.RawURLEncoding.Encode(text, sealed)
		return nil
	})
}

func BenchmarkVerify(b *testing.B) {
	issuer, cursor := benchIssuer(b)
	run(b, "contoken", func() error {
		_, err := issuer.Verify(benchScope, cursor)
		return err
	})
	mac := newFloorMAC()
	text, sealed := []byte(cursor), make([]byte, base64.RawURLEncoding.DecodedLen(len(cursor)))
	run(b, "floor", func() error {
		_, err := base64.RawURLEncoding.Decode(sealed, text)
		mac.compute(sealed[sha256.Size:])
		return err
	})
}

// BenchmarkVerifyParallel is to be run with -cpu 1,2: one issuer serves all cores.
func BenchmarkVerifyParallel(b *testing.B) {
	issuer, cursor := benchIssuer(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := issuer.Verify(benchScope, cursor); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	eachBenchState(b, func(b *testing.B, mode RequestStateMode, state string) {
		codec, wire := benchCodec(b, mode, state)
		run(b, "contoken", func() error {
			_, err := codec.Encode(benchScope, state)
			return err
		})
		run(b, "floor", newStateFloor(b, &codec.sealer, state, nil, wire).encode)
	})
}

func BenchmarkDecode(b *testing.B) {
	eachBenchState(b, func(b *testing.B, mode RequestStateMode, state string) {
		codec, wire := benchCodec(b, mode, state)
		run(b, "contoken", func() error {
			_, err := codec.Decode(benchScope, wire)
			return err
		})
		run(b, "floor", newStateFloor(b, &codec.sealer, state, nil, wire).decode)
	})
}

func BenchmarkOneTimeEncode(b *testing.B) {
	eachBenchState(b, func(b *testing.B, mode RequestStateMode, state string) {
		codec, wire := benchOneTime(b, mode, state)
		run(b, "contoken", func() error {
			_, err := codec.Encode(benchScope, state)
			return err
		})
		run(b, "floor", newStateFloor(b, &codec.sealer, state, make([]byte, idLength), wire).encode)
	})
}

// BenchmarkRedeem leaves out the store: its own says yes to everything.
func BenchmarkRedeem(b *testing.B) {
	eachBenchState(b, func(b *testing.B, mode RequestStateMode, state string) {
		codec, wire := benchOneTime(b, mode, state)
		run(b, "contoken", func() error {
			_, err := codec.Redeem(b.Context(), benchScope, wire)
			return err
		})
		run(b, "floor", newStateFloor(b, &codec.sealer, state, make([]byte, idLength), wire).decode)
	})
}

// BenchmarkMemoryRedeemStore has a store of 100,000 ids that is always full: each call forgets the oldest of them.
func BenchmarkMemoryRedeemStore(b *testing.B) {
	const capacity = 100_000
	store := NewMemoryRedeemStore(capacity)
	second := int64(0)
	run(b, "redeem", func() error {
		id := newTokenID()
		second++
		_, err := store.redeemAt(time.Unix(second, 0), string(id[:]), time.Unix(second+capacity, 0))
		return err
	})
}

func BenchmarkFingerprintArgs(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		document := benchDocument(size)
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.SetBytes(int64(len(document)))
			run(b, "contoken", func() error {
				_, err := FingerprintArgs(document)
				return err
			})
			run(b, "floor", func() error {
				sha256.Sum256(document)
				return nil
			})
		})
	}
}

func benchIssuer(b *testing.B) (*CursorIssuer, string) {
	b.Helper()
	issuer := mustIssuer(b, testRing(b, 1), &CursorOptions{Now: at(testTime)})
	cursor, err := issuer.Issue(benchScope, 2, benchPosition)
	if err != nil {
		b.Fatal(err)
	}
	return issuer, cursor
}

// eachBenchState runs bench for each mode and each size of state.
func eachBenchState(b *testing.B, bench func(b *testing.B, mode RequestStateMode, state string)) {
	for mode := ModeSigned; mode.valid(); mode++ {
		for _, state := range benchStates {
			b.Run(fmt.Sprintf("%v/%dB", mode, len(state)), func(b *testing.B) { bench(b, mode, state) })
		}
	}
}

func benchCodec(b *testing.B, mode RequestStateMode, state string) (*RequestStateCodec, string) {
	b.Helper()
	skipWithoutXChaCha(b, mode)
	codec := mustCodec(b, testRing(b, 1), &RequestStateOptions{Mode: mode, Now: at(testTime)})
	wire, err := codec.Encode(benchScope, state)
	if err != nil {
		b.Fatal(err)
	}
	return codec, wire
}

func benchOneTime(b *testing.B, mode RequestStateMode, state string) (*OneTimeCodec, string) {
	b.Helper()
	skipWithoutXChaCha(b, mode)
	yes := storeFunc(func(context.Context, string, time.Time) (bool, error) { return true, nil })
	codec := mustOneTime(b, testRing(b, 1), yes, &RequestStateOptions{Mode: mode, Now: at(testTime)})
	wire, err := codec.Encode(benchScope, state)
	if err != nil {
		b.Fatal(err)
	}
	return codec, wire
}

// floorMAC is an HMAC whose keyed state is kept in a pool.
type floorMAC struct{ states sync.Pool }

func newFloorMAC() *floorMAC {
	return &floorMAC{sync.Pool{New: func() any {
		state := &macState{Hash: hmac.New(sha256.New, testSecret)}
		state.Reset()
		return state
	}}}
}

func (m *floorMAC) compute(message []byte) {
	state := m.states.Get().(*macState)
	state.Reset()
	state.Write(message)
	state.Sum(state.sum[:0])
	m.states.Put(state)
}

// stateFloor has the primitives of one request state or one-time token: the HMAC over the scope and, for a signed one,
// that over the text, else the AEAD; and the id, if there is one, is drawn.
type stateFloor struct {
	bind, mac           *floorMAC
	aead                cipher.AEAD // nil for a signed state
	scope, payload, id  []byte
	wire, sealed, plain []byte
	associated, nonce   []byte
	signed              int // length of what the MAC of a signed state covers
}

func newStateFloor(b *testing.B, s *sealer, state string, id []byte, wire string) *stateFloor {
	b.Helper()
	f := &stateFloor{
		bind: newFloorMAC(), mac: newFloorMAC(), aead: s.keys.all()[0].aeads[s.mode],
		scope:      appendScope(nil, &benchScope),
		payload:    appendPayload(nil, state, testTime+600, id, make([]byte, bindTagLength)),
		id:         id,
		wire:       []byte(wire),
		associated: make([]byte, len("v1e.")+bindTagLength),
		sealed:     make([]byte, 0, len(wire)),
		plain:      make([]byte, 0, len(wire)),
		signed:     strings.LastIndexByte(wire, '.'),
	}
	if f.aead != nil {
		f.nonce = make([]byte, f.aead.NonceSize())
		f.wire = f.wire[len("v1e."):]
		f.sealed = f.aead.Seal(f.nonce, f.nonce, f.payload, f.associated)
		base64.RawURLEncoding.Encode(f.wire, f.sealed)
	}
	return f
}

func (f *stateFloor) encode() error {
	f.bind.compute(f.scope)
	if f.id != nil {
		rand.Read(f.id[:idBytes])
	}
	if f.aead == nil {
		base64.RawURLEncoding.Encode(f.wire[len("v1."):], f.payload)
		f.mac.compute(f.wire[:f.signed])
		base64.RawURLEncoding.Encode(f.wire[f.signed+1:], f.scope[:sha256.Size])
		return nil
	}
	if len(f.nonce) > 0 { // AES-GCM draws its own
		rand.Read(f.nonce)
	}
	f.sealed = f.aead.Seal(append(f.sealed[:0], f.nonce...), f.nonce, f.payload, f.associated)
	base64.RawURLEncoding.Encode(f.wire, f.sealed)
	return nil
}

func (f *stateFloor) decode() error {
	f.bind.compute(f.scope)
	if f.aead == nil {
		base64.RawURLEncoding.Decode(f.payload, f.wire[len("v1."):f.signed])
		base64.RawURLEncoding.Decode(f.payload, f.wire[f.signed+1:])
		f.mac.compute(f.wire[:f.signed])
		return nil
	}
	n, err := base64.RawURLEncoding.Decode(f.sealed[:cap(f.sealed)], f.wire)
	if err != nil {
		return err
	}
	_, err = f.aead.Open(f.plain, f.sealed[:len(f.nonce)], f.sealed[len(f.nonce):n], f.associated)
	return err
}

// benchDocument returns arguments of about size bytes as tool servers see them: objects with their members in no
// order, prose, ids and prices.
func benchDocument(size int) []byte {
	const prose = `The quarterly review found that "latency" was within bounds for all but two regions, where a ` +
		`routing change – since reverted – had doubled it. Follow up with the network team before Friday.`
	text := []byte(`{"orders": [`)
	for i := 0; i == 0 || len(text) < size-len(prose); i++ {
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = fmt.Appendf(text, `{"title": "Order %d", "id": %d, "price": %d.%02d, "tags": ["eu-west-1", "priority"], `,
			i, 10_000_000_000+int64(i)*7919, i%500, i%100)
		if size > 1000 {
			text = fmt.Appendf(text, `"active": true, "note": %q, `, string([]rune(prose)[:20+i*37%150]))
		}
		text = fmt.Appendf(text, `"customer": {"name": "Ada Lovelace", "id": "c-%08x"}}`, uint32(i)*0x9e3779b1)
	}
	return append(text, `], "limit": 50}`...)
}
