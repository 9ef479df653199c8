package redisstore

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/redeemtest"
	"github.com/redis/go-redis/v9"
)

// timeout ends a test whose server hangs.
const timeout = time.Minute

func newStore(t testing.TB, client redis.UniversalClient, opts *Options) *Store {
	t.Helper()
	store, err := New(client, opts)
	must(t, err)
	return store
}

func TestStoresOfOneServerConform(t *testing.T) {
	server := startServer(t)
	redeemtest.RunShared(t, func(t *testing.T) contoken.RedeemStore { return newStore(t, server.client(t), nil) })
}

func TestStoresOfAClusterConform(t *testing.T) {
	nodes := startCluster(t)
	redeemtest.RunShared(t, func(t *testing.T) contoken.RedeemStore {
		client := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: []string{nodes[0].address()}, IsClusterMode: true,
		})
		t.Cleanup(func() { client.Close() })
		return newStore(t, client, nil)
	})
	for i, node := range nodes {
		size, err := node.client(t).DBSize(t.Context()).Result()
		must(t, err)
		if size == 0 {
			t.Errorf("node %d of the cluster holds no id", i)
		}
	}
}

func TestNoIDIsFirstTwiceThroughACrash(t *testing.T) {
	server := startServer(t)
	redeemtest.RunCrash(t, newStore(t, server.client(t), nil), server.kill, server.start)
}

func TestNewRefusesClientsThatCannotBeTrusted(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for name, client := range map[string]redis.UniversalClient{"nil": nil, "ring": ring} {
		if store, err := New(client, nil); store != nil || !errors.Is(err, contoken.ErrInput) {
			t.Errorf("%s: store %v, error %v, want none and ErrInput", name, store, err)
		}
	}
}

func TestPrefixBeginsTheKeyAndSeparatesServices(t *testing.T) {
	client := startServer(t).client(t)
	expires := time.Now().Add(time.Hour)
	for prefix, key := range map[string]string{"": "contoken:redeemed:id", "billing/": "billing/id"} {
		store := newStore(t, client, &Options{Prefix: prefix})
		if first, err := store.Redeem(t.Context(), "id", expires); !first || err != nil {
			t.Errorf("prefix %q: first %t, error %v, want first", prefix, first, err)
		}
		if found := client.Exists(t.Context(), key).Val(); found != 1 {
			t.Errorf("prefix %q: the server has no key %s", prefix, key)
		}
	}
}

func TestServerKeepsAnIDFiveMinutesPastItsExpiry(t *testing.T) {
	client := startServer(t).client(t)
	expires := time.Now().Add(90*time.Second + 500*time.Microsecond)
	if _, err := newStore(t, client, nil).Redeem(t.Context(), "id", expires); err != nil {
		t.Fatal(err)
	}
	left, err := client.PTTL(t.Context(), DefaultPrefix+"id").Result()
	must(t, err)
	// The server counts in milliseconds, of which one may be cut off.
	if kept := time.Now().Add(left + time.Millisecond); kept.Before(expires.Add(5 * time.Minute)) {
		t.Errorf("kept until %v, want five minutes after %v", kept, expires)
	}
	if most := 90*time.Second + time.Millisecond + 5*time.Minute; left > most {
		t.Errorf("kept for %v, want at most %v", left, most)
	}
}

func TestServerDropsAnIDOfTheLongestTTLInTheEnd(t *testing.T) {
	client := startServer(t).client(t)
	if _, err := newStore(t, client, nil).Redeem(t.Context(), "id", time.Now().Add(math.MaxInt64)); err != nil {
		t.Fatal(err)
	}
	if left := client.PTTL(t.Context(), DefaultPrefix+"id").Val(); left < maxTTL {
		t.Errorf("kept for %v, want %v", left, maxTTL)
	}
}

func TestLaterCallsChangeNothingOnTheServer(t *testing.T) {
	client := startServer(t).client(t)
	store := newStore(t, client, nil)
	var marks []string
	for _, ttl := range []time.Duration{time.Hour, time.Second} {
		if _, err := store.Redeem(t.Context(), "id", time.Now().Add(ttl)); err != nil {
			t.Fatal(err)
		}
		marks = append(marks, client.Get(t.Context(), DefaultPrefix+"id").Val())
	}
	if marks[0] == "" || marks[0] != marks[1] {
		t.Errorf("the marks are %q, want the first one to stay", marks)
	}
	if left := client.PTTL(t.Context(), DefaultPrefix+"id").Val(); left < time.Hour {
		t.Errorf("kept for %v, want the hour of the first call", left)
	}
}

