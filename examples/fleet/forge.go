package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// token returns where a token of a kind stands in a call or a reply.
func (c *call) token(k kind) *string {
	return [kinds]*string{cursor: &c.Cursor, state: &c.RequestState, oneTime: &c.Voucher}[k]
}

func (r *reply) token(k kind) string {
	return [kinds]string{cursor: r.NextCursor, state: r.RequestState, oneTime: r.Voucher}[k]
}

// forge presents what must be refused in place of the genuine token in asked.
func (c *caller) forge(ctx context.Context, k kind, tool string, asked call) error {
	forgeries := []func(context.Context, kind, string, call) (bearerToken string, forged call, err error){
		c.altered, c.withOtherArguments, c.ofAnother, c.selfMade,
	}
	bearerToken, forged, err := forgeries[c.rounds%len(forgeries)](ctx, k, tool, asked)
	if err != nil {
		return err
	}
	out, err := c.call(ctx, bearerToken, tool, forged)
	if err != nil {
		return fmt.Errorf("forged call: %w", err)
	}
	c.tally.forged[k].Add(1)
	if !out.refused {
		c.tally.accepted[k].Add(1)
	}
	return nil
}

// altered changes one character of the token, another one each time.
func (c *caller) altered(_ context.Context, k kind, _ string, asked call) (string, call, error) {
	token := asked.token(k)
	at := (c.rounds * 7) % len(*token)
	other := "A"
	if strings.HasPrefix((*token)[at:], other) {
		other = "B"
	}
	*token = (*token)[:at] + other + (*token)[at+1:]
	return c.bearerToken, asked, nil
}

// withOtherArguments adds one to the arguments, which the tool does not look at.
func (c *caller) withOtherArguments(_ context.Context, _ kind, _ string, asked call) (string, call, error) {
	asked.Arguments = bytes.Replace(asked.Arguments, []byte("{"), []byte(`{"more":[],`), 1)
	return c.bearerToken, asked, nil
}

// ofAnother has another user present the token.
func (c *caller) ofAnother(_ context.Context, _ kind, _ string, asked call) (string, call, error) {
	return c.accomplice, asked, nil
}

// selfMade is a token for just this call, made by the same program with another key.
func (c *caller) selfMade(ctx context.Context, k kind, tool string, asked call) (string, call, error) {
	made, err := c.attacker.answer(ctx, tool, c.user, call{Arguments: asked.Arguments})
	*asked.token(k) = made.token(k)
	return c.bearerToken, asked, err
}
