package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/contoken/contoken"
)

// redeemPath is where the process that starts the fleet serves the store of one-time tokens that all instances share.
// It stands for Redis or an SQL database, for which contoken has the modules redisstore and sqlstore: unlike those, it
// forgets everything when it ends.
const redeemPath = "/redeem"

// redemption is the request for redeemPath; the reply is a JSON boolean, whether it is the first.
type redemption struct {
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
}

func redeemHandler(store contoken.RedeemStore) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked redemption
		if err := readJSON(w, r, &asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		first, err := store.Redeem(r.Context(), asked.ID, asked.Expires)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, http.StatusOK, first)
	})
}

// remoteStore is the [contoken.RedeemStore] of an instance.
type remoteStore struct{ http *http.Client }

func (s remoteStore) Redeem(ctx context.Context, id string, expires time.Time) (first bool, err error) {
	status, body, err := postJSON(ctx, s.http, "http://redeem"+redeemPath, "", redemption{id, expires})
	if err != nil {
		return false, fmt.Errorf("redeem store: %w", err)
	}
	if status != http.StatusOK {
		return false, fmt.Errorf("redeem store: status %d", status)
	}
	err = json.Unmarshal(body, &first)
	return first, err
}
