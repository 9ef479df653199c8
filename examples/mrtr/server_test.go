package main

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const testMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// toolsCall returns a request that calls the tool deploy, with further params.
func toolsCall(params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + testMeta + `,"name":"deploy",` + params + `}}`
}

// send returns the status and the body of the answer to a request.
func send(t *testing.T, tr *trial, method, authorization, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, tr.server.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	response, err := tr.alice.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// sendAsAlice returns the answer to a request that must succeed, as JSON without its state, and the state.
func sendAsAlice(t *testing.T, tr *trial, body string) (answer map[string]any, state string) {
	t.Helper()
	status, text := send(t, tr, http.MethodPost, "Bearer "+tr.alice.bearerToken, body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	answer = parse(t, text)
	if result, ok := answer["result"].(map[string]any); ok {
		state, _ = result["requestState"].(string)
		delete(result, "requestState")
	}
	return answer, state
}

func parse(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// The messages of the three rounds in the words of the protocol, without the types that client and server share.
func TestRoundsOnTheWire(t *testing.T) {
	for protection := range protections {
		tr := startTrial(t, protection)
		const arguments = `"arguments":{"service":"api","commit":"4f2c9e1"}`
		rounds := []struct{ params, answer string }{
			{
				arguments,
				`{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"environment":{
					"method":"elicitation/create","params":{"mode":"form",
					"message":"Deploy api 4f2c9e1: to which environment?","requestedSchema":{"type":"object",
					"properties":{"environment":{"type":"string","enum":["preview","staging"]}},
					"required":["environment"]}}}}}}`,
			},
			{
				arguments + `,"inputResponses":{"environment":{"action":"accept","content":{"environment":"preview"}}}`,
				`{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"confirm":{
					"method":"elicitation/create","params":{"mode":"form","message":"Deploy api 4f2c9e1 to preview?",
					"requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean"}},
					"required":["confirm"]}}}}}}`,
			},
			{
				arguments + `,"inputResponses":{"confirm":{"action":"accept","content":{"confirm":true}}}`,
				`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[
					{"type":"text","text":"alice deployed api 4f2c9e1 to preview"}]}}`,
			},
		}
		state := ""
		for i, round := range rounds {
			params := round.params
			if i > 0 {
				params += `,"requestState":` + quote(t, state)
			}
			var answer map[string]any
			answer, state = sendAsAlice(t, tr, toolsCall(params))
			if !reflect.DeepEqual(answer, parse(t, round.answer)) {
				t.Errorf("%s: round %d: got %v, want %s", tr.title, i+1, answer, round.answer)
			}
			if last := i == len(rounds)-1; (state == "") != last {
				t.Errorf("%s: round %d: state %q", tr.title, i+1, state)
			}
		}
	}
}

func quote(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

func TestRefusedStateOnTheWire(t *testing.T) {
	const want = `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"invalid or expired token",` +
		`"data":{"reason":"invalid_request_state"}}}`
	for _, state := range []string{``, `v1.`, `null`, `{"environment":"staging"}`} {
		tr := startTrial(t, signed)
		body := toolsCall(`"arguments":` + approvedArguments + `,"requestState":` + quote(t, state) +
			`,"inputResponses":{"confirm":{"action":"accept","content":{"confirm":true}}}`)
		status, answer := send(t, tr, http.MethodPost, "Bearer "+tr.alice.bearerToken, body)
		if status != http.StatusBadRequest || strings.TrimSpace(answer) != want {
			t.Errorf("state %q: status %d: %s", state, status, answer)
		}
		if logged := tr.log.take(); logged != "alice: contoken: invalid token: malformed" {
			t.Errorf("state %q: the log has %q", state, logged)
		}
		if done := tr.ledger.deployments(); len(done) > 0 {
			t.Errorf("state %q: deployed %v", state, done)
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	params := func(params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + params + `}`
	}
	const name, arguments = `"name":"deploy"`, `"arguments":` + approvedArguments
	const ambiguous = `"arguments":{"service":"api","commit":"1","commit":"2"}`
	anotherTool := strings.Replace(toolsCall(arguments), `"deploy"`, `"undeploy"`, 1)
	noElicitation := strings.Replace(testMeta, `"elicitation":{}`, ``, 1)
	tests := map[string]struct {
		body   string
		status int
		id     string
		code   int
	}{
		"no JSON":             {`{"jsonrpc":"2.0",`, 400, "null", codeParseError},
		"a batch":             {`[` + toolsCall(arguments) + `]`, 400, "null", codeInvalidRequest},
		"id null":             {`{"jsonrpc":"2.0","id":null,"method":"tools/call"}`, 400, "null", codeInvalidRequest},
		"id an object":        {`{"jsonrpc":"2.0","id":{},"method":"tools/call"}`, 400, "null", codeInvalidRequest},
		"another version":     {`{"jsonrpc":"1.0","id":7,"method":"tools/call"}`, 400, "7", codeInvalidRequest},
		"no method":           {`{"jsonrpc":"2.0","id":7}`, 400, "7", codeInvalidRequest},
		"another method":      {`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, 404, `"a"`, codeMethodNotFound},
		"no params":           {`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, 400, "7", codeInvalidParams},
		"params an array":     {params(`[]`), 400, "7", codeInvalidParams},
		"state not a string":  {toolsCall(arguments + `,"requestState":{}`), 400, "7", codeInvalidParams},
		"no protocol version": {params(`{` + name + `,` + arguments + `}`), 400, "7", codeUnsupportedVersion},
		"cannot elicit":       {params(`{` + noElicitation + `}`), 400, "7", codeMissingCapability},
		"another tool":        {anotherTool, 400, "7", codeInvalidParams},
		"no arguments":        {params(`{` + testMeta + `,` + name + `}`), 400, "7", codeInvalidParams},
		"arguments an array":  {toolsCall(`"arguments":[]`), 400, "7", codeInvalidParams},
		"no service":          {toolsCall(`"arguments":{"commit":"4f2c9e1"}`), 400, "7", codeInvalidParams},
		"no commit":           {toolsCall(`"arguments":{"service":"api"}`), 400, "7", codeInvalidParams},
		"ambiguous arguments": {toolsCall(ambiguous), 400, "7", codeInvalidParams},
		"a byte too large":    {strings.Repeat(" ", maxRequestBytes+1), 413, "null", codeInvalidRequest},
	}
	tr := startTrial(t, signed)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := send(t, tr, http.MethodPost, "Bearer "+tr.alice.bearerToken, test.body)
			var answer rpcResponse
			if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Error == nil {
				t.Fatalf("status %d: %s", status, body)
			}
			if status != test.status || string(answer.ID) != test.id || answer.Error.Code != test.code {
				t.Errorf("status %d, id %s, error %v", status, answer.ID, answer.Error)
			}
		})
	}
}

// What the client has to know in order to do better stands in the data.
func TestDataOfProtocolErrors(t *testing.T) {
	tests := map[string]struct{ change, into, data string }{
		"version":    {`"2026-07-28"`, `"2025-11-25"`, `{"requested":"2025-11-25","supported":["2026-07-28"]}`},
		"capability": {`"elicitation":{}`, ``, `{"requiredCapabilities":{"elicitation":{}}}`},
	}
	tr := startTrial(t, signed)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			body := strings.Replace(toolsCall(`"arguments":`+approvedArguments), test.change, test.into, 1)
			_, answer := send(t, tr, http.MethodPost, "Bearer "+tr.alice.bearerToken, body)
			if !strings.Contains(answer, `"data":`+test.data) {
				t.Errorf("%s lacks the data %s", answer, test.data)
			}
		})
	}
}

