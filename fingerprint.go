package contoken

import "crypto/sha256"

// Fingerprint is the SHA-256 digest of the arguments of a call. Zero stands for none: a token with a zero Args is not
// bound to arguments. A fingerprint tells whoever can guess the arguments that the guess is right, and nothing else.
type Fingerprint [sha256.Size]byte

// FingerprintArgs returns the fingerprint of args, the JSON text of a call's arguments as it came from the client:
// never a value that a decoder has already rounded, merged or patched up, and encoded again. Empty text, null and {} are
// the same call without arguments. Except names top-level members that are left out, such as the one that carries the
// cursor itself: the call for the next page then has the fingerprint of the call for the first.
//
// The digest is of canonical JSON by RFC 8785 (JCS), so that white space, member order and spelling do not matter,
// except that an integer literal keeps all its digits, so that two ids past 2^53 never share a fingerprint.
//
// Text that JCS has no single reading for is ErrInput: invalid JSON or UTF-8, a lone surrogate, a duplicate member
// name (in left-out members too), a number past the range of a double, an integer literal of more than 308 digits,
// arrays and objects nested over 1,000 deep, and text after the value. Beside an error the fingerprint is zero, which
// would bind to nothing: do not go on with it.
//
// It takes time and memory in proportion to len(args), and n log n where one object has many members. Bound the length
// where requests come in: an ordinary MiB takes some milliseconds, but one full of numbers below 2.3e-308, which are
// slow to read, takes two seconds.
func FingerprintArgs(args []byte, except ...string) (Fingerprint, error) {
	canonical, err := canonicalJSON(args, except)
	if err != nil {
		return Fingerprint{}, err
	}
	return sha256.Sum256(canonical), nil
}
