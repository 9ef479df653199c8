package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/contoken/contoken"
)

// handlerTransport has a handler answer without a network.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// testCaller returns a caller of the handler, whose accomplice is the user "eve".
func testCaller(t *testing.T, handler http.Handler) *caller {
	t.Helper()
	return &caller{
		user:        "alice",
		bearerToken: "alice's",
		accomplice:  "eve's",
		http:        &http.Client{Transport: handlerTransport{handler}},
		tally:       new(tally),
		attacker:    testTools(t, contoken.EphemeralKeyRing(), contoken.NewMemoryRedeemStore(1)),
	}
}

func testTools(t *testing.T, ring *contoken.KeyRing, store contoken.RedeemStore) *tools {
	t.Helper()
	tools, err := newTools(ring, store, time.Minute, false)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func testInstance(t *testing.T, store contoken.RedeemStore) http.Handler {
	t.Helper()
	server, err := newInstance(instanceConfig{
		Name: "a", TTL: time.Minute, Users: map[string]string{"alice's": "alice", "eve's": "eve"},
	}, contoken.EphemeralKeyRing(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	server.tools = testTools(t, contoken.EphemeralKeyRing(), store)
	return server.handler()
}

// playFlows has the caller go through all flows with each forgery.
func playFlows(t *testing.T, c *caller) {
	t.Helper()
	for c.rounds = range 4 {
		for _, flow := range []func(context.Context) error{c.listOrders, c.refund, c.raceVoucher} {
			if err := flow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCallerFindsNothingWrongWithAnInstance(t *testing.T) {
	c := testCaller(t, testInstance(t, contoken.NewMemoryRedeemStore(100)))
	playFlows(t, c)
	if err := c.tally.check(); err != nil {
		t.Error(err)
	}
	for k, name := range kindNames {
		if got := c.tally.forged[k].Load(); got != 4 {
			t.Errorf("%s forged %d times, want 4", name, got)
		}
	}
	if c.tally.refused.total() > 0 || c.tally.retries.Load() > 0 {
		t.Error("genuine tokens refused, or calls retried")
	}
}

// gullible is a server with state in plain JSON: it takes every token for genuine and for new.
type gullible struct{}

func (gullible) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked call
	var position struct {
		listArguments
		refundArguments
	}
	body, _ := io.ReadAll(r.Body)
	json.Unmarshal(body, &asked)
	json.Unmarshal(asked.Arguments, &position)
	answer := reply{Instance: "a"}
	switch {
	case strings.HasSuffix(r.URL.Path, voucherTool):
		answer.Voucher, answer.Result = "voucher", voucherValue
	case strings.HasSuffix(r.URL.Path, refundTool):
		answer.RequestState, answer.Result = "state", refundResult(position.Order, position.Amount, asked.Answer)
	case asked.Cursor == "":
		answer.Orders, answer.NextCursor = ordersFrom(position.First, pageSize), "cursor"
	default:
		answer.Orders = ordersFrom(position.First+pageSize, orderCount)
	}
	writeJSON(w, http.StatusOK, answer)
}

func ordersFrom(first, number int) (orders []int) {
	for order := first; order <= orderCount && len(orders) < number; order++ {
		orders = append(orders, order)
	}
	return orders
}

func TestCallerNoticesAServerThatChecksNothing(t *testing.T) {
	c := testCaller(t, gullible{})
	playFlows(t, c)
	for k, name := range kindNames {
		if got := c.tally.accepted[k].Load(); got != 4 {
			t.Errorf("%s: %d of 4 accepted forgeries noticed", name, got)
		}
	}
	if got := c.tally.redeemedTwice.Load(); got != 4 {
		t.Errorf("%d of 4 vouchers redeemed twice noticed", got)
	}
	if err := c.tally.check(); err == nil || !strings.Contains(err.Error(), "redeemed twice") {
		t.Errorf("verdict %v", err)
	}
}

func TestCallerCountsGenuineTokensThatAreRefused(t *testing.T) {
	genuine := testInstance(t, contoken.NewMemoryRedeemStore(100))
	c := testCaller(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if hasToken(body) {
			writeJSON(w, http.StatusBadRequest, reply{Error: contoken.PublicMessage})
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		genuine.ServeHTTP(w, r)
	}))
	playFlows(t, c)
	for k, name := range kindNames {
		if got := c.tally.refused[k].Load(); got != 4 {
			t.Errorf("%s: %d of 4 refusals counted", name, got)
		}
	}
}

func hasToken(body []byte) bool {
	var asked call
	return json.Unmarshal(body, &asked) == nil && asked.Cursor+asked.RequestState+asked.Voucher != ""
}

// A server that goes away is met again until it is back, and what it may have done meanwhile is not held against it.
func TestCallerRetriesUntilTheInstanceIsBack(t *testing.T) {
	genuine := testInstance(t, contoken.NewMemoryRedeemStore(100))
	asked := make(chan struct{}, 1) // full once the first request has come
	c := testCaller(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
			w.WriteHeader(http.StatusBadGateway)
		default:
			genuine.ServeHTTP(w, r)
		}
	}))
	if err := c.listOrders(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.tally.retries.Load(); got != 1 {
		t.Errorf("%d retries, want 1", got)
	}
}

func TestVoucherThatNobodyRedeemedIsExcusedOnlyByAnInstanceThatWentAway(t *testing.T) {
	lost, refused := outcome{refused: true, retried: true}, outcome{refused: true}
	won := outcome{}
	for _, test := range []struct {
		name                 string
		outcomes             []outcome
		twice, lost, refused int64
	}{
		{"one wins", []outcome{refused, won, refused}, 0, 0, 0},
		{"one wins after a retry", []outcome{lost, won, refused}, 0, 0, 0},
		{"two win", []outcome{won, won, refused}, 1, 0, 0},
		{"none wins", []outcome{refused, refused, refused}, 0, 0, 1},
		{"none wins, an answer was lost", []outcome{refused, lost, refused}, 0, 1, 0},
	} {
		c := testCaller(t, gullible{})
		c.countRace(test.outcomes, "a")
		twice, lost := c.tally.redeemedTwice.Load(), c.tally.lostWithAnInstance.Load()
		if refused := c.tally.refused[oneTime].Load(); twice != test.twice || lost != test.lost || refused != test.refused {
			t.Errorf("%s: %d redeemed twice, %d lost, %d refused", test.name, twice, lost, refused)
		}
	}
}