// A clock that cannot be used is the server's own trouble, of which the client learns nothing, with a state or without.
func TestInternalError(t *testing.T) {
	tr := startTrial(t, signed)
	tr.clock.unix.Store(-1)
	for _, further := range []string{``, `,"requestState":"v1.e30.e30"`} {
		body := toolsCall(`"arguments":` + approvedArguments + further)
		status, answer := send(t, tr, http.MethodPost, "Bearer "+tr.alice.bearerToken, body)
		const want = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"internal error"}}`
		if status != http.StatusInternalServerError || strings.TrimSpace(answer) != want {
			t.Errorf("status %d: %s", status, answer)
		}
		if logged := tr.log.take(); !strings.HasPrefix(logged, "call failed: ") || !strings.Contains(logged, "clock") {
			t.Errorf("the log has %q", logged)
		}
	}
}

// The request would deploy, if it were one that the server takes.
func TestRequestsThatGetNoResult(t *testing.T) {
	tr := startTrial(t, plain)
	alice := "Bearer " + tr.alice.bearerToken
	call := toolsCall(`"arguments":` + approvedArguments + `,"requestState":"{\"environment\":\"staging\"}",` +
		`"inputResponses":{"confirm":{"action":"accept","content":{"confirm":true}}}`)
	tests := map[string]struct {
		method, authorization, body string
		status                      int
	}{
		"no token":      {http.MethodPost, "", call, http.StatusUnauthorized},
		"another token": {http.MethodPost, alice + "x", call, http.StatusUnauthorized},
		"no bearer":     {http.MethodPost, "Basic " + tr.alice.bearerToken, call, http.StatusUnauthorized},
		"GET":           {http.MethodGet, alice, call, http.StatusMethodNotAllowed},
		"notification":  {http.MethodPost, alice, strings.Replace(call, `"id":7,`, ``, 1), http.StatusAccepted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := send(t, tr, test.method, test.authorization, test.body)
			if status != test.status || strings.Contains(body, "result") {
				t.Errorf("status %d, want %d: %s", status, test.status, body)
			}
			if done := tr.ledger.deployments(); len(done) > 0 {
				t.Errorf("deployed %v", done)
			}
		})
	}
	if status, body := send(t, tr, http.MethodPost, alice, call); status != 200 || len(tr.ledger.deployments()) != 1 {
		t.Errorf("the request itself: status %d: %s", status, body)
	}
}
