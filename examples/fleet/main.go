// Fleet shows that a fleet of servers shares tokens and rotates keys without refusing one.
//
// It starts three server processes that read their keys from the file in CONTOKEN_KEYS_FILE, and behind them a store
// of one-time tokens. In front of them stands HAProxy or nginx, if one is installed, or else a reverse proxy of its own,
// which gives each request to the next instance in turn. Many callers then page through orders, answer the questions
// of refunds and race to redeem vouchers, while the keys rotate through the three steps, each instance is restarted
// and one is killed. The callers also present forged tokens. All of it then runs again with
// CursorOptions.PerProcess, that is with cursors that only the process that issued them takes.
//
// All traffic goes over Unix sockets in a temporary directory, and the program runs on Unix alone. What concerns
// contoken is in tools.go, keyfile.go and redeem.go.
//
//	cd examples/fleet && go run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// instanceCommand is the argument that has the program be an instance.
const instanceCommand = "instance"

const usage = `Usage: go run . [flags]

Runs three server processes behind a reverse proxy, with many callers that hop
between them, while keys rotate, instances restart and one is killed; then once
more with cursors that die with their process. Exits with 1 if a genuine token
of the first run is refused, a forged one accepted or a one-time token redeemed
twice.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := exitCode(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exitCode runs the program: 0 if all went as it should, 1 if not, 2 if it was called in a wrong way.
func exitCode(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == instanceCommand {
		return report(stderr, runInstance(ctx, stdin, stderr))
	}
	opts, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	return report(stderr, run(ctx, opts, stdout, stderr))
}

func report(stderr io.Writer, err error) int {
	if err != nil {
		fmt.Fprintln(stderr, "fleet:", err)
		return 1
	}
	return 0
}

type options struct {
	time    time.Duration // of both trials together, about
	callers int
	ttl     time.Duration // of all tokens
	log     io.Writer     // for what the processes log

	front, frontProgram string // as chooseFront returns them
}

// parseOptions reads the command line. It reports on stderr what is wrong with it, and the usage.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	opts := options{ttl: 4 * time.Second, log: io.Discard}
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.DurationVar(&opts.time, "time", 20*time.Second, "about how `long` to run; it takes some 12 seconds at least")
	flags.IntVar(&opts.callers, "callers", 48, "the `number` of concurrent callers, at least 2")
	proxy := flags.String("proxy", anyFront, "haproxy, nginx or builtin; auto is the first that is there")
	verbose := flags.Bool("v", false, "show what the processes log: every refusal, and why")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *verbose {
		opts.log = stderr
	}
	if flags.NArg() > 0 || opts.callers < 2 || opts.time <= 0 {
		fmt.Fprintln(stderr, "fleet: an argument that is no flag, or a flag out of range")
		flags.Usage()
		return options{}, errors.New("bad usage")
	}
	var err error
	if opts.front, opts.frontProgram, err = chooseFront(*proxy); err != nil {
		fmt.Fprintln(stderr, "fleet:", err)
	}
	return opts, err
}

// patience is how much longer than planned the program may take before it gives up.
const patience = 40 * time.Second

func run(ctx context.Context, opts options, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, opts.time+patience, errors.New("it takes far too long"))
	defer cancel()
	fmt.Fprintf(stdout, "Three instances behind %s, %d callers, tokens live %v.\n\n", frontNames[opts.front], opts.callers, opts.ttl)
	fmt.Fprintln(stdout, "Shared keys:")
	shared, err := runTrial(ctx, opts, false, stdout, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "\nThe same with per-process sessions:")
	perProcess, err := runTrial(ctx, opts, true, stdout, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	printTable(stdout, shared, perProcess)
	return verdict(shared, perProcess)
}

// verdict is what is wrong with the outcome.
func verdict(shared, perProcess *tally) error {
	errs := []error{shared.check(), perProcess.check()}
	if n := shared.refused[cursor].Load(); n > 0 {
		errs = append(errs, fmt.Errorf("%d genuine cursors refused", n))
	}
	if perProcess.refused[cursor].Load() == 0 {
		errs = append(errs, errors.New("no per-process cursor refused: the callers did not hop"))
	}
	return errors.Join(errs...)
}
