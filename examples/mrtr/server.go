package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxRequestBytes leaves room for a state of contoken.DefaultMaxRequestStateBytes and as much again.
const maxRequestBytes = 128 << 10

// handler serves the tool deploy as JSON-RPC over HTTP.
type handler struct {
	tool  *deployTool
	users map[[sha256.Size]byte]string // by the digest of their bearer token, so that a look-up tells nothing of one
	log   *log.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, ok := h.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		err := &rpcError{Code: codeInvalidRequest, Message: "request too large"}
		h.send(w, http.StatusRequestEntityTooLarge, &rpcResponse{Version: rpcVersion, Error: err})
		return
	}
	if err != nil {
		return // the client is gone
	}
	response := h.respond(user, body)
	if response == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h.send(w, httpStatus(response.Error), response)
}

func (h *handler) send(w http.ResponseWriter, status int, response *rpcResponse) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(response); err != nil {
		h.log.Printf("response not sent: %v", err)
	}
}

func (h *handler) authenticate(r *http.Request) (user string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	user, ok = h.users[sha256.Sum256([]byte(token))]
	return user, ok
}

// httpStatus returns the status that MCP has for a JSON-RPC error.
func httpStatus(err *rpcError) int {
	switch {
	case err == nil:
		return http.StatusOK
	case err.Code == codeMethodNotFound:
		return http.StatusNotFound
	case err.Code == codeInternalError:
		return http.StatusInternalServerError
	default:
		return http.StatusBadRequest
	}
}

// respond returns the response to a request, and nil for a notification, which here does nothing.
func (h *handler) respond(user string, body []byte) *rpcResponse {
	request, rpcErr := parseRequest(body)
	response := &rpcResponse{Version: rpcVersion, ID: request.ID, Error: rpcErr}
	if rpcErr != nil {
		return response
	}
	if request.ID == nil {
		return nil
	}
	result, err := h.dispatch(user, request)
	if err != nil {
		response.Error = h.publicError(err)
		return response
	}
	response.Result = result
	return response
}

// parseRequest reads one request; MCP has no batches. With an error comes the id, if it could be read.
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

// isID reports whether raw, which is JSON or empty, can be an id: a string or a number, and in MCP not null.
func isID(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.ContainsAny(raw[:1], `"-0123456789`)
}

func (h *handler) dispatch(user string, request rpcRequest) (*toolResult, error) {
	if request.Method != methodToolsCall {
		return nil, &rpcError{Code: codeMethodNotFound, Message: "method not found"}
	}
	var params toolParams
	if json.Unmarshal(request.Params, &params) != nil {
		return nil, &rpcError{Code: codeInvalidParams, Message: "invalid params"}
	}
	if err := checkMeta(&params.Meta); err != nil {
		return nil, err
	}
	if params.Name != toolDeploy {
		return nil, &rpcError{Code: codeInvalidParams, Message: "unknown tool"}
	}
	return h.tool.call(user, &params)
}

// checkMeta refuses a client that does not speak this version of the protocol, or could not answer a question.
func checkMeta(meta *requestMeta) error {
	if meta.ProtocolVersion != protocolVersion {
		return &rpcError{codeUnsupportedVersion, "unsupported protocol version", map[string]any{
			"supported": []string{protocolVersion},
			"requested": meta.ProtocolVersion,
		}}
	}
	if meta.ClientCapabilities.Elicitation == nil {
		return &rpcError{codeMissingCapability, "missing required client capability", map[string]any{
			"requiredCapabilities": clientCapabilities{Elicitation: new(struct{})},
		}}
	}
	return nil
}

// publicError returns what the client is told of err.
func (h *handler) publicError(err error) *rpcError {
	if told, ok := errors.AsType[*rpcError](err); ok {
		return told
	}
	h.log.Printf("call failed: %v", err)
	return &rpcError{Code: codeInternalError, Message: "internal error"}
}

// server is a handler that listens on a port of the loopback interface.
type server struct {
	url  string
	http *http.Server
}

func startServer(h *handler) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /mcp", h)
	s := &server{
		url: "http://" + listener.Addr().String() + "/mcp",
		http: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      10 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          h.log,
		},
	}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			h.log.Printf("server ended: %v", err) // its clients find out by themselves
		}
	}()
	return s, nil
}

func (s *server) stop() error { return s.http.Close() }
