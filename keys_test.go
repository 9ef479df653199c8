package contoken

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// testSecret is 32 bytes of which no piece looks like anything else that is printed.
var testSecret = func() []byte { sum := sha256.Sum256([]byte("a secret for tests")); return sum[:] }()

func testKey(t testing.TB, seed byte) Key {
	t.Helper()
	secret := bytes.Clone(testSecret)
	secret[0] = seed
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func testRing(t testing.TB, seeds ...byte) *KeyRing {
	t.Helper()
	var keys []Key
	for _, seed := range seeds {
		keys = append(keys, testKey(t, seed))
	}
	ring, err := NewKeyRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestNewKeyRefusesWeakSecrets(t *testing.T) {
	for name, secret := range map[string][]byte{
		"none":                 nil,
		"31 bytes":             testSecret[:31],
		"32 zero bytes":        make([]byte, 32),
		"64 bytes, all 0x61":   bytes.Repeat([]byte("a"), 64),
		"short and one letter": []byte("aaaa"),
	} {
		if key, err := NewKey(secret); !errors.Is(err, ErrKey) || key.secret != nil {
			t.Errorf("%s: error %v, want ErrKey and the zero key", name, err)
		}
	}
	for _, secret := range [][]byte{testSecret, bytes.Repeat(testSecret, 100)} {
		if _, err := NewKey(secret); err != nil {
			t.Errorf("%d bytes: %v", len(secret), err)
		}
	}
}

func TestNewKeyCopiesTheSecret(t *testing.T) {
	secret := bytes.Clone(testSecret)
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	clear(secret)
	if !bytes.Equal(key.secret(), testSecret) {
		t.Error("a change of the caller's slice changed the key")
	}
}

func TestParseKeyReadsHexAndBase64(t *testing.T) {
	secret := bytes.Clone(testSecret)
	secret[1], secret[2] = 0xfb, 0xff // so that the two alphabets differ
	for _, text := range []string{
		hex.EncodeToString(secret),
		strings.ToUpper(hex.EncodeToString(secret)),
		base64.StdEncoding.EncodeToString(secret),
		base64.RawStdEncoding.EncodeToString(secret),
		base64.URLEncoding.EncodeToString(secret),
		base64.RawURLEncoding.EncodeToString(secret),
		" \t\r\n" + hex.EncodeToString(secret) + "\r\n",
		base64.StdEncoding.EncodeToString(secret) + "\n",
	} {
		key, err := ParseKey(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if !bytes.Equal(key.secret(), secret) {
			t.Errorf("%q: another secret", text)
		}
	}
}

func TestParseKeyRefusesEverythingElse(t *testing.T) {
	hexText := hex.EncodeToString(testSecret)
	base64Text := base64.RawURLEncoding.EncodeToString(testSecret)
	for name, text := range map[string]string{
		"empty":                    "",
		"white space":              " \n",
		"63 hex digits":            hexText[1:],
		"62 hex digits":            hexText[2:],
		"65 hex digits":            hexText + "0",
		"66 hex digits":            hexText + "00",
		"128 hex digits":           hexText + hexText,
		"hex with a prefix":        "0x" + hexText,
		"hex with a space":         hexText[:32] + " " + hexText[32:],
		"hex with a quote":         `"` + hexText + `"`,
		"base64 of 31 bytes":       base64.RawURLEncoding.EncodeToString(testSecret[:31]),
		"line feed inside":         base64Text[:20] + "\n" + base64Text[20:],
		"carriage return inside":   base64Text[:20] + "\r" + base64Text[20:],
		"both alphabets":           "+-" + base64Text[2:],
		"padding inside":           base64Text[:20] + "=" + base64Text[20:],
		"too much padding":         base64Text + "==",
		"trailing bits":            base64Text[:len(base64Text)-1] + "Z",
		"base64 of a repeated one": base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"a passphrase":             "correct horse battery staple, and then some more words",
	} {
		if _, err := ParseKey(text); !errors.Is(err, ErrKey) {
			t.Errorf("%s: error %v, want ErrKey", name, err)
		}
	}
}

func TestGenerateKeyGivesFreshKeys(t *testing.T) {
	a, b := GenerateKey(), GenerateKey()
	if len(a.secret()) != 32 || a.equal(b) || !a.equal(a) {
		t.Error("want different keys of 32 bytes")
	}
}

func TestNewKeyRingRefusesUnusableKeys(t *testing.T) {
	key := testKey(t, 1)
	var tooMany []Key
	for seed := range byte(17) {
		tooMany = append(tooMany, testKey(t, seed))
	}
	for name, keys := range map[string][]Key{
		"none":               nil,
		"a zero key":         {key, {}},
		"one key twice":      {key, testKey(t, 2), testKey(t, 1)},
		"more than 16":       tooMany,
		"nothing but a zero": {{}},
	} {
		if ring, err := NewKeyRing(keys...); !errors.Is(err, ErrKey) || ring != nil {
			t.Errorf("%s: error %v, want ErrKey and no ring", name, err)
		}
	}
	if _, err := NewKeyRing(tooMany[:16]...); err != nil {
		t.Errorf("16 keys: %v", err)
	}
}

func TestNewKeyRingCopiesItsKeys(t *testing.T) {
	keys := []Key{testKey(t, 1), testKey(t, 2)}
	ring, err := NewKeyRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	keys[0] = testKey(t, 3)
	if !ring.current.Load().keys[0].equal(testKey(t, 1)) {
		t.Error("a change of the caller's slice changed the ring")
	}
}

func TestParseKeyRing(t *testing.T) {
	a, b := hex.EncodeToString(testKey(t, 1).secret()), base64.StdEncoding.EncodeToString(testKey(t, 2).secret())
	for _, text := range []string{a + "," + b, a + " " + b, a + "\n" + b + "\n", " " + a + " ,\t" + b + " "} {
		ring, err := ParseKeyRing(text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		keys := ring.current.Load().keys
		if len(keys) != 2 || !keys[0].equal(testKey(t, 1)) || !keys[1].equal(testKey(t, 2)) {
			t.Error("want both keys in the order of the text")
		}
	}
	for name, text := range map[string]string{
		"empty":                   "",
		"a comma alone":           ",",
		"a comma before":          "," + a,
		"a comma behind":          a + ", ",
		"two commas":              a + ",," + b,
		"a malformed second":      a + "," + b[1:],
		"one key in two spelling": a + "," + strings.ToUpper(a),
	} {
		if ring, err := ParseKeyRing(text); !errors.Is(err, ErrKey) || ring != nil {
			t.Errorf("%s: error %v, want ErrKey and no ring", name, err)
		}
	}
}

func TestKeyRingFromEnv(t *testing.T) {
	const name = "CONTOKEN_TEST_KEYS"
	for _, value := range []string{"", " \n", "hunter2", strings.Repeat("a", 63), strings.Repeat("ab", 32) + ",x"} {
		t.Setenv(name, value)
		if ring, err := KeyRingFromEnv(name); !errors.Is(err, ErrKey) || ring != nil {
			t.Errorf("%q: error %v, want ErrKey and no ring", value, err)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("%q: error %q does not name the variable", value, err)
		}
	}
	if _, err := KeyRingFromEnv("CONTOKEN_TEST_UNSET"); !errors.Is(err, ErrKey) {
		t.Errorf("unset: error %v, want ErrKey", err)
	}
	mistaken := hex.EncodeToString(testSecret)
	if _, err := KeyRingFromEnv(mistaken); !errors.Is(err, ErrKey) || strings.Contains(err.Error(), mistaken[:8]) {
		t.Errorf("a key for a name: error %v, want ErrKey without it", err)
	}
	if ring, err := KeyRingFromEnvOrEphemeral(mistaken); !errors.Is(err, ErrKey) || ring != nil {
		t.Errorf("a key for a name: error %v, want ErrKey and no ring", err)
	}
	t.Setenv(name, hex.EncodeToString(testSecret))
	ring, err := KeyRingFromEnv(name)
	if err != nil || ring.Ephemeral() {
		t.Errorf("error %v, want a ring that is not ephemeral", err)
	}
}

func TestKeyRingFromEnvOrEphemeralNeverReplacesAMalformedKey(t *testing.T) {
	const name = "CONTOKEN_TEST_KEYS"
	for _, value := range []string{"", " \t"} {
		t.Setenv(name, value)
		if ring, err := KeyRingFromEnvOrEphemeral(name); err != nil || !ring.Ephemeral() {
			t.Errorf("%q: error %v, want an ephemeral ring", value, err)
		}
	}
	if ring, err := KeyRingFromEnvOrEphemeral("CONTOKEN_TEST_UNSET"); err != nil || !ring.Ephemeral() {
		t.Errorf("unset: error %v, want an ephemeral ring", err)
	}
	for _, value := range []string{"hunter2", ",", strings.Repeat("a", 63)} {
		t.Setenv(name, value)
		if ring, err := KeyRingFromEnvOrEphemeral(name); !errors.Is(err, ErrKey) || ring != nil {
			t.Errorf("%q: error %v, want ErrKey and no ring", value, err)
		}
	}
	t.Setenv(name, hex.EncodeToString(testSecret))
	if ring, err := KeyRingFromEnvOrEphemeral(name); err != nil || ring.Ephemeral() {
		t.Errorf("error %v, want the ring of the variable", err)
	}
}

func TestRingIsEphemeralUntilTheFirstReplace(t *testing.T) {
	ring := EphemeralKeyRing()
	if !ring.Ephemeral() {
		t.Error("not ephemeral at first")
	}
	if err := ring.Replace(); !errors.Is(err, ErrKey) || !ring.Ephemeral() {
		t.Errorf("error %v, want ErrKey and the ring as it was", err)
	}
	if err := ring.Replace(testKey(t, 1)); err != nil || ring.Ephemeral() {
		t.Errorf("error %v, want a ring that is no longer ephemeral", err)
	}
	if testRing(t, 1).Ephemeral() || (*KeyRing)(nil).Ephemeral() || new(KeyRing).Ephemeral() {
		t.Error("a ring of given keys, or none, is ephemeral")
	}
}

func TestNilRingReplacesWithAnError(t *testing.T) {
	if err := (*KeyRing)(nil).Replace(testKey(t, 1)); !errors.Is(err, ErrKey) {
		t.Errorf("error %v, want ErrKey", err)
	}
}

func TestEphemeralRingsShareNothing(t *testing.T) {
	a, b := mustIssuer(t, EphemeralKeyRing(), nil), mustIssuer(t, EphemeralKeyRing(), nil)
	if _, err := b.Verify(testScope, mustIssue(t, a)); !errors.Is(err, ErrExpired) {
		t.Errorf("error %v, want ErrExpired", err)
	}
}

func TestSubKeysAllDiffer(t *testing.T) {
	labels := []string{
		"contoken/v1 cursor mac", "contoken/v1 cursor session", "contoken/v1 state mac", "contoken/v1 state bind",
		"contoken/v1 state aes-256-gcm", "contoken/v1 state xchacha20-poly1305",
		"contoken/v1 one-time mac", "contoken/v1 one-time bind",
		"contoken/v1 one-time aes-256-gcm", "contoken/v1 one-time xchacha20-poly1305",
	}
	var seen []string
	for _, label := range labels {
		for _, audience := range []string{"", "a", "b"} {
			for _, key := range []Key{testKey(t, 1), testKey(t, 2)} {
				sub := hex.EncodeToString(key.subKey(label, audience))
				if len(sub) != 64 || slices.Contains(seen, sub) {
					t.Errorf("%s, audience %q: sub-key of another use", label, audience)
				}
				seen = append(seen, sub)
			}
		}
	}
}

func TestMACVerifiesOnlyItsTag(t *testing.T) {
	key := newMACKey(testSecret)
	message := []byte("message")
	tag := key.sum(message)
	if !key.verify(tag[:], message) {
		t.Error("the tag does not verify")
	}
	altered := tag
	altered[31] ^= 1
	for name, bad := range map[string][]byte{"altered": altered[:], "empty": {}, "nil": nil, "short": tag[:31], "long": append(tag[:], 0)} {
		if key.verify(bad, message) || key.verify(bad, nil) {
			t.Errorf("a tag that is %s verifies", name)
		}
	}
}

// holder is a caller's struct: fmt prints what stands in its unexported fields without calling any method.
type holder struct {
	Key    Key
	hidden Key
	keys   []Key
	byName map[string]Key
	ring   *KeyRing
	issuer *CursorIssuer
	codec  *RequestStateCodec
	any    any
}

func TestNothingSecretIsPrinted(t *testing.T) {
	key := testKey(t, testSecret[0])
	ring, err := NewKeyRing(key)
	if err != nil {
		t.Fatal(err)
	}
	issuer, codec := mustIssuer(t, ring, &CursorOptions{PerProcess: true}), mustCodec(t, ring, nil)
	mustIssue(t, issuer) // so that derived keys are in place
	mustEncode(t, codec, "state")
	h := holder{key, key, []Key{key}, map[string]Key{"k": key}, ring, issuer, codec, key}
	secrets := [][]byte{testSecret}
	for _, label := range []string{"contoken/v1 cursor mac", "contoken/v1 state mac", "contoken/v1 state bind", "contoken/v1 state aes-256-gcm"} {
		secrets = append(secrets, key.subKey(label, ""))
	}

	values := []any{key, &key, ring, issuer, issuer.keys, codec, codec.keys, h, &h, []any{h}, [1]holder{h}}
	for _, value := range values {
		for _, flags := range []string{"", "+", "#", " ", "-", "0", "+#", "# "} {
			for _, verb := range "vTtbcdoOqxXUeEfFgGspwz!" {
				format := "%" + flags + string(verb)
				checkNoSecret(t, fmt.Sprintf("%T under %s", value, format), fmt.Sprintf(format, value), secrets)
			}
		}
		if text, err := json.Marshal(value); err == nil {
			checkNoSecret(t, fmt.Sprintf("%T as JSON", value), string(text), secrets)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", value)
		checkNoSecret(t, fmt.Sprintf("%T in a log", value), log.String(), secrets)
	}
}

// checkNoSecret looks for any four bytes of a secret in whatever way fmt and its kin would write them.
func checkNoSecret(t *testing.T, what, printed string, secrets [][]byte) {
	t.Helper()
	for _, secret := range secrets {
		for i := range len(secret) - 3 {
			piece := secret[i : i+4]
			for _, form := range []string{"%s", "%d", "%x", "%X", "%#v", "%o", "%b", "%v", "% x", "%q"} {
				text := strings.Trim(fmt.Sprintf(form, piece), `[]"`)
				text = strings.TrimSuffix(strings.TrimPrefix(text, "[]byte{"), "}")
				if strings.Contains(printed, text) {
					t.Fatalf("%s: %q is in %q", what, text, printed)
				}
			}
		}
		if text := base64.StdEncoding.EncodeToString(secret)[:12]; strings.Contains(printed, text) {
			t.Fatalf("%s: base64 of a secret in %q", what, printed)
		}
	}
}
