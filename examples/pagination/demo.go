package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/contoken/contoken"
)

// demo is a server, its two users, and what the users get from it.
type demo struct {
	opts options
	root fs.FS
	out  io.Writer

	clock                clock
	log                  serverLog
	aliceToken, bobToken string
	server               *server
	alice, bob           *client

	table    *tabwriter.Writer // of the attacks that were refused
	failures []error           // of the others
}

func newDemo(opts options, root fs.FS, out io.Writer) *demo {
	return &demo{
		opts:       opts,
		root:       root,
		out:        out,
		clock:      clock{base: opts.now},
		aliceToken: rand.Text(),
		bobToken:   rand.Text(),
		table:      tabwriter.NewWriter(out, 0, 0, 2, ' ', 0),
	}
}

// runDemo pages through the tree and then attacks. It fails if a file is missed or an attack is not refused as it
// should be.
func runDemo(ctx context.Context, opts options, root fs.FS, stdout, stderr io.Writer) error {
	d := newDemo(opts, root, stdout)
	if err := d.start(); err != nil {
		return err
	}
	err := d.show(ctx, stderr)
	if err != nil {
		stderr.Write(d.log.take()) // the server may know more
	}
	return errors.Join(err, d.stop())
}

func (d *demo) show(ctx context.Context, stderr io.Writer) error {
	if err := d.list(ctx, stderr); err != nil {
		return err
	}
	if err := d.attack(ctx); err != nil {
		return err
	}
	return errors.Join(d.failures...)
}

// start starts the server with a key that it has never had before, and connects its users.
func (d *demo) start() error {
	pager, err := newPager(d.root, d.opts.pageSize, contoken.EphemeralKeyRing(), d.clock.now)
	if err != nil {
		return err
	}
	server, err := startServer(d.opts.addr, &handler{
		pager: pager,
		users: []user{newUser("alice", d.aliceToken), newUser("bob", d.bobToken)},
		log:   slog.New(slog.NewJSONHandler(&d.log, nil)),
	})
	if err != nil {
		return err
	}
	d.server = server
	d.alice = newClient(server.url, d.aliceToken)
	d.bob = newClient(server.url, d.bobToken)
	return nil
}

func (d *demo) stop() error {
	d.alice.close()
	d.bob.close()
	return d.server.stop()
}

// list pages through all files and compares with a walk of the tree that has nothing to do with the server.
func (d *demo) list(ctx context.Context, stderr io.Writer) error {
	fmt.Fprintf(d.out, "alice pages through fs.list over %s, %d paths a page\n", d.opts.root, d.opts.pageSize)
	all, err := d.alice.listAll(ctx, "fs.list", nil, progressTo(stderr))
	if err != nil {
		return err
	}
	found, err := walk(d.opts.root)
	if err != nil {
		return err
	}
	if err := compareListing(all.paths, found); err != nil {
		return err
	}
	if all.pages < 2 {
		return errors.New("all files fit on one page, which has no cursor: take a smaller -page-size or a larger -root")
	}
	shortest, longest := slices.Min(all.cursorSizes), slices.Max(all.cursorSizes)
	fmt.Fprintf(d.out, "  pages    %d\n", all.pages)
	fmt.Fprintf(d.out, "  files    %d: those that a plain walk finds, each once\n", len(all.paths))
	fmt.Fprintf(d.out, "  cursors  %d to %d characters\n\n", shortest, longest)
	return nil
}

// progressTo returns a function that tells now and then how far a listing is.
func progressTo(w io.Writer) func(listing) {
	last := time.Now()
	return func(soFar listing) {
		if time.Since(last) > 2*time.Second {
			last = time.Now()
			fmt.Fprintf(w, "... %d pages, %d paths\n", soFar.pages, len(soFar.paths))
		}
	}
}

func walk(root string) ([]string, error) {
	var files []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// compareListing reports how the paths that were listed differ from those that were found.
func compareListing(listed, found []string) error {
	times := map[string]int{}
	for _, path := range listed {
		times[path]++
	}
	missed, repeated := 0, 0
	for _, path := range found {
		if times[path] == 0 {
			missed++
		}
		if times[path] > 1 {
			repeated++
		}
		delete(times, path)
	}
	if unknown := len(times); missed+repeated+unknown > 0 {
		return fmt.Errorf("the listing differs from a plain walk: %d files missed, %d repeated, %d the walk did not find",
			missed, repeated, unknown)
	}
	return nil
}
