package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/gosdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const audience = "files"

type config struct {
	root           string
	keys           *contoken.KeyRing
	requireSubject bool
	logger         *slog.Logger
	now            func() time.Time // nil: time.Now
}

// fileServer holds what the tools need.
type fileServer struct {
	root    *os.Root
	cursors *contoken.CursorIssuer
	logger  *slog.Logger
}

func newServer(c config) (*mcp.Server, error) {
	root, err := os.OpenRoot(c.root) // no path that a client sends leads out of it
	if err != nil {
		return nil, err
	}
	cursors, err := contoken.NewCursorIssuer(c.keys, &contoken.CursorOptions{
		Audience: audience, RequireSubject: c.requireSubject, Now: c.now,
	})
	if err != nil {
		return nil, err
	}
	boundary, err := gosdk.NewBoundary(c.keys, &gosdk.Options{
		Audience: audience, RequireSubject: c.requireSubject, Logger: c.logger, Now: c.now,
	})
	if err != nil {
		return nil, err
	}
	files := &fileServer{root, cursors, c.logger}
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	server.AddReceivingMiddleware(boundary.Middleware)
	mcp.AddTool(server, &mcp.Tool{
		Name:        listTool,
		Description: "Lists files, a page at a time. For the next page, repeat the call with nextCursor added as cursor.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, files.list)
	mcp.AddTool(server, &mcp.Tool{
		Name:        deleteTool,
		Description: "Deletes a file, after asking the user.",
	}, files.delete)
	return server, nil
}

const listTool = "list_files"

type listInput struct {
	Suffix string  `json:"suffix,omitempty" jsonschema:"list only files whose name ends with this"`
	Limit  int     `json:"limit,omitempty" jsonschema:"files a page, at most 1000; 100 if left out"`
	Cursor *string `json:"cursor,omitempty" jsonschema:"the nextCursor of the page before"`
}

type listOutput struct {
	Files      []string `json:"files"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

func (s *fileServer) list(
	ctx context.Context, req *mcp.CallToolRequest, in listInput,
) (*mcp.CallToolResult, listOutput, error) {
	scope, err := listScope(ctx, req)
	if err != nil {
		return nil, listOutput{}, err
	}
	position := contoken.CursorPayload{PageIndex: 1}
	if in.Cursor != nil {
		if position, err = s.cursors.Verify(scope, *in.Cursor); err != nil {
			s.logger.WarnContext(ctx, "cursor refused", "cause", err)
			return nil, listOutput{}, errors.New(contoken.PublicMessage)
		}
	}
	if in.Limit <= 0 {
		in.Limit = 100
	}
	files, more, err := listPage(s.root.FS(), string(position.OpaqueState), in.Suffix, min(in.Limit, 1000))
	if err != nil || !more {
		return nil, listOutput{Files: files}, err
	}
	next, err := s.cursors.Issue(scope, position.PageIndex+1, []byte(files[len(files)-1]))
	return nil, listOutput{files, next}, err
}

// listScope binds cursors to the caller and to all arguments but the cursor itself, as the client wrote them.
func listScope(ctx context.Context, req *mcp.CallToolRequest) (contoken.Scope, error) {
	subject, err := gosdk.TokenUserID(ctx, req)
	if err != nil {
		return contoken.Scope{}, err
	}
	args, err := contoken.FingerprintArgs(req.Params.Arguments, "cursor")
	return contoken.Scope{Tool: listTool, Subject: subject, Args: args}, err
}

const deleteTool = "delete_file"

type deleteInput struct {
	Path string `json:"path" jsonschema:"the file, as list_files names it"`
}

type deleteOutput struct {
	Deleted string `json:"deleted,omitempty"`
}

// deletion is the state between the question and the answer. It is plaintext here, and a token outside of the boundary.
type deletion struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // Unix nanoseconds
}

func (s *fileServer) delete(
	_ context.Context, req *mcp.CallToolRequest, in deleteInput,
) (*mcp.CallToolResult, deleteOutput, error) {
	answer, answered := req.Params.InputResponses["confirm"].(*mcp.ElicitResult)
	if !answered || req.Params.RequestState == "" { // an answer to a question that was never asked is none
		res, err := s.askToDelete(in.Path)
		return res, deleteOutput{}, err
	}
	if answer.Action != "accept" {
		return nil, deleteOutput{}, nil
	}
	var asked deletion
	if err := json.Unmarshal([]byte(req.Params.RequestState), &asked); err != nil {
		return nil, deleteOutput{}, err
	}
	if now, err := s.describe(asked.Path); err != nil || now != asked {
		return nil, deleteOutput{}, errors.New("the file has changed since the user was asked")
	}
	return nil, deleteOutput{asked.Path}, s.root.Remove(asked.Path)
}

func (s *fileServer) askToDelete(path string) (*mcp.CallToolResult, error) {
	file, err := s.describe(path)
	if err != nil {
		return nil, err
	}
	state, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	question := &mcp.ElicitParams{
		Message:         fmt.Sprintf("Delete %s, %d bytes?", file.Path, file.Size),
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	}
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{"confirm": question},
		RequestState:  string(state),
	}, nil
}

// describe returns the deletion of a file as it is now.
func (s *fileServer) describe(path string) (deletion, error) {
	info, err := s.root.Lstat(path)
	if err != nil {
		return deletion{}, errors.New("no such file")
	}
	if !info.Mode().IsRegular() {
		return deletion{}, errors.New("not a regular file")
	}
	return deletion{path, info.Size(), info.ModTime().UnixNano()}, nil
}
