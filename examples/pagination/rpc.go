package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The error codes of JSON-RPC 2.0 (section 5.1).
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternalError  = -32603
)

const rpcVersion = "2.0"

// rpcRequest is a JSON-RPC request. What stays raw here reaches its reader byte for byte as the client sent it.
type rpcRequest struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// rpcResponse is a JSON-RPC response. A nil ID is written as null, as for a request whose id could not be read.
type rpcResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is the error member of a response. All of it is told to the client.
type rpcError struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Data    *errorData `json:"data,omitempty"`
}

// errorData says, in ATD's terms, why a cursor was refused: contoken.ATDCursorExpired or contoken.ATDCursorInvalid.
type errorData struct {
	Code int `json:"code"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

func invalidParams(message string) *rpcError {
	return &rpcError{Code: codeInvalidParams, Message: "invalid params: " + message}
}

// parseRequest reads one request. With an error comes what it could read of the id. A batch is an invalid request
// here: it would let one request make the server do any amount of work.
func parseRequest(body []byte) (rpcRequest, *rpcError) {
	if !json.Valid(body) {
		return rpcRequest{}, &rpcError{Code: codeParseError, Message: "parse error"}
	}
	invalid := &rpcError{Code: codeInvalidRequest, Message: "invalid request"}
	var request rpcRequest
	if json.Unmarshal(body, &request) != nil || !isID(request.ID) {
		return rpcRequest{}, invalid
	}
	if request.Version != rpcVersion || request.Method == "" {
		return rpcRequest{ID: request.ID}, invalid
	}
	return request, nil
}

// isID reports whether raw, which is JSON or empty, can be an id: a string, a number, null, or none at all.
func isID(raw json.RawMessage) bool {
	return len(raw) == 0 || !bytes.ContainsAny(raw[:1], "{[tf")
}
