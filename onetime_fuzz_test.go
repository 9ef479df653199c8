package contoken

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// The targets hold one-time tokens against the promise of one spelling and against encoding/json.

func FuzzRedeem(f *testing.F) {
	addSeeds(f)
	vectors := readVectors[oneTimeVector](f, "onetime.json")
	codecs, stores := make([]*OneTimeCodec, len(vectors)), make([]*spyStore, len(vectors))
	for i := range vectors {
		vectors[i].Mode = ModeSigned.String() // available everywhere, and every codec redeems all modes
		stores[i] = newSpyStore(vectors[i].Now)
		codecs[i] = vectors[i].codec(f, stores[i])
	}
	f.Fuzz(func(t *testing.T, vector uint8, wire string) {
		i := int(vector) % len(vectors)
		*stores[i] = *newSpyStore(vectors[i].Now)
		scope := vectors[i].Scope.scope(t)
		state, err := codecs[i].Redeem(t.Context(), scope, wire)
		if err != nil {
			checkRefusal(t, err, state, ErrMalformed, ErrSignature, ErrScope, ErrExpired)
			if stores[i].calls > 0 {
				t.Errorf("%q: error %v, and the store was asked", wire, err)
			}
			return
		}
		again, err := codecs[i].Redeem(t.Context(), scope, wire)
		checkRefusal(t, err, again, ErrRedeemed)
		if !strings.HasPrefix(wire, "v1.") {
			return // no two encryptions are the same
		}
		sealedBy := func(key string) bool {
			v := vectors[i]
			v.Keys, v.Now, v.TTL = []string{key}, stores[i].expires.Unix()-61, 1
			again, err := v.codec(t, stores[i]).seal(&scope, state, []byte(stores[i].id))
			return err == nil && again == wire
		}
		if !slices.ContainsFunc(vectors[i].Keys, sealedBy) {
			t.Errorf("%q is redeemed, but no key makes it of %q and id %q", wire, state, stores[i].id)
		}
	})
}

func FuzzOneTimePayload(f *testing.F) {
	addSeeds(f)
	var id string
	var expires time.Time
	store := storeFunc(func(_ context.Context, asked string, until time.Time) (bool, error) {
		id, expires = asked, until
		return true, nil
	})
	v := readVectors[oneTimeVector](f, "onetime.json")[0]
	codec, scope := v.codec(f, store), v.Scope.scope(f)
	key := &codec.keys.all()[0]
	bindTag := slices.Clone(key.bindTag(new(buffer), &scope))
	f.Fuzz(func(t *testing.T, payload []byte) {
		opinion, ok := readLibraryOneTime(payload)
		var want error
		switch {
		case !ok:
			want = ErrMalformed
		case opinion.Expires <= v.Now:
			want = ErrExpired
		case opinion.BindTag != string(bindTag):
			want = ErrScope
		}
		for mode := ModeSigned; mode.valid(); mode++ {
			var wire []byte
			switch {
			case mode == ModeSigned:
				wire = key.sign(new(buffer), payload)
			case key.aeads[mode] != nil:
				wire = key.encrypt(new(buffer), mode, payload, bindTag)
			default:
				continue // XChaCha20, where FIPS 140 is enforced
			}
			id, expires = "", time.Time{}
			state, err := codec.Redeem(t.Context(), scope, string(wire))
			switch {
			case want != nil:
				if state != "" || id != "" || !errors.Is(err, want) {
					t.Errorf("%v payload %q: state %q, recorded %q, error %v; want %v", mode, payload, state, id, err, want)
				}
			case err != nil || state != opinion.State || id != opinion.ID || expires.Unix() != opinion.Expires+60:
				t.Errorf("%v payload %q: state %q, recorded %q until %v, error %v", mode, payload, state, id, expires, err)
			}
		}
	})
}

// libraryOneTime is the payload of a one-time token as encoding/json takes it.
type libraryOneTime struct {
	State   string `json:"s"`
	Expires int64  `json:"exp"`
	ID      string `json:"id"`
	BindTag string `json:"b"`
}

// readLibraryOneTime is the second opinion on readPayload. It encodes again what it has decoded, since encoding/json
// takes members in any order, number and case, white space, other escapes and invalid UTF-8.
func readLibraryOneTime(payload []byte) (libraryOneTime, bool) {
	var p libraryOneTime
	if json.Unmarshal(payload, &p) != nil || p.Expires < 0 || p.Expires > 1<<53 {
		return libraryOneTime{}, false
	}
	id, idErr := base64.RawURLEncoding.DecodeString(p.ID)
	tag, tagErr := hex.DecodeString(p.BindTag)
	if idErr != nil || len(id) != 16 || rawBase64(id) != p.ID ||
		tagErr != nil || len(tag) != 32 || hex.EncodeToString(tag) != p.BindTag {
		return libraryOneTime{}, false
	}
	var again strings.Builder
	encoder := json.NewEncoder(&again)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(p); err != nil {
		return libraryOneTime{}, false
	}
	// The library escapes two separators for the sake of JavaScript. An escaped backslash begins no escape.
	unescape := strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")
	return p, unescape.Replace(strings.TrimSuffix(again.String(), "\n")) == string(payload)
}
