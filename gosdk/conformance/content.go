package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The smallest image and sound: one red pixel, and a WAV file without samples.
var (
	pixelPNG = mustDecode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" +
		"AAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	pixel   = &mcp.ImageContent{MIMEType: "image/png", Data: pixelPNG}
	silence = &mcp.AudioContent{
		MIMEType: "audio/wav",
		Data:     mustDecode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="),
	}
)

func mustDecode(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return data
}

func embedded(uri string) *mcp.EmbeddedResource {
	contents := &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "An embedded resource"}
	return &mcp.EmbeddedResource{Resource: contents}
}

func addPrompts(server *mcp.Server) {
	addPrompt(server, "test_simple_prompt", simplePrompt)
	addPrompt(server, "test_prompt_with_image", imagePrompt)
	addPrompt(server, "test_prompt_with_arguments", argumentsPrompt, "arg1", "arg2")
	addPrompt(server, "test_prompt_with_embedded_resource", resourcePrompt, "resourceUri")
}

func addPrompt(server *mcp.Server, name string, handler mcp.PromptHandler, arguments ...string) {
	prompt := &mcp.Prompt{Name: name, Description: "For the scenarios that get " + name}
	for _, argument := range arguments {
		prompt.Arguments = append(prompt.Arguments, &mcp.PromptArgument{
			Name: argument, Description: "Part of the text", Required: true,
		})
	}
	server.AddPrompt(prompt, handler)
}

func userPrompt(contents ...mcp.Content) *mcp.GetPromptResult {
	res := new(mcp.GetPromptResult)
	for _, content := range contents {
		res.Messages = append(res.Messages, &mcp.PromptMessage{Role: "user", Content: content})
	}
	return res
}

func simplePrompt(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return userPrompt(&mcp.TextContent{Text: "This is a simple prompt for testing."}), nil
}

func imagePrompt(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return userPrompt(pixel, &mcp.TextContent{Text: "Please describe the image."}), nil
}

func argumentsPrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	args := req.Params.Arguments
	return userPrompt(&mcp.TextContent{Text: fmt.Sprintf("arg1='%s', arg2='%s'", args["arg1"], args["arg2"])}), nil
}

func resourcePrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	uri := req.Params.Arguments["resourceUri"]
	return userPrompt(embedded(uri), &mcp.TextContent{Text: "Please process the resource."}), nil
}

const templatePrefix, templateSuffix = "test://template/", "/data"

func addResources(server *mcp.Server) {
	static := func(uri, mimeType string, contents mcp.ResourceContents) {
		contents.URI, contents.MIMEType = uri, mimeType
		server.AddResource(&mcp.Resource{Name: strings.TrimPrefix(uri, "test://"), URI: uri, MIMEType: mimeType},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&contents}}, nil
			})
	}
	static("test://static-text", "text/plain", mcp.ResourceContents{Text: "A static text resource."})
	static("test://static-binary", "image/png", mcp.ResourceContents{Blob: pixelPNG})
	static("test://watched-resource", "text/plain", mcp.ResourceContents{Text: "A resource that clients subscribe to."})
	server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "template", URITemplate: templatePrefix + "{id}" + templateSuffix, MIMEType: "application/json",
	}, readTemplate)
}

func readTemplate(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, templatePrefix), templateSuffix)
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
		URI: req.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id": %q, "templateTest": true}`, id),
	}}}, nil
}
