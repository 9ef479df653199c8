package gosdk

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var errNoUserID = errors.New("the verified access token has no UserID: " +
	"have the auth.TokenVerifier set TokenInfo.UserID, or set Options.Subject")

// TokenUserID is the default of Options.Subject, for handlers that bind tokens of their own. It returns the UserID of
// the request's verified access token, and "", the anonymous caller, if there is no token, as on stdio and in memory. A
// token without a UserID is an error, since all users of such tokens would be one.
func TokenUserID(ctx context.Context, req mcp.Request) (string, error) {
	token := tokenInfo(ctx, req)
	switch {
	case token == nil:
		return "", nil
	case token.UserID == "":
		return "", errNoUserID
	default:
		return token.UserID, nil
	}
}

// tokenInfo returns the verified token that a request came with. Only transports that say nothing about single
// requests, such as the SDK's older SSE transport, leave it to the context, which is that of the whole session.
func tokenInfo(ctx context.Context, req mcp.Request) *auth.TokenInfo {
	if extra := req.GetExtra(); extra != nil {
		return extra.TokenInfo
	}
	return auth.TokenInfoFromContext(ctx)
}
