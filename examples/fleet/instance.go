package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/contoken/contoken"
)

const (
	keysFileVariable = "CONTOKEN_KEYS_FILE"
	pollKeysEvery    = 200 * time.Millisecond // a real service has time: 30 seconds, say
	stopTimeout      = 5 * time.Second
)

// instanceConfig is what an instance is told on its standard input, where no other user of the machine sees it.
type instanceConfig struct {
	Name         string
	Socket       string // to listen on
	RedeemSocket string // of the store of one-time tokens
	TTL          time.Duration
	PerProcess   bool
	Users        map[string]string // by bearer token
}

// instanceStatus is what an instance tells about its key file.
type instanceStatus struct {
	Reloads  int64 `json:"reloads"`  // that found usable keys
	Refusals int64 `json:"refusals"` // reloads that did not, so that the keys stayed
}

// instance is a server of the fleet, in a process of its own.
type instance struct {
	name              string
	tools             *tools
	users             map[[sha256.Size]byte]string // by the digest of the bearer token, so that timing tells nothing
	log               *slog.Logger
	reloads, refusals atomic.Int64
}

// runInstance serves until ctx ends, or its standard input does: no instance outlives the process that started it.
func runInstance(ctx context.Context, stdin io.Reader, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var config instanceConfig
	if err := json.NewDecoder(stdin).Decode(&config); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	go func() {
		io.Copy(io.Discard, stdin)
		cancel()
	}()

	keysFile := os.Getenv(keysFileVariable)
	ring := new(contoken.KeyRing)
	if err := ring.ReloadFile(keysFile); err != nil {
		return fmt.Errorf("%s: %w", keysFileVariable, err)
	}
	server, err := newInstance(config, ring, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	watchKeyFile(ctx, ring, keysFile, pollKeysEvery, server.countReload)
	return server.serve(ctx, config.Socket)
}

func newInstance(config instanceConfig, ring *contoken.KeyRing, log *slog.Logger) (*instance, error) {
	store := remoteStore{socketClient(config.RedeemSocket, 64)}
	tools, err := newTools(ring, store, config.TTL, config.PerProcess)
	if err != nil {
		return nil, err
	}
	users := make(map[[sha256.Size]byte]string)
	for bearerToken, user := range config.Users {
		users[sha256.Sum256([]byte(bearerToken))] = user
	}
	return &instance{name: config.Name, tools: tools, users: users, log: log.With("instance", config.Name)}, nil
}

func (s *instance) countReload(err error) {
	if err == nil {
		s.reloads.Add(1)
		return
	}
	s.refusals.Add(1)
	s.log.Error("key file refused, the keys stay as they are", "error", err)
}

func (s *instance) serve(ctx context.Context, socket string) error {
	os.Remove(socket) // a process that was killed leaves it behind; to listen fails if it is still there
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := newHTTPServer(s.handler())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = server.Shutdown(drain)
	<-served // the socket is gone
	return err
}

func (s *instance) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call/{tool}", s.serveCall)
	mux.HandleFunc("GET /status", s.serveStatus)
	return mux
}

func (s *instance) serveStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, instanceStatus{s.reloads.Load(), s.refusals.Load()})
}

func (s *instance) serveCall(w http.ResponseWriter, r *http.Request) {
	subject, ok := s.authenticate(r)
	if !ok {
		writeJSON(w, http.StatusUnauthorized, reply{Instance: s.name, Error: "unauthorized"})
		return
	}
	var asked call
	if readJSON(w, r, &asked) != nil {
		writeJSON(w, http.StatusBadRequest, reply{Instance: s.name, Error: errBadCall.Error()})
		return
	}
	tool := r.PathValue("tool")
	answer, err := s.tools.answer(r.Context(), tool, subject, asked)
	if err != nil {
		s.refuse(w, tool, err)
		return
	}
	answer.Instance = s.name
	writeJSON(w, http.StatusOK, answer)
}

func (s *instance) authenticate(r *http.Request) (subject string, ok bool) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	subject, ok = s.users[sha256.Sum256([]byte(token))]
	return subject, found && ok
}

// refuse tells the client no more than that its token is no good, and the log why.
func (s *instance) refuse(w http.ResponseWriter, tool string, err error) {
	status, message := http.StatusServiceUnavailable, "try again"
	switch {
	case errors.Is(err, contoken.ErrExpired), errors.Is(err, contoken.ErrInvalid):
		status, message = http.StatusBadRequest, contoken.PublicMessage
	case errors.Is(err, contoken.ErrInput), errors.Is(err, errBadCall):
		status, message = http.StatusBadRequest, errBadCall.Error()
	}
	s.log.Warn("call refused", "tool", tool, "error", err)
	writeJSON(w, status, reply{Instance: s.name, Error: message})
}
