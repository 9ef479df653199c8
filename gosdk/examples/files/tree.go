package main

import (
	"io/fs"
	"slices"
	"strings"
)

// maxPosition leaves room in a cursor for the tool's name and a user id of some 40 bytes.
const maxPosition = 200

// listPage returns the names of regular files under fsys that end with suffix, in the order in which [fs.WalkDir] goes,
// from the first after the name given, and whether there are more. A page has limit names, or more if it takes them to
// end at one that fits into a cursor. Files may come and go between pages: of those that stay, each is listed once.
func listPage(fsys fs.FS, after, suffix string, limit int) (names []string, more bool, err error) {
	names = []string{}
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && liesBefore(name, after):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !strings.HasSuffix(name, suffix) || comparePaths(name, after) <= 0:
			return nil
		case len(names) >= limit && len(names[len(names)-1]) <= maxPosition:
			more = true
			return fs.SkipAll
		}
		names = append(names, name)
		return nil
	})
	return names, more, err
}

// liesBefore reports whether all that is in the directory comes before the name.
func liesBefore(dir, name string) bool {
	return dir != "." && comparePaths(dir, name) < 0 && !strings.HasPrefix(name, dir+"/")
}

// comparePaths orders paths as fs.WalkDir visits them: by their elements, so that a/b comes before a-b.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}
