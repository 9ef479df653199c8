package contoken_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/contoken/contoken"
)

var fruit = []string{"apple", "banana", "cherry", "damson", "elder"}

// listFruit is the handler of a paginated tool. The subject comes from authentication, and args is the raw JSON of the
// arguments, of which "cursor" is one. The position in a cursor is the index of the next item.
func listFruit(cursors *contoken.CursorIssuer, subject string, args []byte) (items []string, next string, err error) {
	fingerprint, err := contoken.FingerprintArgs(args, "cursor")
	if err != nil {
		return nil, "", err
	}
	scope := contoken.Scope{Tool: "list_fruit", Subject: subject, Args: fingerprint}

	var request struct {
		Cursor *string `json:"cursor"`
	}
	if err := json.Unmarshal(args, &request); err != nil {
		return nil, "", err
	}
	page, first := uint32(1), 0
	if request.Cursor != nil { // a cursor that is there but empty is refused, and is not page one
		payload, err := cursors.Verify(scope, *request.Cursor)
		if err != nil {
			return nil, "", err
		}
		if err := payload.DecodeOpaqueState(&first); err != nil {
			return nil, "", err
		}
		page = payload.PageIndex
	}

	last := min(first+2, len(fruit))
	if last == len(fruit) {
		return fruit[first:last], "", nil
	}
	position, err := contoken.EncodeOpaqueState(last)
	if err != nil {
		return nil, "", err
	}
	next, err = cursors.Issue(scope, page+1, position)
	return fruit[first:last], next, err
}

// A handler that serves one page a call. Its cursors are good for the caller and arguments that they were issued for.
func ExampleCursorIssuer() {
	cursors, err := contoken.NewCursorIssuer(contoken.EphemeralKeyRing(), &contoken.CursorOptions{
		Audience:       "fruit-server",
		RequireSubject: true,
	})
	if err != nil {
		panic(err)
	}
	items, next, err := listFruit(cursors, "alice", []byte(`{"ripe": true}`))
	fmt.Println(items, err)

	args := fmt.Appendf(nil, `{"cursor": %q, "ripe": true}`, next)
	items, _, err = listFruit(cursors, "alice", args)
	fmt.Println(items, err)

	_, _, err = listFruit(cursors, "bob", args)
	fmt.Println(err)
	_, _, err = listFruit(cursors, "alice", fmt.Appendf(nil, `{"cursor": %q, "ripe": false}`, next))
	fmt.Println(err)
	// Output:
	// [apple banana] <nil>
	// [cherry damson] <nil>
	// contoken: invalid token: issued for another scope
	// contoken: invalid token: issued for another scope
}

// A request that asks its user twice. What was asked and answered travels in the state, out of the client's reach.
func ExampleRequestStateCodec() {
	codec, err := contoken.NewRequestStateCodec(contoken.EphemeralKeyRing(), &contoken.RequestStateOptions{
		Mode:     contoken.ModeEncrypted,
		Audience: "deploy-server",
	})
	if err != nil {
		panic(err)
	}
	type deployment struct{ Step, Target string }
	scope := contoken.Scope{Tool: "tools/call deploy", Subject: "alice"}

	// Round one asks where to, and round two, with the answer, whether that is certain.
	first, err := codec.EncodeJSON(scope, deployment{Step: "target"})
	if err != nil {
		panic(err)
	}
	var state deployment
	if err := codec.DecodeJSON(scope, first, &state); err != nil {
		panic(err)
	}
	fmt.Println("the client answers the question for the", state.Step)
	second, err := codec.EncodeJSON(scope, deployment{Step: "confirm", Target: "staging"})
	if err != nil {
		panic(err)
	}

	// The last round deploys what was confirmed, and nothing that the client says now.
	if err := codec.DecodeJSON(scope, second, &state); err != nil {
		panic(err)
	}
	fmt.Println("deploying to", state.Target)
	fmt.Println(codec.DecodeJSON(contoken.Scope{Tool: "tools/call deploy", Subject: "bob"}, second, &state))
	// Output:
	// the client answers the question for the target
	// deploying to staging
	// contoken: invalid token: signature mismatch
}

// A state that stands for a payment is taken once, though its client sends it again.
func ExampleOneTimeCodec() {
	store := contoken.NewMemoryRedeemStore(100_000) // for one process; a fleet shares a store in Redis or SQL
	payments, err := contoken.NewOneTimeCodec(contoken.EphemeralKeyRing(), store, &contoken.RequestStateOptions{
		Audience:       "bank",
		RequireSubject: true,
	})
	if err != nil {
		panic(err)
	}
	scope := contoken.Scope{Tool: "tools/call pay", Subject: "alice"}
	token, err := payments.Encode(scope, "12.50 EUR to bob")
	if err != nil {
		panic(err)
	}
	for range 2 {
		order, err := payments.Redeem(context.Background(), scope, token)
		fmt.Printf("%q %v\n", order, err)
	}
	// Output:
	// "12.50 EUR to bob" <nil>
	// "" contoken: invalid token: already redeemed
}

