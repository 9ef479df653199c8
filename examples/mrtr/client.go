package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// client calls the tool over HTTP as one user.
type client struct {
	url         string
	bearerToken string
	http        *http.Client
	messages    io.Writer // gets every message, for the reader
	lastID      int
}

func newClient(url, bearerToken string, messages io.Writer) *client {
	// A transport of its own: no proxy, and no connection left from a server that has stopped.
	own := &http.Client{Transport: new(http.Transport), Timeout: 10 * time.Second}
	return &client{url: url, bearerToken: bearerToken, http: own, messages: messages}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// newParams returns the first request of a call.
func newParams(arguments string) toolParams {
	return toolParams{
		Meta: requestMeta{
			ProtocolVersion:    protocolVersion,
			ClientInfo:         clientInfo{"mrtr-example", "1.0.0"},
			ClientCapabilities: clientCapabilities{Elicitation: new(struct{})},
		},
		Name:      toolDeploy,
		Arguments: json.RawMessage(arguments),
	}
}

// approve goes through the first two rounds for a user who wants staging. It returns what the server asked, and the
// request of the third round, which confirms and is still to be sent.
func (c *client) approve(arguments string) (questions []string, confirmation toolParams, err error) {
	params := newParams(arguments)
	answers := []struct {
		key   string
		value any
	}{
		{askEnvironment, "staging"},
		{askConfirm, true},
	}
	for _, answer := range answers {
		result, err := c.call(params)
		if err != nil {
			return nil, toolParams{}, err
		}
		request, ok := result.InputRequests[answer.key]
		if result.ResultType != resultInputRequired || !ok || result.RequestState == nil {
			return nil, toolParams{}, fmt.Errorf("the server did not ask for %s", answer.key)
		}
		questions = append(questions, request.Params.Message)
		params.InputResponses = map[string]elicitResult{
			answer.key: {actionAccept, map[string]any{answer.key: answer.value}},
		}
		params.RequestState = result.RequestState
	}
	return questions, params, nil
}

// call sends one request. A refusal by the server is an *rpcError.
func (c *client) call(params toolParams) (*toolResult, error) {
	c.lastID++ // a retry is a request of its own, with an id of its own
	id := strconv.Itoa(c.lastID)
	rawParams, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(rpcRequest{rpcVersion, json.RawMessage(id), methodToolsCall, rawParams})
	if err != nil {
		return nil, err
	}
	body, err := c.post(request, params.Name)
	if err != nil {
		return nil, err
	}
	var response rpcResponse
	switch err := json.Unmarshal(body, &response); {
	case err != nil:
		return nil, fmt.Errorf("reading the response: %w", err)
	case response.Error != nil:
		return nil, response.Error
	case string(response.ID) != id || response.Result == nil:
		return nil, fmt.Errorf("no result for request %s", id)
	}
	return response.Result, nil
}

func (c *client) post(body []byte, tool string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.bearerToken)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("MCP-Protocol-Version", protocolVersion)
	request.Header.Set("Mcp-Method", methodToolsCall)
	request.Header.Set("Mcp-Name", tool)
	fmt.Fprintf(c.messages, "--> %s\n", body)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("the server answered %s", response.Status)
	}
	reply, err := io.ReadAll(response.Body)
	fmt.Fprintf(c.messages, "<-- %s\n", strings.TrimSpace(string(reply)))
	return reply, err
}
