package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/contoken/contoken"
)

// caller is a client of the fleet that does one thing after the other, as one user. It checks all that it is answered.
type caller struct {
	user, bearerToken string
	accomplice        string // the bearer token of another user
	http              *http.Client
	tally             *tally
	attacker          *tools          // with a key of its own
	hesitation        time.Duration   // before it answers the first question of a refund
	stop              <-chan struct{} // closed when it is to finish what it is at
	rounds            int
}

// outcome is what came of a call.
type outcome struct {
	reply
	refused bool // the token
	retried bool // since an instance went away, which may have done its work before
}

const retryAfter = 10 * time.Millisecond

// call calls a tool, again and again as long as the instance that it meets goes away.
func (c *caller) call(ctx context.Context, bearerToken, tool string, asked call) (outcome, error) {
	began := time.Now()
	for retried := false; ; retried = true {
		c.tally.requests.Add(1)
		status, body, err := postJSON(ctx, c.http, "http://fleet/call/"+tool, bearerToken, asked)
		switch {
		case err == nil && (status == http.StatusOK || status == http.StatusBadRequest):
			c.tally.addLatency(time.Since(began))
			return readOutcome(status, body, retried)
		case err == nil && status < http.StatusBadGateway:
			return outcome{}, fmt.Errorf("%s: status %d", tool, status)
		}
		c.tally.retries.Add(1)
		if err := pause(ctx, retryAfter); err != nil {
			return outcome{}, err
		}
	}
}

func readOutcome(status int, body []byte, retried bool) (outcome, error) {
	out := outcome{retried: retried, refused: status == http.StatusBadRequest}
	if err := json.Unmarshal(body, &out.reply); err != nil {
		return outcome{}, err
	}
	if out.refused && out.Error != contoken.PublicMessage {
		return outcome{}, fmt.Errorf("refused for another reason than the token: %q", out.Error)
	}
	return out, nil
}

// present makes a call with a genuine token, and counts what becomes of it.
func (c *caller) present(ctx context.Context, k kind, tool string, asked call, mintedBy string) (outcome, error) {
	out, err := c.call(ctx, c.bearerToken, tool, asked)
	switch {
	case err != nil:
	case out.refused:
		c.tally.refused[k].Add(1)
	default:
		c.countVerified(k, out, mintedBy)
	}
	return out, err
}

func (c *caller) countVerified(k kind, out outcome, mintedBy string) {
	c.tally.verified[k].Add(1)
	if out.Instance != mintedBy {
		c.tally.elsewhere.Add(1)
	}
}

// run goes on until c.stop is closed.
func (c *caller) run(ctx context.Context) error {
	for {
		for _, flow := range []func(context.Context) error{c.listOrders, c.refund, c.raceVoucher} {
			select {
			case <-c.stop:
				return nil
			default:
			}
			if err := flow(ctx); err != nil {
				return fmt.Errorf("%s: %w", c.user, err)
			}
		}
		c.rounds++
	}
}

// listOrders pages to the end, unless a cursor is refused.
func (c *caller) listOrders(ctx context.Context) error {
	wanted := 1 + c.rounds%pageSize
	asked := call{Arguments: mustJSON(listArguments{First: wanted})}
	out, err := c.call(ctx, c.bearerToken, listTool, asked)
	for err == nil && !out.refused {
		for _, order := range out.Orders {
			if order != wanted {
				return fmt.Errorf("listed order %d, want %d", order, wanted)
			}
			wanted++
		}
		if out.NextCursor == "" {
			return checkListed(wanted - 1)
		}
		c.tally.minted[cursor].Add(1)
		isFirst := asked.Cursor == ""
		asked.Cursor = out.NextCursor
		if isFirst {
			if err := c.forge(ctx, cursor, listTool, asked); err != nil {
				return err
			}
		}
		out, err = c.present(ctx, cursor, listTool, asked, out.Instance)
	}
	return err
}

func checkListed(last int) error {
	if last != orderCount {
		return fmt.Errorf("the list ended with order %d, want %d", last, orderCount)
	}
	return nil
}

// refund answers both questions of a refund.
func (c *caller) refund(ctx context.Context) error {
	arguments := refundArguments{Order: 1 + c.rounds%orderCount, Amount: 100 + c.rounds}
	asked := call{Arguments: mustJSON(arguments)}
	out, err := c.call(ctx, c.bearerToken, refundTool, asked)
	for _, answer := range []string{"yes", "late"} {
		if err != nil || out.refused {
			return err
		}
		c.tally.minted[state].Add(1)
		asked.RequestState, asked.Answer = out.RequestState, answer
		if answer == "yes" {
			if err := c.forge(ctx, state, refundTool, asked); err != nil {
				return err
			}
			c.hesitate(ctx)
		}
		out, err = c.present(ctx, state, refundTool, asked, out.Instance)
	}
	if want := refundResult(arguments.Order, arguments.Amount, "late"); err == nil && !out.refused && out.Result != want {
		return fmt.Errorf("the refund gave %q, want %q", out.Result, want)
	}
	return err
}

func (c *caller) hesitate(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-c.stop:
	case <-time.After(c.hesitation):
	}
}

const racers = 3

// raceVoucher redeems a voucher in several calls at once, of which one may succeed.
func (c *caller) raceVoucher(ctx context.Context) error {
	asked := call{Arguments: json.RawMessage(`{"of":"the house"}`)}
	issued, err := c.call(ctx, c.bearerToken, voucherTool, asked)
	if err != nil {
		return err
	}
	c.tally.minted[oneTime].Add(1)
	asked.Voucher = issued.Voucher
	if err := c.forge(ctx, oneTime, voucherTool, asked); err != nil {
		return err
	}
	var outcomes [racers]outcome
	var errs [racers]error
	var race sync.WaitGroup
	for i := range racers {
		race.Go(func() { outcomes[i], errs[i] = c.call(ctx, c.bearerToken, voucherTool, asked) })
	}
	race.Wait()
	for i, err := range errs {
		if err != nil {
			return err
		}
		if !outcomes[i].refused && outcomes[i].Result != voucherValue {
			return fmt.Errorf("the voucher gave %q", outcomes[i].Result)
		}
	}
	c.countRace(outcomes[:], issued.Instance)
	return nil
}

func (c *caller) countRace(outcomes []outcome, mintedBy string) {
	wins, retried := 0, false
	for _, out := range outcomes {
		retried = retried || out.retried
		if !out.refused {
			wins++
			c.countVerified(oneTime, out, mintedBy)
		}
	}
	c.tally.raced.Add(1)
	switch {
	case wins > 1:
		c.tally.redeemedTwice.Add(1)
	case wins == 0 && retried: // an instance redeemed it and was killed before it could say so
		c.tally.lostWithAnInstance.Add(1)
	case wins == 0:
		c.tally.refused[oneTime].Add(1)
	}
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // not for a struct of numbers
	}
	return text
}
