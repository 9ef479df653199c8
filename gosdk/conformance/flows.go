//lint:file-ignore SA1019 the suite covers features that the protocol deprecates

package main

import (
	"context"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// flow is a call that asks for input in one round or several before it completes. With state, each round says in
// requestState which one it is, and the next takes it at its word: only the boundary stands between the two.
type flow struct {
	rounds []mcp.InputRequestMap
	state  bool
}

func addFlows(server *mcp.Server) {
	name := elicit("What is your name?", "name", "string")
	confirm := elicit("Please confirm", "ok", "boolean")
	for tool, f := range map[string]flow{
		"elicitation":    {rounds: []mcp.InputRequestMap{{"user_name": name}}},
		"sampling":       {rounds: []mcp.InputRequestMap{{"capital_question": sample("What is the capital of France?")}}},
		"list_roots":     {rounds: []mcp.InputRequestMap{{"client_roots": new(mcp.ListRootsParams)}}},
		"request_state":  {rounds: []mcp.InputRequestMap{{"confirm": confirm}}, state: true},
		"tampered_state": {rounds: []mcp.InputRequestMap{{"confirm": confirm}}, state: true},
		"multiple_inputs": {rounds: []mcp.InputRequestMap{{
			"user_name": name, "greeting": sample("Generate a greeting"), "client_roots": new(mcp.ListRootsParams),
		}}, state: true},
		"multi_round": {rounds: []mcp.InputRequestMap{
			{"step1": elicit("Step 1: What is your name?", "name", "string")},
			{"step2": elicit("Step 2: What is your favorite color?", "color", "string")},
		}, state: true},
	} {
		addTool(server, "test_input_required_result_"+tool, f.callTool)
	}
	addTool(server, "test_input_required_result_capabilities", askWhatClientCanAnswer)

	prompt := flow{rounds: []mcp.InputRequestMap{{
		"user_context": elicit("Please provide context for the prompt", "context", "string"),
	}}}
	addPrompt(server, "test_input_required_result_prompt", prompt.getPrompt)
}

func elicit(message, property, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: &jsonschema.Schema{
		Type:       "object",
		Properties: map[string]*jsonschema.Schema{property: {Type: kind}},
		Required:   []string{property},
	}}
}

func sample(prompt string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}},
		MaxTokens: 100,
	}
}

func (f flow) callTool(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	questions, state := f.next(req.Params.RequestState, req.Params.InputResponses)
	if questions == nil {
		return text("state-ok: all input received"), nil
	}
	return &mcp.CallToolResult{InputRequests: questions, RequestState: state}, nil
}

func (f flow) getPrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	questions, state := f.next(req.Params.RequestState, req.Params.InputResponses)
	if questions == nil {
		answer := req.Params.InputResponses["user_context"].(*mcp.ElicitResult)
		return userPrompt(&mcp.TextContent{Text: fmt.Sprint("Context: ", answer.Content["context"])}), nil
	}
	return &mcp.GetPromptResult{InputRequests: questions, RequestState: state}, nil
}

// next returns what to ask for in which state, or no questions if all rounds are over. Questions that were not answered
// as they should are asked again.
func (f flow) next(state string, answers mcp.InputResponseMap) (mcp.InputRequestMap, string) {
	round := 0
	fmt.Sscanf(state, "round %d", &round) // reads over whatever a client adds to the state
	if 0 <= round && round < len(f.rounds) && allAnswered(f.rounds[round], answers) {
		round++
	}
	if round < 0 || round >= len(f.rounds) {
		return nil, ""
	}
	if !f.state {
		return f.rounds[round], ""
	}
	return f.rounds[round], fmt.Sprintf("round %d", round)
}

func allAnswered(questions mcp.InputRequestMap, answers mcp.InputResponseMap) bool {
	for key, question := range questions {
		if !answered(question, answers[key]) {
			return false
		}
	}
	return true
}

func answered(question mcp.InputRequest, answer mcp.InputResponse) bool {
	switch question := question.(type) {
	case *mcp.ElicitParams:
		result, ok := answer.(*mcp.ElicitResult)
		return ok && result.Action == "accept" && conforms(result.Content, question.RequestedSchema.(*jsonschema.Schema))
	case *mcp.CreateMessageParams:
		_, ok := answer.(*mcp.CreateMessageWithToolsResult) // the SDK reads both kinds of sampling result as this one
		return ok
	case *mcp.ListRootsParams:
		_, ok := answer.(*mcp.ListRootsResult)
		return ok
	default:
		return false
	}
}

func conforms(content map[string]any, schema *jsonschema.Schema) bool {
	resolved, err := schema.Resolve(nil)
	return err == nil && resolved.Validate(content) == nil
}

// askWhatClientCanAnswer asks only for kinds of input that the client says it supports.
func askWhatClientCanAnswer(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	questions := mcp.InputRequestMap{}
	if capabilities := req.ClientCapabilities(); capabilities != nil {
		if capabilities.Elicitation != nil {
			questions["user_name"] = elicit("What is your name?", "name", "string")
		}
		if capabilities.Sampling != nil {
			questions["greeting"] = sample("Generate a short greeting")
		}
		if capabilities.RootsV2 != nil {
			questions["client_roots"] = new(mcp.ListRootsParams)
		}
	}
	if len(questions) == 0 || len(req.Params.InputResponses) > 0 {
		return text("nothing more to ask"), nil
	}
	return &mcp.CallToolResult{InputRequests: questions}, nil
}
