package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/contoken/contoken"
)

// cursorArgument is the argument that brings a cursor back, by the convention of ATD.
const cursorArgument = "__cursor"

// tools are the tools by their name, each as the test of what it lists.
var tools = map[string]entryTest{
	"fs.list": func(entry fs.DirEntry) bool { return entry.Type().IsRegular() },
	"fs.dirs": fs.DirEntry.IsDir,
}

// page is the result of a call.
type page struct {
	Paths      []string `json:"paths"` // relative to the argument dir
	NextCursor string   `json:"nextCursor,omitempty"`
}

// pager answers the calls of tools over one tree, a page at a time.
type pager struct {
	root     fs.FS
	pageSize int
	cursors  *contoken.CursorIssuer
}

func newPager(root fs.FS, pageSize int, keys *contoken.KeyRing, now func() time.Time) (*pager, error) {
	cursors, err := contoken.NewCursorIssuer(keys, &contoken.CursorOptions{
		Audience:       "contoken/examples/pagination",
		RequireSubject: true,
		Now:            now,
	})
	if err != nil {
		return nil, err
	}
	return &pager{root, pageSize, cursors}, nil
}

// call is a call of a tool as the client made it, and who made it.
type call struct {
	subject   string
	tool      string
	arguments json.RawMessage
}

// scope says for what a cursor is good: for this user, this tool and these arguments. It is made here and nowhere
// else, from the authenticated request alone, so that what a cursor is issued under is what it must come back under.
func (c call) scope() (contoken.Scope, error) {
	args, err := contoken.FingerprintArgs(c.arguments, cursorArgument)
	if err != nil {
		return contoken.Scope{}, invalidParams("the arguments are not plain JSON")
	}
	return contoken.Scope{Tool: c.tool, Subject: c.subject, Args: args}, nil
}

// answer returns the page that a call asks for.
func (p *pager) answer(ctx context.Context, c call) (*page, error) {
	want, ok := tools[c.tool]
	if !ok {
		return nil, invalidParams("no such tool")
	}
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	args, err := parseArguments(c.arguments)
	if err != nil {
		return nil, err
	}
	start, err := p.resume(scope, args.cursor)
	if err != nil {
		return nil, err
	}
	tree, err := subtree(p.root, args.dir)
	if err != nil {
		return nil, err
	}
	return p.page(ctx, tree, start, func(entry fs.DirEntry) bool {
		matched, _ := path.Match(args.pattern, entry.Name()) // the pattern has been checked
		return matched && want(entry)
	})
}

// resume returns where a call continues. Only a call without the cursor argument starts at page one: whatever else
// that argument holds is a cursor, and refused if it is not one of ours for this call.
func (p *pager) resume(scope contoken.Scope, argument json.RawMessage) (contoken.CursorPayload, error) {
	if argument == nil {
		return contoken.CursorPayload{Scope: scope, PageIndex: 1}, nil
	}
	var cursor string
	if json.Unmarshal(argument, &cursor) != nil {
		return contoken.CursorPayload{}, contoken.ErrMalformed
	}
	return p.cursors.Verify(scope, cursor) // "" and null are ErrMalformed as well
}

// page returns the paths that follow start, and the cursor to more if there are more.
//
// The position in the cursor is the last path of the page. A path that is too long for a cursor cannot end a page, so
// such a page goes on to the first path that can: it grows, but nothing is lost. Where that might take thousands of
// paths, page by something shorter, such as a row number. Paths are relative to the argument dir, which keeps them
// short and costs no safety: the cursor is bound to the arguments.
func (p *pager) page(ctx context.Context, tree fs.FS, start contoken.CursorPayload, want entryTest) (*page, error) {
	result := &page{Paths: []string{}}
	for name, err := range pathsAfter(ctx, tree, string(start.OpaqueState), want) {
		if err != nil {
			return nil, err
		}
		if n := len(result.Paths); n >= p.pageSize {
			result.NextCursor, err = p.cursors.Issue(start.Scope, start.PageIndex+1, []byte(result.Paths[n-1]))
			if err == nil {
				return result, nil
			}
			if !errors.Is(err, contoken.ErrTooLarge) {
				return nil, err
			}
		}
		result.Paths = append(result.Paths, name)
	}
	return result, nil
}

// arguments are those of both tools.
type arguments struct {
	dir     string          // the directory to list, with all below it; all of the tree by default
	pattern string          // what the last element of a path has to match, as in path.Match; anything by default
	cursor  json.RawMessage // nil: there is none
}

// parseArguments reads arguments that have a fingerprint, which rules out duplicate names. A map knows names by their
// exact spelling, where a struct would take "__CURSOR" for "__cursor".
func parseArguments(raw json.RawMessage) (arguments, error) {
	args := arguments{dir: ".", pattern: "*"}
	if len(raw) == 0 {
		return args, nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return arguments{}, invalidParams("the arguments are not an object")
	}
	for name, value := range members {
		var err error
		switch name {
		case "dir":
			err = json.Unmarshal(value, &args.dir)
		case "pattern":
			err = json.Unmarshal(value, &args.pattern)
		case cursorArgument:
			args.cursor = value
		default:
			return arguments{}, invalidParams("there is an unknown argument")
		}
		if err != nil {
			return arguments{}, invalidParams(name + " is not a string")
		}
	}
	if _, err := path.Match(args.pattern, ""); err != nil {
		return arguments{}, invalidParams("pattern is malformed")
	}
	return args, nil
}

func subtree(root fs.FS, dir string) (fs.FS, error) {
	info, err := fs.Stat(root, dir)
	if err != nil || !info.IsDir() {
		return nil, invalidParams("dir is not a directory of the tree")
	}
	return fs.Sub(root, dir)
}
