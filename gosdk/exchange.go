package gosdk

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/contoken/contoken"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tokenKind is one of the two kinds of token that the protocol has.
type tokenKind int

const (
	requestState tokenKind = iota
	listCursor
	tokenKinds
)

// exchange is a request of one of the seven methods that carry tokens, with what the tokens of the request and of its
// result are bound to. All of it is settled before the handler runs, which may change the arguments.
type exchange struct {
	method, target string
	kind           tokenKind
	request        mcp.Request // for the handler: a copy, with a copy of the params
	token          *string     // the field of those params that holds the token
	scope          contoken.Scope
	unbindable     error // why the scope has no arguments, though the method has some
}

// newExchange returns the exchange that a request starts, or nil if its method carries no tokens.
func newExchange(method string, req mcp.Request) *exchange {
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		r, p := copyRequest(r)
		x := newStateExchange(method, p.Name, r, &p.RequestState)
		x.scope.Args, x.unbindable = contoken.FingerprintArgs(p.Arguments)
		return x
	case *mcp.GetPromptRequest:
		r, p := copyRequest(r)
		x := newStateExchange(method, p.Name, r, &p.RequestState)
		x.scope.Args, x.unbindable = fingerprintPromptArgs(p.Arguments)
		return x
	case *mcp.ReadResourceRequest:
		r, p := copyRequest(r)
		return newStateExchange(method, p.URI, r, &p.RequestState)
	case *mcp.ListToolsRequest:
		r, p := copyRequest(r)
		return newListExchange(method, r, &p.Cursor)
	case *mcp.ListPromptsRequest:
		r, p := copyRequest(r)
		return newListExchange(method, r, &p.Cursor)
	case *mcp.ListResourcesRequest:
		r, p := copyRequest(r)
		return newListExchange(method, r, &p.Cursor)
	case *mcp.ListResourceTemplatesRequest:
		r, p := copyRequest(r)
		return newListExchange(method, r, &p.Cursor)
	default:
		return nil
	}
}

// newStateExchange binds to method and target. No method of MCP holds a space, so no two pairs of them share a scope.
func newStateExchange(method, target string, req mcp.Request, token *string) *exchange {
	scope := contoken.Scope{Tool: method + " " + target}
	return &exchange{method: method, target: target, kind: requestState, request: req, token: token, scope: scope}
}

func newListExchange(method string, req mcp.Request, token *string) *exchange {
	return &exchange{method: method, kind: listCursor, request: req, token: token, scope: contoken.Scope{Tool: method}}
}

// copyRequest returns a copy of a request and the copy of its params that it holds: those of the original belong to
// the SDK, which uses them again. Absent params, which the list methods allow, become empty ones.
func copyRequest[P interface {
	*T
	mcp.Params
}, T any](req *mcp.ServerRequest[P]) (*mcp.ServerRequest[P], P) {
	request, params := *req, new(T)
	if req.Params != nil {
		*params = *req.Params
	}
	request.Params = params
	return &request, params
}

var errPromptArgs = fmt.Errorf("%w: prompt arguments are not UTF-8", contoken.ErrInput)

// fingerprintPromptArgs is contoken.FingerprintArgs for the arguments of a prompt, which the SDK has decoded. Nil and
// empty are the same.
func fingerprintPromptArgs(args map[string]string) (contoken.Fingerprint, error) {
	for name, value := range args {
		// The encoder would replace what is not UTF-8, so that arguments that differ would come to be the same.
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return contoken.Fingerprint{}, errPromptArgs
		}
	}
	text, err := json.Marshal(args)
	if err != nil {
		return contoken.Fingerprint{}, errPromptArgs
	}
	return contoken.FingerprintArgs(text)
}

// outgoing is a copy of a result with its fields that matter here.
type outgoing struct {
	result     mcp.Result
	token      *string
	cacheScope *string // nil where results are not cached
}

// copyResult returns a copy of a result, unexported fields included, or the zero outgoing if the result is of a type
// that carries no token.
func copyResult(res mcp.Result) outgoing {
	switch r := res.(type) {
	case *mcp.CallToolResult:
		c := clone(r)
		return outgoing{c, &c.RequestState, nil}
	case *mcp.GetPromptResult:
		c := clone(r)
		return outgoing{c, &c.RequestState, nil}
	case *mcp.ReadResourceResult:
		c := clone(r)
		return outgoing{c, &c.RequestState, &c.CacheScope}
	case *mcp.ListToolsResult:
		c := clone(r)
		return outgoing{c, &c.NextCursor, &c.CacheScope}
	case *mcp.ListPromptsResult:
		c := clone(r)
		return outgoing{c, &c.NextCursor, &c.CacheScope}
	case *mcp.ListResourcesResult:
		c := clone(r)
		return outgoing{c, &c.NextCursor, &c.CacheScope}
	case *mcp.ListResourceTemplatesResult:
		c := clone(r)
		return outgoing{c, &c.NextCursor, &c.CacheScope}
	default:
		return outgoing{}
	}
}

// clone returns a shallow copy of what p points to, or the zero T for the nil result of a handler.
func clone[T any](p *T) *T {
	c := new(T)
	if p != nil {
		*c = *p
	}
	return c
}
