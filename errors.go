package contoken

import (
	"errors"
	"fmt"
)

// Errors that tell why a token was refused. They are for logs and for branching with [errors.Is]; to the client
// say [PublicMessage], whatever the reason. No error of this package quotes a token, key, subject, argument or state.
var (
	// ErrInvalid is every token that must not be trusted, other than an expired one. Genuine clients send such
	// tokens only where ErrNotYetValid and ErrRedeemed say so, and someone should be told.
	ErrInvalid = errors.New("contoken: invalid token")

	// ErrMalformed is text that is no token of this kind, or carries what we never write, or a state of another shape
	// than DecodeOpaqueState or DecodeJSON is asked for. Is ErrInvalid.
	ErrMalformed = fmt.Errorf("%w: malformed", ErrInvalid)

	// ErrSignature is a forged or altered token. For request state and one-time tokens it is also a token of another
	// key or audience and, for an encrypted one, of another scope. Is ErrInvalid.
	ErrSignature = fmt.Errorf("%w: signature mismatch", ErrInvalid)

	// ErrScope is a genuine token that was issued for another tool, subject or arguments. Is ErrInvalid.
	ErrScope = fmt.Errorf("%w: issued for another scope", ErrInvalid)

	// ErrNotYetValid is a genuine cursor that was issued more than 60 seconds in the future, by a server whose clock
	// differs from ours. Is ErrInvalid.
	ErrNotYetValid = fmt.Errorf("%w: issued in the future", ErrInvalid)

	// ErrRedeemed is a genuine one-time token that has been redeemed before: a replay, or a client that repeats a
	// request because the answer was lost. Is ErrInvalid.
	ErrRedeemed = fmt.Errorf("%w: already redeemed", ErrInvalid)

	// ErrExpired is a token that is too old or, for a cursor, that comes from an earlier process, a retired key or
	// another audience. The client should start over. It never Is ErrInvalid.
	ErrExpired = errors.New("contoken: expired token")
)

// Errors that tell what a caller or an operator has to change. They never depend on the token.
var (
	// ErrTooLarge is a state that does not fit in a token: see [MaxOpaqueStateBytes], [MaxCursorBytes] and
	// [RequestStateOptions].
	ErrTooLarge = errors.New("contoken: state too large for a token")

	// ErrInput is a value that cannot be used: a scope with NUL or invalid UTF-8, without a required subject or, for
	// cursors, without a tool; page 0; a state that is not UTF-8 or cannot be encoded; arguments that are not JSON;
	// an option out of range; a redeem store that is nil or holds nothing; a clock before 1970 or past 2^53 seconds.
	ErrInput = errors.New("contoken: invalid input")

	// ErrKey is a key or a key ring that cannot be used.
	ErrKey = errors.New("contoken: unusable key")
)

// PublicMessage is what a client may be told of a refused token, whatever the reason.
const PublicMessage = "invalid or expired token"

// The codes that the ATD protocol has for a refused cursor; see [ATDCode].
const (
	ATDCursorExpired = 1020
	ATDCursorInvalid = 1021
)

// ATDCode returns ATDCursorExpired or ATDCursorInvalid if err tells of a refused token, and 0 for any other error
// and for nil.
func ATDCode(err error) int {
	switch {
	case errors.Is(err, ErrExpired):
		return ATDCursorExpired
	case errors.Is(err, ErrInvalid):
		return ATDCursorInvalid
	default:
		return 0
	}
}
