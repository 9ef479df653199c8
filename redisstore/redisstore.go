// Package redisstore remembers redeemed one-time tokens in Redis, Valkey or a cluster of either, where every instance
// of a server finds them. Each token costs one command: SET with NX, GET and an expiry, which needs Redis 7.0 or any
// Valkey.
//
// # What the server must be set to
//
// The store is as good as the memory of its server: an id that the server loses can be redeemed again.
//
//   - maxmemory-policy must be noeviction, the default. Any other has a full server throw ids away.
//   - appendonly yes with appendfsync always keeps every id through a crash. With everysec, a machine that fails may
//     lose the last two seconds, and with snapshots alone everything since the last one.
//   - Replication is asynchronous. A failover may lose the ids that the old primary did not pass on in time, whatever
//     the settings. Where a token that is redeemed twice does real harm, use package sqlstore on a database with
//     synchronous replicas.
//
// # Clocks
//
// The server is told how long to keep an id, never until when, so its clock does not matter. That time is reckoned by
// the clock of the instance that redeems, plus five minutes, so the clocks of instances may differ by five minutes.
//
// # Cancelled calls
//
// The client looks at the deadline of a context in the middle of a command only if its ContextTimeoutEnabled is set,
// and at a cancellation never: such a call returns at the ReadTimeout of the client, three seconds by default.
package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/contoken/contoken"
	"github.com/redis/go-redis/v9"
)

// DefaultPrefix begins the keys of a store unless Options says otherwise.
const DefaultPrefix = "contoken:redeemed:"

const (
	// keptAfterExpiry covers instances whose clocks are behind and still accept the token.
	keptAfterExpiry = 5 * time.Minute
	// maxTTL leaves room to add to, and nobody will miss the id.
	maxTTL = 100 * 365 * 24 * time.Hour
)

// ErrExpired is an id whose expiry was past before it reached the server. It was not recorded, for a record of it may
// have come and gone.
var ErrExpired = errors.New("redisstore: the expiry of the id is past")

// Options configures a [Store]. The zero value is valid, and New copies it.
type Options struct {
	// Prefix begins the key of every id. Empty means DefaultPrefix. Stores with the same server and prefix share their
	// ids, as the instances of one service must.
	Prefix string
	// Now is the clock, read once a call. Nil means time.Now.
	Now func() time.Time
}

// Store is a [contoken.RedeemStore] on a Redis client. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	prefix string
	now    func() time.Time
}

var _ contoken.RedeemStore = (*Store)(nil)

// New returns a store on client, which stays the caller's to configure and close; nil opts means the zero Options. It
// does not talk to the server. A nil client and a [redis.Ring] are contoken.ErrInput: when a shard fails, a ring asks
// another one, which does not know the ids.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: nil Redis client", contoken.ErrInput)
	}
	if _, ok := client.(*redis.Ring); ok {
		return nil, fmt.Errorf("%w: a Redis ring forgets ids when a shard fails", contoken.ErrInput)
	}
	if opts == nil {
		opts = new(Options)
	}
	store := &Store{client: client, prefix: opts.Prefix, now: opts.Now}
	if store.prefix == "" {
		store.prefix = DefaultPrefix
	}
	if store.now == nil {
		store.now = time.Now
	}
	return store, nil
}

// Redeem records id until five minutes after expires and reports whether it had not been recorded before. An expiry
// that is past is ErrExpired. Any other error is that of the client, wrapped, which may name the server but not the
// id, and leaves open whether the id was recorded; then first is false, and later calls may all report the same.
func (s *Store) Redeem(ctx context.Context, id string, expires time.Time) (first bool, err error) {
	ttl := expires.Sub(s.now())
	if ttl <= 0 {
		return false, ErrExpired
	}
	// The client sends a command again when its reply is lost. The mark tells our own earlier attempt from others.
	mark := rand.Text()
	earlier, err := s.client.SetArgs(ctx, s.prefix+id, mark, redis.SetArgs{
		Mode: "NX",
		Get:  true,
		TTL:  min(ttl, maxTTL) + keptAfterExpiry,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil): // there was no earlier value
		return true, nil
	case err != nil:
		return false, fmt.Errorf("redisstore: %w", err)
	default:
		return earlier == mark, nil
	}
}
