package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/contoken/contoken"
)

const (
	aliceToken = "token of alice"
	bobToken   = "token of bob"
)

func newTestHandler(t *testing.T, root fs.FS, pageSize int) (h *handler, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	return &handler{
		pager: newTestPager(t, root, pageSize),
		users: []user{newUser("alice", aliceToken), newUser("bob", bobToken)},
		log:   slog.New(slog.NewJSONHandler(log, nil)),
	}, log
}

func newTestPager(t *testing.T, root fs.FS, pageSize int) *pager {
	t.Helper()
	pager, err := newPager(root, pageSize, contoken.EphemeralKeyRing(), fixedNow)
	if err != nil {
		t.Fatal(err)
	}
	return pager
}

func post(h http.Handler, authorization, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, rpcPath, strings.NewReader(body))
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	return recorder
}

// callOf returns a request with the arguments, which are JSON.
func callOf(tool, arguments string) string {
	const format = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`
	return fmt.Sprintf(format, tool, arguments)
}

const (
	parseError     = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`
	refused        = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid or expired token",`
	refusedInvalid = refused + `"data":{"code":1021}}}`
	refusedExpired = refused + `"data":{"code":1020}}}`
)

func invalidRequest(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32600,"message":"invalid request"}}`
}

func badParams(problem string) string {
	return `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params: ` + problem + `"}}`
}

func TestRequestsGetTheResponseThatJSONRPCHasForThem(t *testing.T) {
	h, _ := newTestHandler(t, fstest.MapFS{"a/b": {}, "c": {}}, 10)
	list := func(arguments string) string { return callOf("fs.list", arguments) }
	all := `{"paths":["a/b","c"]}`
	for _, test := range []struct{ name, body, want string }{
		{"no arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs.list"}}`,
			`{"jsonrpc":"2.0","id":1,"result":` + all + `}`},
		{"null arguments", list(`null`), `{"jsonrpc":"2.0","id":1,"result":` + all + `}`},
		{"id of many digits", `{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"fs.list"}}`,
			`{"jsonrpc":"2.0","id":12345678901234567890,"result":` + all + `}`},
		{"id that is text", `{"jsonrpc":"2.0","id":"one","method":"tools/call","params":{"name":"fs.list"}}`,
			`{"jsonrpc":"2.0","id":"one","result":` + all + `}`},
		{"id that is null", `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"fs.list"}}`,
			`{"jsonrpc":"2.0","id":null,"result":` + all + `}`},
		{"nothing listed", list(`{"pattern":"*.go"}`), `{"jsonrpc":"2.0","id":1,"result":{"paths":[]}}`},
		{"directory", list(`{"dir":"a"}`), `{"jsonrpc":"2.0","id":1,"result":{"paths":["b"]}}`},
		{"other tool", callOf("fs.dirs", `{}`), `{"jsonrpc":"2.0","id":1,"result":{"paths":["a"]}}`},

		{"not JSON", `{"jsonrpc":"2.0","id":1`, parseError},
		{"empty", ``, parseError},
		{"two values", list(`{}`) + list(`{}`), parseError},
		{"batch", `[` + list(`{}`) + `]`, invalidRequest("null")},
		{"no object", `"tools/call"`, invalidRequest("null")},
		{"id that is an object", `{"jsonrpc":"2.0","id":{},"method":"tools/call"}`, invalidRequest("null")},
		{"id that is a boolean", `{"jsonrpc":"2.0","id":true,"method":"tools/call"}`, invalidRequest("null")},
		{"method that is a number", `{"jsonrpc":"2.0","id":1,"method":1}`, invalidRequest("null")},
		{"other version", `{"jsonrpc":"1.0","id":1,"method":"tools/call"}`, invalidRequest("1")},
		{"no method", `{"jsonrpc":"2.0","id":1}`, invalidRequest("1")},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`},

		{"no params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, badParams("want an object with name and arguments")},
		{"params by position", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["fs.list"]}`,
			badParams("want an object with name and arguments")},
		{"unknown tool", callOf("fs.read", `{}`), badParams("no such tool")},
		{"arguments by position", list(`["a"]`), badParams("the arguments are not an object")},
		{"duplicate argument", list(`{"dir":"a","dir":"a"}`), badParams("the arguments are not plain JSON")},
		{"duplicate cursor", list(`{"__cursor":"x","__cursor":"x"}`), badParams("the arguments are not plain JSON")},
		{"unknown argument", list(`{"depth":1}`), badParams("there is an unknown argument")},
		{"cursor in other case", list(`{"__CURSOR":"x"}`), badParams("there is an unknown argument")},
		{"dir that is a number", list(`{"dir":1}`), badParams("dir is not a string")},
		{"dir that is a file", list(`{"dir":"c"}`), badParams("dir is not a directory of the tree")},
		{"dir that is not there", list(`{"dir":"d"}`), badParams("dir is not a directory of the tree")},
		{"dir outside the tree", list(`{"dir":"../"}`), badParams("dir is not a directory of the tree")},
		{"pattern that is malformed", list(`{"pattern":"["}`), badParams("pattern is malformed")},

		{"cursor that is empty", list(`{"__cursor":""}`), refusedInvalid},
		{"cursor that is a space", list(`{"__cursor":" "}`), refusedInvalid},
		{"cursor that is made up", list(`{"__cursor":"next"}`), refusedInvalid},
		{"cursor that is null", list(`{"__cursor":null}`), refusedInvalid},
		{"cursor that is a number", list(`{"__cursor":0}`), refusedInvalid},
		{"cursor that is false", list(`{"__cursor":false}`), refusedInvalid},
		{"cursor that is an object", list(`{"__cursor":{}}`), refusedInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := post(h, "Bearer "+aliceToken, test.body)
			if got.Code != http.StatusOK {
				t.Errorf("status %d, want 200", got.Code)
			}
			if got := got.Body.String(); got != test.want+"\n" {
				t.Errorf("got  %swant %s", got, test.want)
			}
		})
	}
}

func TestNotificationGetsNoResponse(t *testing.T) {
	h, _ := newTestHandler(t, fstest.MapFS{"a": {}}, 1)
	got := post(h, "Bearer "+aliceToken, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fs.list"}}`)
	if got.Code != http.StatusAccepted || got.Body.Len() > 0 {
		t.Errorf("status %d with %q, want 202 with nothing", got.Code, got.Body)
	}
}

