package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/contoken/contoken"
)

// The tools of an instance. None keeps anything between two calls: what there is to remember is in a token.
const (
	listTool    = "orders.list" // pages, with cursors
	refundTool  = "refund"      // asks twice before it acts, with request state
	voucherTool = "voucher"     // issues and redeems, with one-time tokens
)

const (
	orderCount = 60 // numbered from 1
	pageSize   = 5
)

// call is a request for a tool. The tokens stand apart from the arguments, which are the same in all calls that
// belong together.
type call struct {
	Arguments    json.RawMessage `json:"arguments"`
	Cursor       string          `json:"cursor,omitempty"`
	RequestState string          `json:"requestState,omitempty"`
	Answer       string          `json:"answer,omitempty"` // to the question that came with the state
	Voucher      string          `json:"voucher,omitempty"`
}

// reply is what a tool answers.
type reply struct {
	Instance     string `json:"instance"` // that served the call
	Orders       []int  `json:"orders,omitempty"`
	NextCursor   string `json:"nextCursor,omitempty"`
	Question     string `json:"question,omitempty"`
	RequestState string `json:"requestState,omitempty"`
	Voucher      string `json:"voucher,omitempty"`
	Result       string `json:"result,omitempty"`
	Error        string `json:"error,omitempty"`
}

// errBadCall is a call that no client of ours makes.
var errBadCall = errors.New("bad call")

// tools answer calls. Everything that concerns contoken is here, in keyfile.go and in redeem.go.
type tools struct {
	cursors  *contoken.CursorIssuer
	states   *contoken.RequestStateCodec
	vouchers *contoken.OneTimeCodec
}

// newTools returns tools that take the tokens of every instance with the same keys and store. With perProcess the
// cursors are bound to this process by a random nonce, as by servers that know of one process only.
func newTools(ring *contoken.KeyRing, store contoken.RedeemStore, ttl time.Duration, perProcess bool) (*tools, error) {
	cursors, err := contoken.NewCursorIssuer(ring, &contoken.CursorOptions{
		TTL: ttl, Audience: "fleet", RequireSubject: true, PerProcess: perProcess,
	})
	if err != nil {
		return nil, err
	}
	stateOptions := &contoken.RequestStateOptions{
		TTL: ttl, Audience: "fleet", RequireSubject: true, Mode: contoken.ModeEncrypted,
	}
	states, err := contoken.NewRequestStateCodec(ring, stateOptions)
	if err != nil {
		return nil, err
	}
	vouchers, err := contoken.NewOneTimeCodec(ring, store, stateOptions)
	if err != nil {
		return nil, err
	}
	return &tools{cursors, states, vouchers}, nil
}

// scopeOf is what all tokens of a call are bound to.
func scopeOf(tool, subject string, arguments json.RawMessage) (contoken.Scope, error) {
	args, err := contoken.FingerprintArgs(arguments)
	return contoken.Scope{Tool: tool, Subject: subject, Args: args}, err
}

func (t *tools) answer(ctx context.Context, tool, subject string, asked call) (reply, error) {
	scope, err := scopeOf(tool, subject, asked.Arguments)
	if err != nil {
		return reply{}, err
	}
	switch tool {
	case listTool:
		return t.list(scope, asked)
	case refundTool:
		return t.refund(scope, asked)
	case voucherTool:
		return t.voucher(ctx, scope, asked)
	default:
		return reply{}, errBadCall
	}
}

type listArguments struct {
	First int `json:"first"` // the order to start with
}

type listPosition struct {
	Next int `cbor:"1,keyasint"` // the order that the page starts with
}

// list returns a page of orders, and the cursor of the next one if there is more.
func (t *tools) list(scope contoken.Scope, asked call) (reply, error) {
	var arguments listArguments
	if err := json.Unmarshal(asked.Arguments, &arguments); err != nil || arguments.First < 1 {
		return reply{}, errBadCall
	}
	page, position := uint32(1), listPosition{arguments.First}
	if asked.Cursor != "" {
		payload, err := t.cursors.Verify(scope, asked.Cursor)
		if err != nil {
			return reply{}, err
		}
		if err := payload.DecodeOpaqueState(&position); err != nil {
			return reply{}, err
		}
		page = payload.PageIndex
	}

	var answer reply
	for len(answer.Orders) < pageSize && position.Next <= orderCount {
		answer.Orders = append(answer.Orders, position.Next)
		position.Next++
	}
	if position.Next > orderCount {
		return answer, nil
	}
	opaque, err := contoken.EncodeOpaqueState(position)
	if err != nil {
		return reply{}, err
	}
	answer.NextCursor, err = t.cursors.Issue(scope, page+1, opaque)
	return answer, err
}

type refundArguments struct {
	Order  int `json:"order"`
	Amount int `json:"amount"`
}

// refundState is where a refund stands when a question is out.
type refundState struct {
	refundArguments
	Approved bool `json:"approved"` // the first question was answered
}

// refund asks whether to, then why, and then does it.
func (t *tools) refund(scope contoken.Scope, asked call) (reply, error) {
	var state refundState
	if asked.RequestState == "" {
		if err := json.Unmarshal(asked.Arguments, &state.refundArguments); err != nil {
			return reply{}, errBadCall
		}
		return t.ask(scope, state, fmt.Sprintf("refund %d of order %d?", state.Amount, state.Order))
	}
	if err := t.states.DecodeJSON(scope, asked.RequestState, &state); err != nil {
		return reply{}, err
	}
	switch {
	case asked.Answer == "":
		return reply{}, errBadCall
	case state.Approved:
		return reply{Result: refundResult(state.Order, state.Amount, asked.Answer)}, nil
	case asked.Answer != "yes":
		return reply{Result: "not refunded"}, nil
	}
	state.Approved = true
	return t.ask(scope, state, "why?")
}

func (t *tools) ask(scope contoken.Scope, state refundState, question string) (reply, error) {
	wire, err := t.states.EncodeJSON(scope, state)
	return reply{Question: question, RequestState: wire}, err
}

func refundResult(order, amount int, reason string) string {
	return fmt.Sprintf("refunded %d of order %d: %s", amount, order, reason)
}

const voucherValue = "one coffee"

// voucher issues a voucher or, if the call brings one, redeems it.
func (t *tools) voucher(ctx context.Context, scope contoken.Scope, asked call) (reply, error) {
	if asked.Voucher == "" {
		wire, err := t.vouchers.Encode(scope, voucherValue)
		return reply{Voucher: wire}, err
	}
	value, err := t.vouchers.Redeem(ctx, scope, asked.Voucher)
	return reply{Result: value}, err
}
