//lint:file-ignore SA1019 the suite covers features that the protocol deprecates

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addTools adds the tools of the suite that need no continuation.
func addTools(server *mcp.Server) {
	for name, result := range map[string]*mcp.CallToolResult{
		"test_simple_text":       text("This is a simple text response for testing."),
		"test_image_content":     {Content: []mcp.Content{pixel}},
		"test_audio_content":     {Content: []mcp.Content{silence}},
		"test_embedded_resource": {Content: []mcp.Content{embedded("test://embedded-resource")}},
		"test_multiple_content_types": {Content: []mcp.Content{
			&mcp.TextContent{Text: "Multiple content types"}, pixel, embedded("test://mixed-content-resource"),
		}},
		"test_streaming_elicitation": text("The stream of this call carries its result and nothing else."),
	} {
		addTool(server, name, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return result, nil
		})
	}
	addTool(server, "test_error_handling", failTool)
	addTool(server, "test_tool_with_logging", logThrice)
	addTool(server, "test_logging_tool", logThrice)
	addTool(server, "test_tool_with_progress", reportProgress)
	addTool(server, "test_sampling", sampleInCall)
	addTool(server, "test_elicitation", elicitInCall(usernameSchema))
	addTool(server, "test_elicitation_sep1034_defaults", elicitInCall(defaultsSchema))
	addTool(server, "test_elicitation_sep1330_enums", elicitInCall(enumsSchema))
	addTool(server, "test_reconnection", dropConnection)
	addTool(server, "test_missing_capability", requireSampling)
	addTool(server, "test_trigger_tool_change", run(func() { addTool(server, "transient_tool", failTool) }))
	addTool(server, "test_trigger_prompt_change", run(func() { addPrompt(server, "transient_prompt", simplePrompt) }))
	addToolWithSchema(server, "json_schema_2020_12_tool", schema2020, echoArguments)
	addToolWithSchema(server, "test_x_mcp_header", headerSchema, echoArguments)
}

func addTool(server *mcp.Server, name string, handler mcp.ToolHandler) {
	addToolWithSchema(server, name, json.RawMessage(`{"type":"object"}`), handler)
}

func addToolWithSchema(server *mcp.Server, name string, schema json.RawMessage, handler mcp.ToolHandler) {
	server.AddTool(&mcp.Tool{Name: name, Description: "For the scenarios that call " + name, InputSchema: schema}, handler)
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// run returns a handler that does one thing.
func run(do func()) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		do()
		return text("done"), nil
	}
}

func failTool(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	res := new(mcp.CallToolResult)
	res.SetError(errors.New("this tool always fails"))
	return res, nil
}

func echoArguments(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return text("called with " + string(req.Params.Arguments)), nil
}

func logThrice(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, stage := range []string{"started", "processing", "completed"} {
		params := &mcp.LoggingMessageParams{Level: "info", Data: "Tool execution " + stage}
		if err := req.Session.Log(ctx, params); err != nil {
			return nil, err
		}
	}
	return text("logged"), nil
}

func reportProgress(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	for _, progress := range []float64{0, 50, 100} {
		params := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: progress, Total: 100}
		if err := req.Session.NotifyProgress(ctx, params); err != nil {
			return nil, err
		}
	}
	return text(fmt.Sprint(token)), nil
}

// sampleInCall asks for a completion while the call is under way, as protocol versions before 2026-07-28 do.
func sampleInCall(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct{ Prompt string }
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	res, err := req.Session.CreateMessage(ctx, sample(args.Prompt))
	if err != nil {
		return nil, err
	}
	answer, ok := res.Content.(*mcp.TextContent)
	if !ok {
		return nil, fmt.Errorf("sampling returned %T, want text", res.Content)
	}
	return text("LLM response: " + answer.Text), nil
}

// elicitInCall returns a handler that asks its user while the call is under way.
func elicitInCall(schema json.RawMessage) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Please fill in", RequestedSchema: schema})
		if err != nil {
			return nil, err
		}
		return text(fmt.Sprintf("Elicitation completed: action=%s, content=%v", res.Action, res.Content)), nil
	}
}

// dropConnection closes the stream of the call and answers once the client has had the time to come back.
func dropConnection(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Extra != nil && req.Extra.CloseSSEStream != nil {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return text("you have come back"), nil
	}
}

func requireSampling(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if capabilities := req.ClientCapabilities(); capabilities != nil && capabilities.Sampling != nil {
		return text("the client supports sampling"), nil
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{
		RequiredCapabilities: &mcp.ClientCapabilities{Sampling: new(mcp.SamplingCapabilities)},
	})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{
		Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client does not support sampling", Data: data,
	}
}
