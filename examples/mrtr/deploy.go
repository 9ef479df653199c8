package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"

	"github.com/contoken/contoken"
)

// stateCodec turns the state of a tool into requestState and back. *contoken.RequestStateCodec is one.
type stateCodec interface {
	EncodeJSON(scope contoken.Scope, v any) (string, error)
	DecodeJSON(scope contoken.Scope, wire string, v any) error
}

// plainJSON is the codec of a server that takes its clients' word for its own state. Never do that.
type plainJSON struct{}

func (plainJSON) EncodeJSON(_ contoken.Scope, v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

func (plainJSON) DecodeJSON(_ contoken.Scope, wire string, v any) error {
	return json.Unmarshal([]byte(wire), v)
}

const toolDeploy = "deploy"

// reasonInvalidState tells a client, in the data of the error, that it is the state that was refused.
const reasonInvalidState = "invalid_request_state"

// The keys of the two questions that the tool asks. The form of each has one field, of the same name.
const (
	askEnvironment = "environment"
	askConfirm     = "confirm"
)

// deployTool deploys a commit of a service, once its user has chosen an environment and confirmed.
type deployTool struct {
	states    stateCodec
	ledger    *ledger
	mayDeploy map[string][]string // user to environments
	log       *log.Logger
}

type deployArgs struct {
	Service string `json:"service"`
	Commit  string `json:"commit"`
}

// deployState is what the tool has to remember from round to round. The client carries it, so that any instance of the
// server can take the next round.
type deployState struct {
	// Environment is empty until it is chosen. From then on it says that the user has the right to deploy there.
	Environment string `json:"environment"`
	// Operation is the random name of one deployment. The state can be redeemed again until it expires, but the ledger
	// takes an operation once.
	Operation string `json:"operation"`
}

// deployCall is one round of a call.
type deployCall struct {
	user      string
	args      deployArgs
	responses map[string]elicitResult
	scope     contoken.Scope
}

func (c *deployCall) release() string { return c.args.Service + " " + c.args.Commit }

// newDeployCall reads a request. It makes the scope, in this one place, of the authenticated user and the arguments,
// which every round repeats, and of nothing in the state.
func newDeployCall(user string, params *toolParams) (*deployCall, error) {
	invalid := &rpcError{Code: codeInvalidParams, Message: "invalid arguments: want a service and a commit"}
	fingerprint, err := contoken.FingerprintArgs(params.Arguments)
	if err != nil {
		return nil, invalid
	}
	c := &deployCall{
		user:      user,
		responses: params.InputResponses,
		scope:     contoken.Scope{Tool: methodToolsCall + " " + toolDeploy, Subject: user, Args: fingerprint},
	}
	if json.Unmarshal(params.Arguments, &c.args) != nil || c.args.Service == "" || c.args.Commit == "" {
		return nil, invalid
	}
	return c, nil
}

// call answers one round. Without a state it is the first, whatever answers come along.
func (t *deployTool) call(user string, params *toolParams) (*toolResult, error) {
	c, err := newDeployCall(user, params)
	if err != nil {
		return nil, err
	}
	if params.RequestState == nil {
		return t.askForEnvironment(c, deployState{Operation: rand.Text()})
	}
	state, err := t.resume(c, *params.RequestState)
	if err != nil {
		return nil, err
	}
	if state.Environment == "" {
		return t.takeEnvironment(c, state)
	}
	return t.takeConfirmation(c, state)
}

// resume returns the state that the client brought back. Why one is refused is for the log and not for the client.
func (t *deployTool) resume(c *deployCall, wire string) (deployState, error) {
	var state deployState
	err := t.states.DecodeJSON(c.scope, wire, &state)
	if errors.Is(err, contoken.ErrInput) { // a scope or a clock that cannot be used is our own fault
		return deployState{}, err
	}
	if err != nil {
		t.log.Printf("%s: %v", c.user, err)
		data := map[string]any{"reason": reasonInvalidState}
		return deployState{}, &rpcError{codeInvalidParams, contoken.PublicMessage, data}
	}
	return state, nil
}

// ask sends the client back with a question and the state.
func (t *deployTool) ask(c *deployCall, state deployState, key string, question inputRequest) (*toolResult, error) {
	wire, err := t.states.EncodeJSON(c.scope, state)
	if err != nil {
		return nil, err
	}
	return &toolResult{
		ResultType:    resultInputRequired,
		InputRequests: map[string]inputRequest{key: question},
		RequestState:  &wire,
	}, nil
}

func (t *deployTool) askForEnvironment(c *deployCall, state deployState) (*toolResult, error) {
	environments := t.mayDeploy[c.user]
	if len(environments) == 0 {
		return failedResult(c.user + " may not deploy"), nil
	}
	message := fmt.Sprintf("Deploy %s: to which environment?", c.release())
	schema := map[string]any{"type": "string", "enum": environments}
	return t.ask(c, state, askEnvironment, elicitation(message, askEnvironment, schema))
}

func (t *deployTool) takeEnvironment(c *deployCall, state deployState) (*toolResult, error) {
	response, ok := c.responses[askEnvironment]
	if !ok {
		return t.askForEnvironment(c, state)
	}
	if response.Action != actionAccept {
		return textResult("nothing deployed: no environment chosen"), nil
	}
	environment, _ := response.Content[askEnvironment].(string)
	if !slices.Contains(t.mayDeploy[c.user], environment) {
		return failedResult(c.user + " may not deploy there"), nil
	}
	state.Environment = environment
	return t.askForConfirmation(c, state)
}

func (t *deployTool) askForConfirmation(c *deployCall, state deployState) (*toolResult, error) {
	message := fmt.Sprintf("Deploy %s to %s?", c.release(), state.Environment)
	schema := map[string]any{"type": "boolean"}
	return t.ask(c, state, askConfirm, elicitation(message, askConfirm, schema))
}

// takeConfirmation deploys. The right to do so was checked in an earlier round; here the state alone vouches for it.
func (t *deployTool) takeConfirmation(c *deployCall, state deployState) (*toolResult, error) {
	response, ok := c.responses[askConfirm]
	if !ok {
		return t.askForConfirmation(c, state)
	}
	if response.Action != actionAccept || response.Content[askConfirm] != true {
		return textResult("nothing deployed: not confirmed"), nil
	}
	done := t.ledger.record(state.Operation, deployment{c.user, c.args.Service, c.args.Commit, state.Environment})
	return textResult(done.String()), nil
}

// deployment is what was deployed, where to and by whom.
type deployment struct{ user, service, commit, environment string }

func (d deployment) String() string {
	return fmt.Sprintf("%s deployed %s %s to %s", d.user, d.service, d.commit, d.environment)
}

// ledger is the list of all deployments. It is safe for concurrent use.
type ledger struct {
	mu         sync.Mutex
	all        []deployment
	operations map[string]int // index in all
}

func newLedger() *ledger { return &ledger{operations: make(map[string]int)} }

// record adds d unless its operation stands there already, and returns what then stands there.
func (l *ledger) record(operation string, d deployment) deployment {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, ok := l.operations[operation]
	if !ok {
		index = len(l.all)
		l.operations[operation] = index
		l.all = append(l.all, d)
	}
	return l.all[index]
}

// deployments returns all of them, the oldest first.
func (l *ledger) deployments() []deployment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
