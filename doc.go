// Package contoken makes the strings that a tool server hands its untrusted client to bring back later, such as those
// of MCP (the Model Context Protocol) and ATD: unforgeable, bound to who may redeem them and for which request,
// expiring, and good on every instance of a fleet that shares a key, with no table on the server.
//
// A [CursorIssuer] makes cursors, which lead to the next page. A [RequestStateCodec] protects the requestState of a
// multi round-trip request (MCP SEP-2322), signed or encrypted, and a [OneTimeCodec] one that may be redeemed once. All
// are made on a [KeyRing] and ask for a [Scope] at either end: the authenticated subject, the tool, and the fingerprint
// of the arguments (see [FingerprintArgs]). What was issued under one scope does not verify under another.
//
//	keys, err := contoken.KeyRingFromEnv("CONTOKEN_KEYS")
//	cursors, err := contoken.NewCursorIssuer(keys, &contoken.CursorOptions{Audience: "fs-server"})
//	…
//	cursor, err := cursors.Issue(scope, 2, []byte(lastPath))
//	…
//	page, err := cursors.Verify(scope, cursor) // resume after page.OpaqueState
//
// A refused token is an error that Is [ErrExpired], where the client should start over, or [ErrInvalid], where someone
// should be told. The reason is for the log alone; the client is told [PublicMessage].
//
// What it does not promise: anybody can read a cursor and a signed state; any token but a one-time one can be redeemed
// any number of times until it expires; and the only revocation is that of a key.
//
// SPEC.md, beside the source, has the formats for compatible implementations. They rest on HMAC-SHA256 (RFC 2104), HKDF
// (RFC 5869), AES-256-GCM (NIST SP 800-38D), XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha), CBOR (RFC 8949) and
// canonical JSON (RFC 8785).
package contoken