// An instance whose clock is behind accepts the token longer than the one that recorded it.
func TestInstanceWithASlowClockFindsTheID(t *testing.T) {
	client := startServer(t).client(t)
	now := time.Now()
	expires := now.Add(time.Minute)
	onTime := newStore(t, client, &Options{Now: func() time.Time { return now.Add(59 * time.Second) }})
	slow := newStore(t, client, &Options{Now: func() time.Time { return now.Add(-3 * time.Minute) }})
	if first, err := onTime.Redeem(t.Context(), "id", expires); !first || err != nil {
		t.Fatalf("first %t, error %v, want first", first, err)
	}
	if first, err := slow.Redeem(t.Context(), "id", expires); first || err != nil {
		t.Errorf("first %t, error %v, want neither", first, err)
	}
	left := client.PTTL(t.Context(), DefaultPrefix+"id").Val()
	if left < 4*time.Minute {
		t.Errorf("the id is kept for %v, want at least the four minutes that the slow instance accepts it", left)
	}
}

func TestExpiredIDIsRefusedAndNotRecorded(t *testing.T) {
	client := startServer(t).client(t)
	now := time.Now()
	store := newStore(t, client, &Options{Now: func() time.Time { return now }})
	for _, expires := range []time.Time{now, now.Add(-time.Nanosecond), {}} {
		if first, err := store.Redeem(t.Context(), "id", expires); first || !errors.Is(err, ErrExpired) {
			t.Errorf("expires %v: first %t, error %v, want ErrExpired", expires, first, err)
		}
	}
	if size := client.DBSize(t.Context()).Val(); size != 0 {
		t.Errorf("the server holds %d ids, want none", size)
	}
}

// The client sends the command again, and the server has recorded the id already.
func TestRedeemIsFirstThoughItsReplyWasLost(t *testing.T) {
	server := startServer(t)
	proxy := startProxy(t, server.address())
	client := redis.NewClient(&redis.Options{Addr: proxy.address, Protocol: 2, MaxRetries: 3})
	defer client.Close()
	store := newStore(t, client, nil)
	must(t, client.Ping(t.Context()).Err()) // the connection stands before the loss

	proxy.loseReply.Store(true)
	expires := time.Now().Add(time.Hour)
	if first, err := store.Redeem(t.Context(), "id", expires); !first || err != nil {
		t.Errorf("first %t, error %v, want first", first, err)
	}
	if proxy.loseReply.Load() {
		t.Error("no reply was lost")
	}
	if first, err := store.Redeem(t.Context(), "id", expires); first || err != nil {
		t.Errorf("again: first %t, error %v, want neither", first, err)
	}
}

func TestRedeemEndsWithItsContextWhenTheServerHangs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	must(t, err)
	defer listener.Close()
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), ContextTimeoutEnabled: true})
	defer client.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	first, err := newStore(t, client, nil).Redeem(ctx, "id", time.Now().Add(time.Hour))
	if first || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("first %t, error %v, want the deadline", first, err)
	}
}

func TestErrorsHoldNoIDAndNoPassword(t *testing.T) {
	const id, password = "an-id-of-a-token", "a-password"
	server := startServer(t, "--requirepass", "another-password")
	for name, opts := range map[string]*redis.Options{
		"refused login": {Addr: server.address(), Password: password},
		"no server":     {Addr: "127.0.0.1:1", Password: password, MaxRetries: -1},
	} {
		client := redis.NewClient(opts)
		defer client.Close()
		store := newStore(t, client, nil)
		first, err := store.Redeem(t.Context(), id, time.Now().Add(time.Hour))
		if first || err == nil {
			t.Fatalf("%s: first %t, error %v, want an error", name, first, err)
		}
		texts := []string{err.Error()}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%t"} {
			texts = append(texts, fmt.Sprintf(verb, store), fmt.Sprintf(verb, struct{ store *Store }{store}))
		}
		for _, text := range texts {
			if strings.Contains(text, id) || strings.Contains(text, password) {
				t.Errorf("%s: %q tells too much", name, text)
			}
		}
	}
}

func BenchmarkRedeem(b *testing.B) {
	store := newStore(b, startServer(b).client(b), nil)
	expires := time.Now().Add(time.Hour)
	b.RunParallel(func(loop *testing.PB) {
		for loop.Next() {
			if first, err := store.Redeem(b.Context(), rand.Text(), expires); !first || err != nil {
				b.Errorf("first %t, error %v, want first", first, err)
			}
		}
	})
}

// proxy stands between client and server and can lose a reply together with its connection.
type proxy struct {
	address   string
	loseReply atomic.Bool
}

func startProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	p := &proxy{address: listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client, server)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn, server string) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	go bufio.NewReader(client).WriteTo(upstream)
	reply := make([]byte, 4096)
	for {
		n, err := upstream.Read(reply)
		if err != nil || p.loseReply.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(reply[:n]); err != nil {
			return
		}
	}
}