// Keys rotate while issuers and codecs serve. Each step is rolled out to every instance before the next.
func ExampleKeyRing_Replace() {
	oldKey, newKey := contoken.GenerateKey(), contoken.GenerateKey()
	ring, err := contoken.NewKeyRing(oldKey)
	if err != nil {
		panic(err)
	}
	cursors, err := contoken.NewCursorIssuer(ring, nil)
	if err != nil {
		panic(err)
	}
	scope := contoken.Scope{Tool: "fs.list", Subject: "alice"}
	cursor, err := cursors.Issue(scope, 2, nil)
	if err != nil {
		panic(err)
	}
	for _, step := range [][]contoken.Key{
		{oldKey, newKey}, // all verify the new key
		{newKey, oldKey}, // all sign with it
		{newKey},         // one TTL later
	} {
		if err := ring.Replace(step...); err != nil {
			panic(err)
		}
		_, err := cursors.Verify(scope, cursor)
		fmt.Println(len(step), "keys:", err)
	}
	// Output:
	// 2 keys: <nil>
	// 2 keys: <nil>
	// 1 keys: contoken: expired token
}

// Instances of a fleet read the same keys from their environment and take each other's tokens.
func ExampleKeyRingFromEnv() {
	os.Setenv("CONTOKEN_KEYS", "4f1c6b9e0d8a7f25c3e1b0946d7a82f5e6c90b1d3a4857f2908e6c5b4a3d2e1f")
	defer os.Unsetenv("CONTOKEN_KEYS")
	newInstance := func() *contoken.CursorIssuer {
		keys, err := contoken.KeyRingFromEnv("CONTOKEN_KEYS")
		if err != nil {
			panic(err)
		}
		cursors, err := contoken.NewCursorIssuer(keys, &contoken.CursorOptions{Audience: "fs-server"})
		if err != nil {
			panic(err)
		}
		return cursors
	}
	scope := contoken.Scope{Tool: "fs.list", Subject: "alice"}
	cursor, err := newInstance().Issue(scope, 2, []byte("usr/share/doc"))
	if err != nil {
		panic(err)
	}
	payload, err := newInstance().Verify(scope, cursor)
	fmt.Printf("page %d, after %s, error %v\n", payload.PageIndex, payload.OpaqueState, err)

	os.Setenv("CONTOKEN_KEYS", "4f1c6b9e0d8a7f25")
	_, err = contoken.KeyRingFromEnv("CONTOKEN_KEYS")
	fmt.Println(err)
	// Output:
	// page 2, after usr/share/doc, error <nil>
	// contoken: unusable key: key text of 16 hex digits, want 64 (key 1) (environment variable CONTOKEN_KEYS)
}

// rpcError is the error object of JSON-RPC 2.0.
type rpcError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]int `json:"data,omitempty"`
}

// toRPC maps an error of a handler to what its client may see. The reason for a refusal goes to the log.
func toRPC(err error) rpcError {
	switch {
	case errors.Is(err, contoken.ErrInvalid), errors.Is(err, contoken.ErrExpired):
		return rpcError{-32602, contoken.PublicMessage, map[string]int{"code": contoken.ATDCode(err)}}
	case errors.Is(err, contoken.ErrInput):
		return rpcError{Code: -32602, Message: "invalid params"}
	default:
		return rpcError{Code: -32603, Message: "internal error"}
	}
}

// A client learns whether to start over, and nothing else, from a refused cursor.
func ExampleATDCode() {
	now := time.Now()
	cursors, err := contoken.NewCursorIssuer(contoken.EphemeralKeyRing(), &contoken.CursorOptions{
		Now: func() time.Time { return now },
	})
	if err != nil {
		panic(err)
	}
	scope := contoken.Scope{Tool: "fs.list", Subject: "alice"}
	cursor, err := cursors.Issue(scope, 2, nil)
	if err != nil {
		panic(err)
	}
	show := func(scope contoken.Scope, cursor string) {
		_, err := cursors.Verify(scope, cursor)
		text, _ := json.Marshal(toRPC(err))
		fmt.Println(string(text))
	}
	show(scope, "made-up")
	show(contoken.Scope{Tool: "fs.list", Subject: "bob"}, cursor)
	show(contoken.Scope{Tool: "fs\x00list"}, cursor)
	now = now.Add(contoken.DefaultCursorTTL)
	show(scope, cursor)
	// Output:
	// {"code":-32602,"message":"invalid or expired token","data":{"code":1021}}
	// {"code":-32602,"message":"invalid or expired token","data":{"code":1021}}
	// {"code":-32602,"message":"invalid params"}
	// {"code":-32602,"message":"invalid or expired token","data":{"code":1020}}
}
