package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// entryTest says whether a tool lists an entry.
type entryTest = func(fs.DirEntry) bool

// pathsAfter yields the paths of all entries in fsys that want accepts and that sort after position, in the order of
// [fs.WalkDir]. An empty position is before them all. It does not follow symbolic links.
//
// The position is a path, and need not exist any more: what was there before the first page and is still there at the
// last one is yielded once, whatever comes and goes in between. Of the directories before the position, only those
// that lead to it are read; each directory is read whole, since a file system cannot start within one.
//
// An error ends the sequence. A directory that went away during the walk is no error; one that cannot be read is, and
// so is a name that is not UTF-8, since JSON could not carry it: to leave them out would be to lose them silently.
func pathsAfter(ctx context.Context, fsys fs.FS, position string, want entryTest) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := fs.WalkDir(fsys, ".", func(path string, entry fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case path == ".":
				return err
			case errors.Is(err, fs.ErrNotExist):
				return fs.SkipDir
			case err != nil:
				return err
			case !utf8.ValidString(path):
				return fmt.Errorf("path %q is not UTF-8", path)
			case entry.IsDir() && endsBefore(path, position):
				return fs.SkipDir
			case comparePaths(path, position) > 0 && want(entry) && !yield(path, nil):
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", err)
		}
	}
}

// comparePaths orders paths as fs.WalkDir visits them: element by element, so that a/x comes before a-b, although
// '-' sorts before '/'.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// endsBefore reports whether all that a directory can hold sorts before position.
func endsBefore(dir, position string) bool {
	return comparePaths(dir, position) < 0 && !strings.HasPrefix(position, dir+"/")
}
