// Package gosdk protects the continuation tokens of a server built on the official MCP SDK for Go,
// github.com/modelcontextprotocol/go-sdk: the requestState of multi round-trip requests (MCP 2026-07-28, SEP-2322),
// which the SDK sends as its handlers wrote it, and the cursors of the list methods, which it sends as readable gob.
//
//	keys, err := contoken.KeyRingFromEnv("CONTOKEN_KEYS")
//	boundary, err := gosdk.NewBoundary(keys, &gosdk.Options{Audience: "fs-server"})
//	server.AddReceivingMiddleware(boundary.Middleware)
//
// Handlers go on reading and writing plaintext state. Clients see tokens of [contoken.RequestStateCodec], encrypted
// unless [Options] says otherwise, which open for the same caller, method, target and arguments alone, until they
// expire. Servers that share keys and audience take each other's tokens.
//
// What a token does not give: a client can redeem one any number of times until it expires, and can leave the state
// out, so a handler that needs one says so when Params.RequestState is empty, even where inputResponses are present.
package gosdk

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/contoken/contoken"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Mode says how tokens are protected. A fleet can change it while tokens are out, since all modes are opened.
type Mode int

const (
	// ModeEncrypted is [contoken.ModeEncrypted]: clients can neither read nor change a token.
	ModeEncrypted Mode = iota
	// ModeEncryptedX is [contoken.ModeEncryptedX]: the same, for fleets that make billions of tokens a key.
	ModeEncryptedX
	// ModeSigned is [contoken.ModeSigned]: clients can read what a token carries, but not change it.
	ModeSigned
)

// codecModes maps from a Mode, whose zero value has to encrypt, to that of the codecs, whose zero value signs.
var codecModes = [...]contoken.RequestStateMode{
	ModeEncrypted:  contoken.ModeEncrypted,
	ModeEncryptedX: contoken.ModeEncryptedX,
	ModeSigned:     contoken.ModeSigned,
}