func TestRequestIsRefusedWhereItIsTooLarge(t *testing.T) {
	h, _ := newTestHandler(t, fstest.MapFS{"a": {}}, 1)
	body := callOf("fs.list", `{}`)
	fits := body + strings.Repeat(" ", maxRequestBytes-len(body))
	if got := post(h, "Bearer "+aliceToken, fits); got.Code != http.StatusOK {
		t.Errorf("status %d for a request of the largest size, want 200", got.Code)
	}
	got := post(h, "Bearer "+aliceToken, fits+" ")
	want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"request too large"}}` + "\n"
	if got.Code != http.StatusRequestEntityTooLarge || got.Body.String() != want {
		t.Errorf("status %d with %s, want 413 with %s", got.Code, got.Body, want)
	}
}

func TestRequestThatCannotBeReadIsBad(t *testing.T) {
	h, _ := newTestHandler(t, fstest.MapFS{"a": {}}, 1)
	body := iotest.ErrReader(errors.New("malformed chunk"))
	request := httptest.NewRequest(http.MethodPost, rpcPath, body)
	request.Header.Set("Authorization", "Bearer "+aliceToken)
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusBadRequest {
		t.Errorf("status %d, want 400", recorder.Code)
	}
}

func TestOnlyAuthenticatedRequestsAreAnswered(t *testing.T) {
	h, _ := newTestHandler(t, fstest.MapFS{"a": {}}, 1)
	for _, test := range []struct {
		name, authorization string
		status              int
	}{
		{"alice", "Bearer " + aliceToken, http.StatusOK},
		{"bob, scheme in lower case", "bearer " + bobToken, http.StatusOK},
		{"nobody", "", http.StatusUnauthorized},
		{"no token", "Bearer ", http.StatusUnauthorized},
		{"unknown token", "Bearer " + aliceToken + "!", http.StatusUnauthorized},
		{"beginning of a token", "Bearer " + aliceToken[:8], http.StatusUnauthorized},
		{"other scheme", "Basic " + aliceToken, http.StatusUnauthorized},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := post(h, test.authorization, callOf("fs.list", `{}`))
			if got.Code != test.status {
				t.Errorf("status %d, want %d", got.Code, test.status)
			}
			asked := got.Header().Get("WWW-Authenticate") != ""
			if asked != (test.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate is there: %v", asked)
			}
		})
	}
}

// nextCursor returns the cursor that alice gets for a call.
func nextCursor(t *testing.T, h *handler, tool, arguments string) string {
	t.Helper()
	got := post(h, "Bearer "+aliceToken, callOf(tool, arguments))
	var response struct{ Result page }
	if err := json.Unmarshal(got.Body.Bytes(), &response); err != nil || response.Result.NextCursor == "" {
		t.Fatalf("no cursor in %s (%v)", got.Body, err)
	}
	return response.Result.NextCursor
}

func TestCursorIsGoodForItsUserToolAndArgumentsOnly(t *testing.T) {
	h, _ := newTestHandler(t, fstest.MapFS{"a/1": {}, "a/2": {}, "b/1": {}, "b/2": {}}, 1)
	cursor := nextCursor(t, h, "fs.list", `{"dir":"a","pattern":"*"}`)
	accepted := `{"jsonrpc":"2.0","id":1,"result":{"paths":["2"]}}`
	for _, test := range []struct{ name, token, tool, arguments, want string }{
		{"same call", aliceToken, "fs.list", `{"dir":"a","pattern":"*","__cursor":%q}`, accepted},
		{"other spelling", aliceToken, "fs.list", ` { "__cursor":%q, "pattern":"\u002a", "dir":"a" } `, accepted},
		{"other user", bobToken, "fs.list", `{"dir":"a","pattern":"*","__cursor":%q}`, refusedInvalid},
		{"other tool", aliceToken, "fs.dirs", `{"dir":"a","pattern":"*","__cursor":%q}`, refusedInvalid},
		{"other argument", aliceToken, "fs.list", `{"dir":"b","pattern":"*","__cursor":%q}`, refusedInvalid},
		{"argument left out", aliceToken, "fs.list", `{"dir":"a","__cursor":%q}`, refusedInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := post(h, "Bearer "+test.token, callOf(test.tool, fmt.Sprintf(test.arguments, cursor))).Body.String()
			if got != test.want+"\n" {
				t.Errorf("got  %swant %s", got, test.want)
			}
		})
	}
}

func TestCursorOfAnEarlierProcessIsExpired(t *testing.T) {
	tree := fstest.MapFS{"a": {}, "b": {}}
	before, _ := newTestHandler(t, tree, 1)
	after, _ := newTestHandler(t, tree, 1)
	arguments := fmt.Sprintf(`{"__cursor":%q}`, nextCursor(t, before, "fs.list", `{}`))
	if got := post(after, "Bearer "+aliceToken, callOf("fs.list", arguments)).Body.String(); got != refusedExpired+"\n" {
		t.Errorf("got  %swant %s", got, refusedExpired)
	}
}

func TestRefusalIsLoggedWithItsReasonAndNothingOfTheRequest(t *testing.T) {
	h, log := newTestHandler(t, fstest.MapFS{"a": {}, "b": {}}, 1)
	arguments := fmt.Sprintf(`{"__cursor":%q}`, nextCursor(t, h, "fs.list", `{}`))
	post(h, "Bearer "+bobToken, callOf("fs.list", arguments))

	entry := map[string]string{}
	if err := json.Unmarshal(log.Bytes(), &entry); err != nil {
		t.Fatalf("log %q: %v", log, err)
	}
	delete(entry, "time")
	want := map[string]string{
		"level":  "WARN",
		"msg":    "cursor refused",
		"tool":   "fs.list",
		"reason": contoken.ErrScope.Error(),
	}
	if !maps.Equal(entry, want) {
		t.Errorf("logged %v, want %v", entry, want)
	}
}

func TestInternalErrorIsForTheLogAlone(t *testing.T) {
	h, log := newTestHandler(t, unreadable{fstest.MapFS{"a/b": {}}, "a", fs.ErrPermission}, 1)
	got := post(h, "Bearer "+aliceToken, callOf("fs.list", `{}`)).Body.String()
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}` + "\n"
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if !strings.Contains(log.String(), fs.ErrPermission.Error()) {
		t.Errorf("logged %q, want the reason in it", log)
	}
}

func TestCallEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pager := newTestPager(t, fstest.MapFS{"a": {}}, 1)
	_, err := pager.answer(ctx, call{subject: "alice", tool: "fs.list"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
