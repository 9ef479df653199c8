package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// client calls tools over HTTP as one user.
type client struct {
	url         string
	bearerToken string
	http        *http.Client
	lastID      int
}

func newClient(url, bearerToken string) *client {
	// A transport of its own: no proxy, and no connection left from a server that has stopped.
	return &client{
		url:         url,
		bearerToken: bearerToken,
		http:        &http.Client{Transport: new(http.Transport), Timeout: time.Minute},
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call calls a tool. A refusal by the server is an *rpcError.
func (c *client) call(ctx context.Context, tool string, arguments map[string]any) (page, error) {
	c.lastID++
	id := strconv.Itoa(c.lastID)
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return page{}, err
	}
	body, err := json.Marshal(rpcRequest{rpcVersion, json.RawMessage(id), "tools/call", params})
	if err != nil {
		return page{}, err
	}
	reply, err := c.post(ctx, body)
	if err != nil {
		return page{}, err
	}
	result := new(page)
	response := rpcResponse{Result: result}
	switch err := json.Unmarshal(reply, &response); {
	case err != nil:
		return page{}, fmt.Errorf("reading the response: %w", err)
	case response.Error != nil:
		return page{}, response.Error
	case string(response.ID) != id:
		return page{}, fmt.Errorf("response with id %s to request %s", response.ID, id)
	}
	return *result, nil
}

func (c *client) post(ctx context.Context, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.bearerToken)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answered %s", response.Status)
	}
	return io.ReadAll(response.Body)
}

// listing is what came of paging through a tool's results.
type listing struct {
	pages       int
	paths       []string
	cursorSizes []int // in characters
}

// listAll calls a tool page after page to the end, and calls progress after each.
func (c *client) listAll(
	ctx context.Context, tool string, arguments map[string]any, progress func(listing),
) (listing, error) {
	var all listing
	for next := arguments; ; {
		page, err := c.call(ctx, tool, next)
		if err != nil {
			return all, fmt.Errorf("page %d of %s: %w", all.pages+1, tool, err)
		}
		all.pages++
		all.paths = append(all.paths, page.Paths...)
		if page.NextCursor == "" {
			return all, nil
		}
		all.cursorSizes = append(all.cursorSizes, len(page.NextCursor))
		progress(all)
		next = withCursor(arguments, page.NextCursor)
	}
}

// withCursor returns the arguments that ask for what follows: the same as before, and the cursor.
func withCursor(arguments map[string]any, cursor any) map[string]any {
	next := map[string]any{}
	maps.Copy(next, arguments)
	next[cursorArgument] = cursor
	return next
}
