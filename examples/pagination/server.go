package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/contoken/contoken"
)

const (
	rpcPath         = "/rpc"
	maxRequestBytes = 64 << 10 // no call of these tools needs more
	stopTimeout     = 5 * time.Second
)

// user is somebody who may call the tools.
type user struct {
	name        string
	tokenDigest [sha256.Size]byte
}

func newUser(name, bearerToken string) user {
	return user{name, sha256.Sum256([]byte(bearerToken))}
}

// handler answers JSON-RPC requests over HTTP.
type handler struct {
	pager *pager
	users []user
	log   *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	subject, ok := h.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="files"`)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		err := &rpcError{Code: codeInvalidRequest, Message: "request too large"}
		h.send(w, http.StatusRequestEntityTooLarge, rpcResponse{Version: rpcVersion, Error: err})
		return
	}
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	response, ok := h.respond(r.Context(), subject, body)
	if !ok {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h.send(w, http.StatusOK, response)
}

// authenticate returns the user whose bearer token the request has. It compares digests, each in constant time and
// always all of them, so that the time it takes tells nothing of a token.
func (h *handler) authenticate(r *http.Request) (subject string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	digest := sha256.Sum256([]byte(token))
	for _, user := range h.users {
		if subtle.ConstantTimeCompare(digest[:], user.tokenDigest[:]) == 1 {
			subject, ok = user.name, true
		}
	}
	return subject, ok
}

func (h *handler) send(w http.ResponseWriter, status int, response rpcResponse) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(response); err != nil {
		h.log.Warn("response not sent", "reason", err)
	}
}

// respond returns the response to a request; ok is false for a notification, which gets none. To list has no effect
// but its response, so a notification does nothing.
func (h *handler) respond(ctx context.Context, subject string, body []byte) (response rpcResponse, ok bool) {
	request, rpcErr := parseRequest(body)
	response = rpcResponse{Version: rpcVersion, ID: request.ID, Error: rpcErr}
	if rpcErr != nil {
		return response, true
	}
	if request.ID == nil {
		return rpcResponse{}, false
	}
	if result, rpcErr := h.dispatch(ctx, subject, request); rpcErr != nil {
		response.Error = rpcErr
	} else {
		response.Result = result
	}
	return response, true
}

func (h *handler) dispatch(ctx context.Context, subject string, request rpcRequest) (*page, *rpcError) {
	if request.Method != "tools/call" {
		return nil, &rpcError{Code: codeMethodNotFound, Message: "method not found"}
	}
	var params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(request.Params, &params) != nil {
		return nil, invalidParams("want an object with name and arguments")
	}
	result, err := h.pager.answer(ctx, call{subject, params.Name, params.Arguments})
	if err != nil {
		return nil, h.publicError(params.Name, err)
	}
	return result, nil
}

// publicError returns what the client is told of an error, and logs what it is not. Why a cursor was refused is for
// the log alone: the client learns no more than whether to start over.
func (h *handler) publicError(tool string, err error) *rpcError {
	if told, ok := errors.AsType[*rpcError](err); ok {
		return told
	}
	if code := contoken.ATDCode(err); code != 0 {
		h.log.Warn("cursor refused", "tool", tool, "reason", err)
		return &rpcError{codeInvalidParams, contoken.PublicMessage, &errorData{code}}
	}
	h.log.Error("call failed", "tool", tool, "reason", err)
	return &rpcError{Code: codeInternalError, Message: "internal error"}
}

// server is a handler that listens.
type server struct {
	url    string
	http   *http.Server
	failed chan error // gets what ended it, unless that was stop
}

func startServer(addr string, h *handler) (*server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+rpcPath, h)
	s := &server{
		url: "http://" + listener.Addr().String() + rpcPath,
		http: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      time.Minute,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelError),
		},
		failed: make(chan error, 1),
	}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return s, nil
}

// stop ends the server once it has answered the requests that it is at, or after stopTimeout.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}
