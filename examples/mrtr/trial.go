package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contoken/contoken"
)

const approvedArguments = `{"service":"api","commit":"4f2c9e1"}`

var approved = deployment{"alice", "api", "4f2c9e1", "staging"}

// trial is a server that uses one protection, with its clients.
type trial struct {
	protection
	report     io.Writer
	server     *server
	ledger     *ledger
	clock      *clock
	log        *logText
	alice, bob *client
}

func newTrial(p protection, report, messages io.Writer) (*trial, error) {
	t := &trial{protection: p, report: report, ledger: newLedger(), clock: newClock(), log: new(logText)}
	states, err := p.codec(t.clock.now)
	if err != nil {
		return nil, err
	}
	aliceToken, bobToken := rand.Text(), rand.Text()
	logger := log.New(t.log, "", 0)
	t.server, err = startServer(&handler{
		tool: &deployTool{
			states:    states,
			ledger:    t.ledger,
			mayDeploy: map[string][]string{"alice": {"preview", "staging"}},
			log:       logger,
		},
		users: map[[sha256.Size]byte]string{
			sha256.Sum256([]byte(aliceToken)): "alice",
			sha256.Sum256([]byte(bobToken)):   "bob",
		},
		log: logger,
	})
	if err != nil {
		return nil, err
	}
	t.alice = newClient(t.server.url, aliceToken, messages)
	t.bob = newClient(t.server.url, bobToken, messages)
	return t, nil
}

func (t *trial) close() error {
	t.alice.close()
	t.bob.close()
	return t.server.stop()
}

// row writes one line of the report.
func (t *trial) row(name, format string, values ...any) {
	fmt.Fprintf(t.report, "  %-26s %s\n", name, fmt.Sprintf(format, values...))
}

// run reports everything, also after something did not turn out as it must, which the error tells.
func (t *trial) run() error {
	failures := []error{t.showRounds(), t.showMissingState()}
	for _, a := range t.attacks() {
		failures = append(failures, t.showAttack(a))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("%s:\n%w", t.title, err)
	}
	return nil
}

// showRounds has a call approved and carried out, and sends its last round again.
func (t *trial) showRounds() error {
	questions, confirmation, err := t.alice.approve(approvedArguments)
	if err != nil {
		return err
	}
	first, err := t.alice.call(confirmation)
	if err != nil {
		return err
	}
	again, err := t.alice.call(confirmation)
	if err != nil {
		return err
	}
	if !slices.Equal(t.ledger.deployments(), []deployment{approved}) || !slices.Equal(first.Content, again.Content) {
		return errors.New("the last round, sent twice, did not deploy once and answer the same")
	}
	t.row("round 1, the call", "asks: %s", questions[0])
	t.row("round 2, answer staging", "asks: %s", questions[1])
	t.row("round 3, confirmed", "%s", first.Content[0].Text)
	t.row("round 3 once more", "the same answer, and no second deployment")
	return t.showReading(*confirmation.RequestState)
}

// showReading shows what the client finds in a state.
func (t *trial) showReading(state string) error {
	const name, shown = "what the state tells", 38
	found := t.read(state)
	readable := strings.Contains(found, approved.environment)
	if readable == t.secret {
		return fmt.Errorf("that the client can read the state is %t", readable)
	}
	if readable {
		t.row(name, "%s...", found[:shown])
	} else {
		t.row(name, "nothing: %d bytes of nonce, ciphertext and tag", len(found))
	}
	return nil
}

// showMissingState drops the state and keeps the confirmation, which then confirms nothing.
func (t *trial) showMissingState() error {
	_, confirmation, err := t.alice.approve(approvedArguments)
	if err != nil {
		return err
	}
	confirmation.RequestState = nil
	before := len(t.ledger.deployments())
	result, err := t.alice.call(confirmation)
	if err != nil {
		return err
	}
	question, asked := result.InputRequests[askEnvironment]
	if !asked || len(t.ledger.deployments()) > before {
		return errors.New("without its state, a confirmation does not lead back to the first question")
	}
	t.row("round 3, no state", "starts over: %s", question.Params.Message)
	return nil
}

// showAttack mounts an attack on a new approval, and judges it by the ledger and not by what the server says.
func (t *trial) showAttack(a attack) error {
	_, confirmation, err := t.alice.approve(approvedArguments)
	if err != nil {
		return err
	}
	try := attempt{t.alice, confirmation}
	a.mount(t, &try)
	before := len(t.ledger.deployments())
	t.log.take()
	_, err = try.sender.call(try.params)
	done := t.ledger.deployments()[before:]
	t.row(a.name, "%s", outcome(done, err, t.log.take()))
	switch {
	case t.secure && (len(done) > 0 || !isRefusal(err)):
		return fmt.Errorf("%s: not refused as it must be", a.name)
	case !t.secure && !slices.Equal(done, []deployment{a.gains}):
		return fmt.Errorf("%s: without protection it must succeed, or this example shows nothing", a.name)
	default:
		return nil
	}
}

// outcome says what an attack got.
func outcome(done []deployment, err error, logged string) string {
	switch {
	case len(done) > 0:
		return done[0].String()
	case err != nil:
		return fmt.Sprintf("%v | %s", err, logged)
	default:
		return "nothing deployed"
	}
}

// isRefusal reports whether err is what a client is told of a state that was refused, to the letter.
func isRefusal(err error) bool {
	refusal, ok := errors.AsType[*rpcError](err)
	return ok && refusal.Code == codeInvalidParams && refusal.Message == contoken.PublicMessage &&
		maps.Equal(refusal.Data, map[string]any{"reason": reasonInvalidState})
}

// clock stands still until it is advanced, so that an hour passes without anybody waiting for it.
type clock struct{ unix atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.unix.Store(time.Date(2026, time.July, 28, 12, 0, 0, 0, time.UTC).Unix())
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.unix.Load(), 0) }

func (c *clock) advance(d time.Duration) { c.unix.Add(int64(d / time.Second)) }

// logText keeps what a server logs. It is safe for concurrent use.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// take returns what was logged since the last take.
func (l *logText) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(l.text.String())
	l.text.Reset()
	return text
}
