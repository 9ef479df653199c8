package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// users maps from user ids to the digests of their bearer tokens.
type users map[string][sha256.Size]byte

// parseUsers reads "alice=SECRET,bob=SECRET".
func parseUsers(text string) (users, error) {
	parsed := users{}
	for part := range strings.SplitSeq(text, ",") {
		id, token, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found || id == "" || len(token) < 16 {
			return nil, errors.New("want user=token, separated by commas, with tokens of at least 16 characters")
		}
		parsed[id] = sha256.Sum256([]byte(token))
	}
	return parsed, nil
}

// verify is an [auth.TokenVerifier]. It compares with every user's token, in constant time.
func (u users) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	digest, found := sha256.Sum256([]byte(token)), ""
	for id, want := range u {
		if subtle.ConstantTimeCompare(digest[:], want[:]) == 1 {
			found = id
		}
	}
	if found == "" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: found, Expiration: time.Now().Add(time.Minute)}, nil
}

// newHandler serves the users over streamable HTTP, without sessions: any instance answers any request.
func newHandler(server *mcp.Server, users users) http.Handler {
	handler := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true})
	return auth.RequireBearerToken(users.verify, nil)(handler)
}
