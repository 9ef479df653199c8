package main

import (
	"encoding/json"
	"fmt"
)

// Error codes of JSON-RPC 2.0 (section 5.1) and, from -32020 on, of MCP.
const (
	codeParseError         = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternalError      = -32603
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

const (
	rpcVersion      = "2.0"
	protocolVersion = "2026-07-28"
	methodToolsCall = "tools/call"
)

// rpcRequest is a JSON-RPC request, or a notification if it has no id.
type rpcRequest struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// rpcResponse is a JSON-RPC response. A nil ID is written as null, for a request whose id could not be read.
type rpcResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  *toolResult     `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is the error member of a response. All of it is told to the client.
type rpcError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// toolParams are the params of tools/call. A retry repeats name and arguments, and adds what the client was asked for
// and the state that came with the question.
type toolParams struct {
	Meta           requestMeta             `json:"_meta"`
	Name           string                  `json:"name"`
	Arguments      json.RawMessage         `json:"arguments,omitempty"` // raw, as it is what a state is bound to
	InputResponses map[string]elicitResult `json:"inputResponses,omitempty"`
	RequestState   *string                 `json:"requestState,omitempty"` // nil is no state; "" is a bad one
}

// requestMeta is what every request of the protocol says of its client.
type requestMeta struct {
	ProtocolVersion    string             `json:"io.modelcontextprotocol/protocolVersion"`
	ClientInfo         clientInfo         `json:"io.modelcontextprotocol/clientInfo"`
	ClientCapabilities clientCapabilities `json:"io.modelcontextprotocol/clientCapabilities"`
}

type clientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type clientCapabilities struct {
	Elicitation *struct{} `json:"elicitation,omitempty"`
}

// The values of toolResult.ResultType.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
)

// toolResult is the result of tools/call: what the tool has to say or, as InputRequiredResult, what it wants to know.
type toolResult struct {
	ResultType    string                  `json:"resultType"`
	Content       []textContent           `json:"content,omitempty"`
	IsError       bool                    `json:"isError,omitempty"`
	InputRequests map[string]inputRequest `json:"inputRequests,omitempty"`
	RequestState  *string                 `json:"requestState,omitempty"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textResult(text string) *toolResult {
	return &toolResult{ResultType: resultComplete, Content: []textContent{{"text", text}}}
}

// failedResult tells of a failure of the tool, rather than of the protocol.
func failedResult(text string) *toolResult {
	result := textResult(text)
	result.IsError = true
	return result
}

// inputRequest is a question to the user: a form to be filled in.
type inputRequest struct {
	Method string       `json:"method"`
	Params elicitParams `json:"params"`
}

type elicitParams struct {
	Mode            string         `json:"mode"`
	Message         string         `json:"message"`
	RequestedSchema map[string]any `json:"requestedSchema"`
}

// elicitation returns a form with one field, which is required.
func elicitation(message, field string, schema map[string]any) inputRequest {
	return inputRequest{"elicitation/create", elicitParams{"form", message, map[string]any{
		"type":       "object",
		"properties": map[string]any{field: schema},
		"required":   []string{field},
	}}}
}

const actionAccept = "accept" // the others are "decline" and "cancel"

// elicitResult is the answer to an inputRequest.
type elicitResult struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"` // the fields of the form, if it was accepted
}
