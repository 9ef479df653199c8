package sqlstore_test

import (
	"context"
	"database/sql"
	"log"
	"os"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/sqlstore"
	_ "github.com/jackc/pgx/v5/stdlib"
)

func Example() {
	ctx, scope := context.Background(), contoken.Scope{Tool: "pay", Subject: "alice"}

	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.CreateTable(ctx); err != nil {
		log.Fatal(err)
	}
	go store.PruneEvery(ctx, time.Minute, func(err error) { log.Print(err) })

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
