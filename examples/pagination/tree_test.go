package main

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/contoken/contoken"
)

// unreadable is a tree in which one directory cannot be read.
type unreadable struct {
	fstest.MapFS
	dir string
	err error
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: u.err}
	}
	return u.MapFS.ReadDir(name)
}

func mapFS(files ...string) fstest.MapFS {
	tree := fstest.MapFS{}
	for _, name := range files {
		tree[name] = &fstest.MapFile{}
	}
	return tree
}

// nextPage returns the page that the tool has for alice after the cursor, or the first one.
func nextPage(t *testing.T, p *pager, tool, cursor string) *page {
	t.Helper()
	c := call{subject: "alice", tool: tool}
	if cursor != "" {
		c.arguments = fmt.Appendf(nil, `{"__cursor":%q}`, cursor)
	}
	result, err := p.answer(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// allPages returns what the tool lists, page by page.
func allPages(t *testing.T, p *pager, tool string) [][]string {
	t.Helper()
	var pages [][]string
	for cursor := ""; ; {
		result := nextPage(t, p, tool, cursor)
		pages = append(pages, result.Paths)
		if cursor = result.NextCursor; cursor == "" {
			return pages
		}
	}
}

func TestPagesOfAnySizeHoldEachFileOnceInTheOrderOfAWalk(t *testing.T) {
	tree := mapFS(nastyFiles...)
	for size := 1; size <= len(nastyFiles)+1; size++ {
		pages := allPages(t, newTestPager(t, tree, size), "fs.list")
		if got := slices.Concat(pages...); !slices.Equal(got, nastyFiles) {
			t.Errorf("pages of %d hold %q, want %q", size, got, nastyFiles)
		}
		if last := pages[len(pages)-1]; len(last) == 0 {
			t.Errorf("pages of %d: the last one is empty", size)
		}
	}
}

func TestPathTooLongForACursorEndsNoPage(t *testing.T) {
	dir := strings.Repeat("p", contoken.MaxOpaqueStateBytes-16) + "/"
	tooLong, tooLongToo, fits := dir+strings.Repeat("a", 16), dir+strings.Repeat("b", 16), dir+strings.Repeat("c", 15)
	got := allPages(t, newTestPager(t, mapFS("a", tooLong, tooLongToo, fits, "z"), 1), "fs.list")
	want := [][]string{{"a"}, {tooLong, tooLongToo, fits}, {"z"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("pages %q, want %q", got, want)
	}
}

func TestListingSurvivesChangesBetweenPages(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(fstest.MapFS)
		want   []string // on page two
	}{
		{"nothing", func(fstest.MapFS) {}, []string{"b/2", "c"}},
		{"last path gone", func(tree fstest.MapFS) { delete(tree, "b/1") }, []string{"b/2", "c"}},
		{"its directory gone", func(tree fstest.MapFS) { delete(tree, "b/1"); delete(tree, "b/2") }, []string{"c"}},
		{"new before it", func(tree fstest.MapFS) { tree["a0"] = &fstest.MapFile{} }, []string{"b/2", "c"}},
		{"new right before it", func(tree fstest.MapFS) { tree["b/0"] = &fstest.MapFile{} }, []string{"b/2", "c"}},
		{"new right after it", func(tree fstest.MapFS) { tree["b/10"] = &fstest.MapFile{} }, []string{"b/10", "b/2", "c"}},
		{"new at the end", func(tree fstest.MapFS) { tree["d"] = &fstest.MapFile{} }, []string{"b/2", "c", "d"}},
		{"directory in its place", func(tree fstest.MapFS) {
			delete(tree, "b/1")
			tree["b/1/x"] = &fstest.MapFile{}
		}, []string{"b/1/x", "b/2", "c"}},
		{"file in place of its directory", func(tree fstest.MapFS) {
			delete(tree, "b/1")
			delete(tree, "b/2")
			tree["b"] = &fstest.MapFile{}
		}, []string{"c"}},
		{"all gone", func(tree fstest.MapFS) { clear(tree) }, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := mapFS("a", "b/1", "b/2", "c")
			p := newTestPager(t, tree, 2)
			first := nextPage(t, p, "fs.list", "")
			test.change(tree)
			p.pageSize = 10
			if got := nextPage(t, p, "fs.list", first.NextCursor).Paths; !slices.Equal(got, test.want) {
				t.Errorf("page two is %q, want %q", got, test.want)
			}
		})
	}
}

// recorder is a tree that notes which directories are read.
type recorder struct {
	fstest.MapFS
	read *[]string
}

func (r recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	*r.read = append(*r.read, name)
	return r.MapFS.ReadDir(name)
}

func TestPageReadsOnlyTheDirectoriesThatItNeeds(t *testing.T) {
	var read []string
	tree := recorder{mapFS("a/1", "b/c/1", "b/d/1", "b/d/2", "b/d/3", "b/e/1", "f/1"), &read}
	next, stop := iter.Pull2(pathsAfter(t.Context(), tree, "b/d/1", tools["fs.list"]))
	defer stop()
	for _, want := range []string{"b/d/2", "b/d/3"} {
		if got, err, _ := next(); got != want || err != nil {
			t.Errorf("next path %q (%v), want %q", got, err, want)
		}
	}
	if want := []string{".", "b", "b/d"}; !slices.Equal(read, want) {
		t.Errorf("read %q, want %q", read, want)
	}
}

func TestDirectoryThatGoesAwayDuringTheWalkIsNoError(t *testing.T) {
	tree := unreadable{mapFS("a", "b/1", "c"), "b", fs.ErrNotExist}
	got := allPages(t, newTestPager(t, tree, 10), "fs.list")
	if want := [][]string{{"a", "c"}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("pages %q, want %q", got, want)
	}
}

func TestWhatCannotBeListedIsAnError(t *testing.T) {
	for _, test := range []struct {
		name string
		tree fs.FS
	}{
		{"directory that may not be read", unreadable{mapFS("a/1", "b"), "a", fs.ErrPermission}},
		{"root that went away", unreadable{mapFS("a"), ".", fs.ErrNotExist}},
		{"file name that is not UTF-8", mapFS("a\xff", "b")},
		{"directory name that is not UTF-8", mapFS("a\xff/1", "b")},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newTestPager(t, test.tree, 10).answer(t.Context(), call{subject: "alice", tool: "fs.list"})
			if _, told := errors.AsType[*rpcError](err); err == nil || told {
				t.Errorf("error %v, want one for the log", err)
			}
		})
	}
}

func TestSymbolicLinksAreNotFollowed(t *testing.T) {
	dir := writeTree(t, []string{"outside/secret", "tree/a/1", "tree/b"})
	for link, target := range map[string]string{"tree/a/loop": "..", "tree/out": "../outside"} {
		if err := os.Symlink(target, filepath.Join(dir, filepath.FromSlash(link))); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	root, err := os.OpenRoot(filepath.Join(dir, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	p := newTestPager(t, root.FS(), 10)
	got := allPages(t, p, "fs.list")
	if want := [][]string{{"a/1", "b"}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("pages %q, want %q", got, want)
	}
	_, err = p.answer(t.Context(), call{"alice", "fs.list", []byte(`{"dir":"out"}`)})
	if _, told := errors.AsType[*rpcError](err); !told {
		t.Errorf("error %v for a directory outside the tree, want invalid params", err)
	}
}

func TestDirectoriesArePagedToo(t *testing.T) {
	got := allPages(t, newTestPager(t, mapFS("a/b/1", "a-b/1", "c"), 1), "fs.dirs")
	if want := [][]string{{"a"}, {"a/b"}, {"a-b"}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("pages %q, want %q", got, want)
	}
}
