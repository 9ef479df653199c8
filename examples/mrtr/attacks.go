package main

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// attack makes, of a request that confirms a deployment to staging, one that should not be followed.
type attack struct {
	name  string
	gains deployment // what is deployed if it succeeds
	mount func(t *trial, a *attempt)
}

// attempt is the request as it is sent, and who sends it.
type attempt struct {
	sender *client
	params toolParams
}

// attacks returns those that every protection has to face. The first is the best that its client can do to a state.
func (p *protection) attacks() []attack {
	return []attack{
		{
			p.rewriting,
			deployment{"alice", "api", "4f2c9e1", "production"},
			func(_ *trial, a *attempt) { a.params.RequestState = new(p.rewrite(*a.params.RequestState)) },
		},
		{
			"bob redeems alice's state",
			deployment{"bob", "api", "4f2c9e1", "staging"},
			func(t *trial, a *attempt) { a.sender = t.bob },
		},
		{
			"another commit",
			deployment{"alice", "api", "e5d8a07", "staging"},
			func(_ *trial, a *attempt) {
				a.params.Arguments = json.RawMessage(`{"service":"api","commit":"e5d8a07"}`)
			},
		},
		{
			"an hour later",
			approved,
			func(t *trial, _ *attempt) { t.clock.advance(time.Hour) },
		},
	}
}

// rewritePlain needs no skill.
func rewritePlain(wire string) string { return strings.Replace(wire, "staging", "production", 1) }

// rewriteSigned changes the payload and keeps the tag, as there is no key to make another.
func rewriteSigned(wire string) string {
	parts := strings.Split(wire, ".")
	payload := rewritePlain(string(mustDecode(parts[1])))
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(payload))
	return strings.Join(parts, ".")
}

// Where the environment stands in an encrypted state: after prefix and nonce, at the start of the payload.
const (
	encryptedPrefix   = "v1e."
	nonceBytes        = 12
	environmentOffset = len(`{"s":"{\"environment\":\"`)
)

// rewriteEncrypted turns staging into preview without reading either: AES-GCM encrypts in counter mode, where a flipped
// bit of the ciphertext is a flipped bit of the text. Without its tag, this would pass.
func rewriteEncrypted(wire string) string {
	sealed := mustDecode(strings.TrimPrefix(wire, encryptedPrefix))
	environment := sealed[nonceBytes+environmentOffset:]
	for i := range "staging" {
		environment[i] ^= "staging"[i] ^ "preview"[i]
	}
	return encryptedPrefix + base64.RawURLEncoding.EncodeToString(sealed)
}

// readPlain and readToken return what a client without a key finds in a state.
func readPlain(wire string) string { return wire }

func readToken(wire string) string { return string(mustDecode(strings.Split(wire, ".")[1])) }

func mustDecode(text string) []byte {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		panic("the server's own state is not base64url: " + err.Error())
	}
	return decoded
}
