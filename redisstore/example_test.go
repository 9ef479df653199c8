package redisstore_test

import (
	"context"
	"log"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/redisstore"
	"github.com/redis/go-redis/v9"
)

func Example() {
	ctx, scope := context.Background(), contoken.Scope{Tool: "pay", Subject: "alice"}

	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	keys, err := contoken.KeyRingFromEnv("CONTOKEN_KEYS")
	if err != nil {
		log.Fatal(err)
	}
	codec, err := contoken.NewOneTimeCodec(keys, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	wire, err := codec.Encode(scope, "transfer 100 to bob")
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	state, err := codec.Redeem(ctx, scope, wire) // contoken.ErrRedeemed from the second call on
	log.Println(state, err)
}
