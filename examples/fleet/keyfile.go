package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/contoken/contoken"
)

// watchKeyFile keeps ring as the key file says until ctx ends: on SIGHUP, and every so often, since whoever changes a
// mounted file sends no signal. It gives report the outcome of each reload.
func watchKeyFile(
	ctx context.Context, ring *contoken.KeyRing, path string, every time.Duration, report func(error),
) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before anybody may send it: where it is not asked for, it kills
	ticker := time.NewTicker(every)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
			case <-ticker.C:
			}
			report(ring.ReloadFile(path))
		}
	}()
}

// replaceFile has path hold text: a reader finds the old text or the new one, never a part.
func replaceFile(path, text string) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