// Options configures a [Boundary]. Only Audience has to be set. NewBoundary copies it.
type Options struct {
	// Audience names the service, and keeps two services with one key apart. Required.
	Audience string
	// Subject returns the authenticated caller of a request, or "" for an anonymous one; never take it from what a
	// client says of itself. On an error the request is answered with an internal error, and the error is logged, so
	// it must not name the caller. Nil means TokenUserID.
	Subject func(context.Context, mcp.Request) (string, error)
	// RequireSubject refuses anonymous callers of the seven methods, with or without a token. Set it wherever callers
	// authenticate.
	RequireSubject bool
	// Mode says how tokens are protected. Zero is ModeEncrypted.
	Mode Mode
	// StateTTL is how long a requestState lives, in whole seconds. Zero means contoken.DefaultRequestStateTTL.
	StateTTL time.Duration
	// CursorTTL is how long a list cursor lives, in whole seconds. Zero means contoken.DefaultCursorTTL. It should be
	// no less than any ttlMs that the server sets on lists, or clients use a cursor from their cache that has expired.
	CursorTTL time.Duration
	// MaxStateBytes is the longest sealed requestState that is made or looked at. Zero means
	// contoken.DefaultMaxRequestStateBytes. List cursors are as long as the names that the server registers.
	MaxStateBytes int
	// Logger gets a line for each refused token, and for each request that failed on the server's side. Nil means
	// slog.Default().
	Logger *slog.Logger
	// OnReject, if set, is called for each refused request, before it is answered.
	OnReject func(context.Context, Rejection)
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Boundary seals the continuation tokens that leave a server and opens those that come back. It is safe for concurrent
// use, by any number of servers, and follows its key ring when that changes.
type Boundary struct {
	subject        func(context.Context, mcp.Request) (string, error)
	requireSubject bool
	codecs         [tokenKinds]*contoken.RequestStateCodec
	logger         *slog.Logger
	onReject       func(context.Context, Rejection)
}

// NewBoundary returns a boundary on keys. A nil or zero ring is contoken.ErrKey. No audience, or one with NUL or
// invalid UTF-8, an unknown mode or one that is not available, a TTL that is negative or not whole seconds, and a
// negative MaxStateBytes are contoken.ErrInput.
func NewBoundary(keys *contoken.KeyRing, opts *Options) (*Boundary, error) {
	if opts == nil || opts.Audience == "" {
		return nil, fmt.Errorf("%w: Options.Audience is required", contoken.ErrInput)
	}
	b := &Boundary{
		subject:        opts.Subject,
		requireSubject: opts.RequireSubject,
		logger:         cmp.Or(opts.Logger, slog.Default()),
		onReject:       opts.OnReject,
	}
	if b.subject == nil {
		b.subject = TokenUserID
	}
	var err error
	if b.codecs[requestState], err = newCodec(keys, opts, opts.StateTTL, opts.MaxStateBytes); err != nil {
		return nil, err
	}
	cursorTTL := cmp.Or(opts.CursorTTL, contoken.DefaultCursorTTL)
	unlimited := math.MaxInt // a cursor holds a name that the server registered, and a URI may be long
	if b.codecs[listCursor], err = newCodec(keys, opts, cursorTTL, unlimited); err != nil {
		return nil, err
	}
	return b, nil
}

func newCodec(
	keys *contoken.KeyRing, opts *Options, ttl time.Duration, maxBytes int,
) (*contoken.RequestStateCodec, error) {
	if opts.Mode < 0 || int(opts.Mode) >= len(codecModes) {
		return nil, fmt.Errorf("%w: unknown mode %d", contoken.ErrInput, opts.Mode)
	}
	return contoken.NewRequestStateCodec(keys, &contoken.RequestStateOptions{
		Mode:     codecModes[opts.Mode],
		TTL:      ttl,
		Audience: opts.Audience,
		MaxBytes: maxBytes,
		Now:      opts.Now,
	})
}

// Middleware is an [mcp.Middleware] for [mcp.Server.AddReceivingMiddleware]. It acts on tools/call, prompts/get,
// resources/read and the four list methods, and on custom methods that use their request types. Everything else passes
// through.
//
// The SDK runs middleware that is added later first. What is added before the boundary therefore works inside it, with
// plaintext; what is added after it sees tokens.
func (b *Boundary) Middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		x := newExchange(method, req)
		if x == nil {
			return next(ctx, method, req)
		}
		if err := b.identify(ctx, x); err != nil {
			return nil, err
		}
		if err := b.open(ctx, x); err != nil {
			return nil, err
		}
		res, err := next(ctx, method, x.request)
		if err != nil {
			return nil, err
		}
		return b.seal(ctx, x, res)
	}
}

// identify binds the exchange to its caller.
func (b *Boundary) identify(ctx context.Context, x *exchange) error {
	subject, err := b.subject(ctx, x.request)
	if err != nil {
		return b.fail(ctx, x, "the caller of a request is unknown", err)
	}
	if subject == "" && b.requireSubject {
		b.reject(ctx, x, "anonymous")
		return errAnonymous()
	}
	x.scope.Subject = subject
	return nil
}

// open replaces the token of the request, if there is one, by its plaintext.
func (b *Boundary) open(ctx context.Context, x *exchange) error {
	if *x.token == "" {
		return nil
	}
	plaintext, err := b.decode(x)
	if err != nil {
		b.reject(ctx, x, reason(err))
		return errInvalidToken(x.kind)
	}
	*x.token = plaintext
	return nil
}

func (b *Boundary) decode(x *exchange) (string, error) {
	if x.unbindable != nil {
		return "", x.unbindable
	}
	return b.codecs[x.kind].Decode(x.scope, *x.token)
}

// seal returns the result with its plaintext, if it carries any, replaced by a token.
func (b *Boundary) seal(ctx context.Context, x *exchange, res mcp.Result) (mcp.Result, error) {
	out := copyResult(res)
	if out.token == nil || *out.token == "" {
		return res, nil
	}
	token, err := b.encode(x, *out.token)
	if err != nil {
		return nil, b.fail(ctx, x, "a result cannot be sealed", err)
	}
	*out.token = token
	if out.cacheScope != nil {
		*out.cacheScope = "private" // the token opens for its caller alone
	}
	return out.result, nil
}

func (b *Boundary) encode(x *exchange, plaintext string) (string, error) {
	if x.unbindable != nil {
		return "", x.unbindable
	}
	return b.codecs[x.kind].Encode(x.scope, plaintext)
}
