package main

import "testing"

// answering returns the request that answers the question under key, after result.
func answering(result *toolResult, key string, answer elicitResult) toolParams {
	params := newParams(approvedArguments)
	params.InputResponses = map[string]elicitResult{key: answer}
	params.RequestState = result.RequestState
	return params
}

func accept(key string, value any) elicitResult {
	return elicitResult{actionAccept, map[string]any{key: value}}
}

func mustCall(t *testing.T, c *client, params toolParams) *toolResult {
	t.Helper()
	result, err := c.call(params)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestAnswersThatDeployNothing(t *testing.T) {
	staging := accept(askEnvironment, "staging")
	var none elicitResult
	tests := map[string]struct {
		environment, confirm elicitResult
		failed               bool
	}{
		"no environment":       {elicitResult{Action: "decline"}, none, false},
		"production":           {accept(askEnvironment, "production"), none, true},
		"empty environment":    {accept(askEnvironment, ""), none, true},
		"not text":             {accept(askEnvironment, 1), none, true},
		"not confirmed":        {staging, accept(askConfirm, false), false},
		"confirmed in words":   {staging, accept(askConfirm, "true"), false},
		"an empty form":        {staging, elicitResult{Action: actionAccept}, false},
		"declined though true": {staging, elicitResult{"decline", map[string]any{askConfirm: true}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tr := startTrial(t, signed)
			result := mustCall(t, tr.alice, newParams(approvedArguments))
			result = mustCall(t, tr.alice, answering(result, askEnvironment, test.environment))
			if test.confirm.Action != "" {
				result = mustCall(t, tr.alice, answering(result, askConfirm, test.confirm))
			}
			if result.ResultType != resultComplete || result.IsError != test.failed || result.RequestState != nil {
				t.Errorf("got %+v", result)
			}
			if done := tr.ledger.deployments(); len(done) > 0 {
				t.Errorf("deployed %v", done)
			}
		})
	}
}

func TestUserWithoutRightsIsNotAsked(t *testing.T) {
	tr := startTrial(t, signed)
	result := mustCall(t, tr.bob, newParams(approvedArguments))
	if result.ResultType != resultComplete || !result.IsError || result.Content[0].Text != "bob may not deploy" {
		t.Errorf("got %+v", result)
	}
}

// What the client leaves unanswered is asked again, and no answer to a later question takes its place.
func TestMissingAnswerIsAskedAgain(t *testing.T) {
	for protection := range protections {
		tr := startTrial(t, protection)
		first := mustCall(t, tr.alice, newParams(approvedArguments))
		again := mustCall(t, tr.alice, answering(first, askConfirm, accept(askConfirm, true)))
		if _, asked := again.InputRequests[askEnvironment]; !asked {
			t.Errorf("%s: a confirmation in round 2: got %+v", tr.title, again)
		}
		second := mustCall(t, tr.alice, answering(again, askEnvironment, accept(askEnvironment, "staging")))
		again = mustCall(t, tr.alice, answering(second, askEnvironment, accept(askEnvironment, "preview")))
		if question := again.InputRequests[askConfirm].Params.Message; question != "Deploy api 4f2c9e1 to staging?" {
			t.Errorf("%s: another environment in round 3: got %+v", tr.title, again)
		}
		if done := tr.ledger.deployments(); len(done) > 0 {
			t.Errorf("%s: deployed %v", tr.title, done)
		}
	}
}

// The arguments are compared for what they say and not for how they are written.
func TestStateSurvivesAnotherSpellingOfTheArguments(t *testing.T) {
	tr := startTrial(t, signed)
	_, confirmation, err := tr.alice.approve(approvedArguments)
	if err != nil {
		t.Fatal(err)
	}
	confirmation.Arguments = []byte(`{ "commit": "4f2c9e1", "service": "\u0061pi" }`)
	if _, err := tr.alice.call(confirmation); err != nil {
		t.Error(err)
	}
}

func TestClientReportsAServerThatDoesNotKnowIt(t *testing.T) {
	tr := startTrial(t, plain)
	tr.alice.bearerToken += "x"
	_, err := tr.alice.call(newParams(approvedArguments))
	if err == nil || err.Error() != "the server answered 401 Unauthorized" {
		t.Errorf("got %v", err)
	}
}
