package gosdk_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const features, pageSize = 250, 7

// newListServer returns a server with as many tools, prompts, resources and templates as there are features.
func newListServer(t *testing.T, opts *mcp.ServerOptions) *mcp.Server {
	t.Helper()
	server := mcp.NewServer(impl("lists"), opts)
	for i := range features {
		name := fmt.Sprintf("secret-%03d", i)
		server.AddTool(&mcp.Tool{Name: name, InputSchema: emptySchema}, toolHandler(nil))
		server.AddPrompt(&mcp.Prompt{Name: name}, promptHandler(nil))
		server.AddResource(&mcp.Resource{Name: name, URI: "test://" + name}, resourceHandler(nil))
		template := &mcp.ResourceTemplate{Name: name, URITemplate: "test://" + name + "/{id}"}
		server.AddResourceTemplate(template, resourceHandler(nil))
	}
	server.AddReceivingMiddleware(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}).Middleware)
	return server
}

// count counts what the SDK's client finds by following cursors from page to page.
func count[T any](t *testing.T, items iter.Seq2[T, error]) int {
	t.Helper()
	n := 0
	for _, err := range items {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestListsPageThroughSealedCursors(t *testing.T) {
	wire := new(syncBuffer)
	session := connect(t, newListServer(t, &mcp.ServerOptions{PageSize: pageSize}), promptClient(), "", wire)
	ctx := t.Context()
	for name, got := range map[string]int{
		"tools":     count(t, session.Tools(ctx, nil)),
		"prompts":   count(t, session.Prompts(ctx, nil)),
		"resources": count(t, session.Resources(ctx, nil)),
		"templates": count(t, session.ResourceTemplates(ctx, nil)),
	} {
		if got != features {
			t.Errorf("%d %s, want %d", got, name, features)
		}
	}
	const pages = (features + pageSize - 1) / pageSize
	if got, want := strings.Count(wire.String(), `"nextCursor":"v1e.`), 4*(pages-1); got != want {
		t.Errorf("%d sealed cursors on the wire, want %d", got, want)
	}
	if got := strings.Count(wire.String(), `"nextCursor"`); got != 4*(pages-1) {
		t.Errorf("%d cursors on the wire, want %d", got, 4*(pages-1))
	}
}

func TestCursorOfLongURI(t *testing.T) {
	server := mcp.NewServer(impl("lists"), &mcp.ServerOptions{PageSize: 1})
	long := "test://" + strings.Repeat("long/", 1<<14) // more than DefaultMaxRequestStateBytes
	server.AddResource(&mcp.Resource{Name: "a", URI: long + "a"}, resourceHandler(nil))
	server.AddResource(&mcp.Resource{Name: "b", URI: long + "b"}, resourceHandler(nil))
	server.AddReceivingMiddleware(newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{MaxStateBytes: 64}).Middleware)
	session := connect(t, server, promptClient(), "", nil)
	if got := count(t, session.Resources(t.Context(), nil)); got != 2 {
		t.Errorf("%d resources, want 2", got)
	}
}

// What holds a token opens for one caller, so no shared cache may keep it. All else keeps the scope it has.
func TestCacheScopeIsPrivateWhereTokenIs(t *testing.T) {
	session := connect(t, newListServer(t, &mcp.ServerOptions{PageSize: features - 1}), manualClient(), "", nil)
	first, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	last, err := session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: first.NextCursor})
	if err != nil {
		t.Fatal(err)
	}
	if first.NextCursor == "" || first.CacheScope != "private" {
		t.Errorf("first page: cursor %q, cacheScope %q; want a cursor and private", first.NextCursor, first.CacheScope)
	}
	if last.NextCursor != "" || last.CacheScope != "public" {
		t.Errorf("last page: cursor %q, cacheScope %q; want no cursor and public", last.NextCursor, last.CacheScope)
	}
}

func TestCacheScopeOfEveryKind(t *testing.T) {
	handler := func(res mcp.Result) mcp.MethodHandler {
		return newBoundary(t, contoken.EphemeralKeyRing(), gosdk.Options{}).Middleware(
			func(context.Context, string, mcp.Request) (mcp.Result, error) { return res, nil })
	}
	public := mcp.Cacheable{CacheScope: "public", TTLMs: 1000}
	for method, tc := range map[string]struct {
		req mcp.Request
		res mcp.CacheableResult
	}{
		"resources/read": {&mcp.ReadResourceRequest{}, &mcp.ReadResourceResult{Cacheable: public, RequestState: "secret"}},
		"tools/list":     {&mcp.ListToolsRequest{}, &mcp.ListToolsResult{Cacheable: public, NextCursor: "secret"}},
		"prompts/list":   {&mcp.ListPromptsRequest{}, &mcp.ListPromptsResult{Cacheable: public, NextCursor: "secret"}},
		"resources/list": {&mcp.ListResourcesRequest{}, &mcp.ListResourcesResult{Cacheable: public, NextCursor: "secret"}},
		"resources/templates/list": {&mcp.ListResourceTemplatesRequest{},
			&mcp.ListResourceTemplatesResult{Cacheable: public, NextCursor: "secret"}},
	} {
		res, err := handler(tc.res)(t.Context(), method, tc.req)
		if err != nil {
			t.Fatal(err)
		}
		got := res.(mcp.CacheableResult)
		if got.GetCacheScope() != "private" || got.GetTTLMs() != 1000 {
			t.Errorf("%s: cacheScope %q, ttlMs %d; want private, 1000", method, got.GetCacheScope(), got.GetTTLMs())
		}
		if tc.res.GetCacheScope() != "public" {
			t.Errorf("%s: the handler's result was changed", method)
		}
	}
}

// The SDK's own cursor names the last item of the page; a client must not learn it, nor choose it.
func TestCursorHidesItsPosition(t *testing.T) {
	session := connect(t, newListServer(t, &mcp.ServerOptions{PageSize: pageSize}), manualClient(), "", nil)
	res, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	encoded, found := strings.CutPrefix(res.NextCursor, "v1e.")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !found || err != nil || strings.Contains(string(raw), "secret") {
		t.Errorf("cursor %q is not an encrypted token", res.NextCursor)
	}
}
