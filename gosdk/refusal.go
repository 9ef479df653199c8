package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"github.com/contoken/contoken"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Rejection says why a request was refused. It is for logs and metrics: the client is told the same, whatever the
// reason.
type Rejection struct {
	// Method is the request's method, such as "tools/call".
	Method string
	// Target is the name of the tool or prompt, or the URI of the resource, and empty for the list methods. It is what
	// the client sent, cut to 256 bytes, so treat it as untrusted text.
	Target string
	// Reason is one of:
	//   - "malformed": not a token of this kind
	//   - "signature": forged, altered or of another key or audience; where tokens are encrypted, also of another
	//     caller, method, target or arguments
	//   - "scope": genuine, but of another caller, method, target or arguments
	//   - "expired": genuine, but too old
	//   - "input": no token could have been issued for this request, such as one with a duplicate argument
	//   - "anonymous": no caller where Options.RequireSubject is set
	Reason string
}

const maxTargetBytes = 256

func reason(err error) string {
	switch {
	case errors.Is(err, contoken.ErrMalformed):
		return "malformed"
	case errors.Is(err, contoken.ErrSignature):
		return "signature"
	case errors.Is(err, contoken.ErrScope):
		return "scope"
	case errors.Is(err, contoken.ErrExpired):
		return "expired"
	default:
		return "input"
	}
}

// reject tells the operator of a refused request.
func (b *Boundary) reject(ctx context.Context, x *exchange, reason string) {
	level := slog.LevelWarn
	if reason == "expired" {
		level = slog.LevelInfo // genuine clients come late
	}
	b.logger.Log(ctx, level, "contoken: request refused", "reason", reason, "method", x.method, "target", x.shortTarget())
	if b.onReject != nil {
		b.onReject(ctx, Rejection{Method: x.method, Target: x.shortTarget(), Reason: reason})
	}
}

// fail tells the operator of a failure on the server's side and returns the error for the client.
func (b *Boundary) fail(ctx context.Context, x *exchange, message string, cause error) error {
	b.logger.ErrorContext(ctx, "contoken: "+message, "cause", cause, "method", x.method, "target", x.shortTarget())
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

func (x *exchange) shortTarget() string {
	if len(x.target) <= maxTargetBytes {
		return x.target
	}
	return strings.ToValidUTF8(x.target[:maxTargetBytes], "")
}

func errAnonymous() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "authentication required"}
}

// errInvalidToken is what a client is told of a refused token, whatever the reason.
func errInvalidToken(kind tokenKind) error {
	err := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}
	switch kind {
	case requestState:
		err.Message, err.Data = "invalid or expired requestState", json.RawMessage(`{"reason":"invalid_request_state"}`)
	case listCursor:
		err.Message, err.Data = "invalid or expired cursor", json.RawMessage(`{"reason":"invalid_cursor"}`)
	}
	return err
}
