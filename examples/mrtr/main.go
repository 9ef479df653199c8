// Mrtr shows the multi round-trip requests of MCP 2026-07-28 (SEP-2322) by hand, and what protects their state.
//
// A server on a loopback port offers the tool deploy. It asks twice before it deploys, where to and whether to, and in
// between it keeps nothing: what it has to remember goes to the client as requestState and comes back with the answers.
// The program goes through the call three times, with state in plain JSON, signed and encrypted, mounts the same
// attacks on each and reads from the server's ledger what was deployed. The tool is the same all three times, and
// the codec of its state is the only difference.
//
// A token can be redeemed until it expires. That round 3, sent twice, deploys once is the work of the ledger, which
// knows each deployment by a name in the state.
//
// Run it with "go run ./examples/mrtr"; with -v it prints the messages too.
//
// It is this one flow and not a whole MCP server: discovery, tools/list, the checks of the MCP headers and streaming
// are left out.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/contoken/contoken"
)

const usage = `Usage: mrtr [-v]

Goes through a tool call of three rounds (MCP 2026-07-28, multi round-trip requests) against a server on a loopback
port, three times: with requestState in plain JSON, signed and encrypted. Shows each time what a client can read of
the state and what it gains by rewriting it, by handing it to another user, by sending it with other arguments and by
waiting. The exit status is 1 if an attack on protected state succeeds or one on plain JSON fails.

  -v    also print every JSON-RPC message
`

const introduction = `alice may deploy to preview and staging, bob nowhere, and nobody to production. alice
approves staging, and each attack then changes one thing about the last round. Where that is refused,
this shows what the client is told | what the server logs. The client is also given the data
{"reason":"invalid_request_state"}, whatever the reason.
`

func main() { os.Exit(run(os.Args[1:], protections, os.Stdout, os.Stderr)) }

// run is main with its surroundings passed in. It returns the exit status.
func run(arguments []string, protections []protection, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mrtr", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	verbose := flags.Bool("v", false, "")
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		flags.Usage()
		return 2
	}
	messages := io.Discard
	if *verbose {
		messages = stdout
	}
	fmt.Fprint(stdout, introduction)
	if err := tryAll(protections, stdout, messages); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// protection is a way to hand state to a client, and what a client without a key can do to it.
type protection struct {
	title     string
	codec     func(now func() time.Time) (stateCodec, error)
	secure    bool // no attack may succeed; otherwise every one must
	secret    bool // the client cannot read the state; otherwise it must
	read      func(wire string) string
	rewriting string // what rewrite does
	rewrite   func(wire string) string
}

var protections = []protection{
	{
		title:     "plain JSON: the client can read the state and change it",
		codec:     func(func() time.Time) (stateCodec, error) { return plainJSON{}, nil },
		read:      readPlain,
		rewriting: "staging made production",
		rewrite:   rewritePlain,
	},
	{
		title:     "signed: the client can read the state, but not change it",
		codec:     tokens(contoken.ModeSigned),
		secure:    true,
		read:      readToken,
		rewriting: "staging made production",
		rewrite:   rewriteSigned,
	},
	{
		title:     "encrypted: the client can neither read the state nor change it",
		codec:     tokens(contoken.ModeEncrypted),
		secure:    true,
		secret:    true,
		read:      readToken,
		rewriting: "staging flipped to preview",
		rewrite:   rewriteEncrypted,
	},
}

// tokens is all that it takes to protect the state: a key ring and a codec. A server that restarts, or runs more than
// once, has its keys from contoken.KeyRingFromEnv instead.
func tokens(mode contoken.RequestStateMode) func(now func() time.Time) (stateCodec, error) {
	return func(now func() time.Time) (stateCodec, error) {
		options := contoken.RequestStateOptions{Mode: mode, Audience: "deploy", RequireSubject: true, Now: now}
		return contoken.NewRequestStateCodec(contoken.EphemeralKeyRing(), &options)
	}
}

// tryAll reports on every protection. The error says which did not turn out as it must.
func tryAll(protections []protection, report, messages io.Writer) error {
	var failures []error
	for _, p := range protections {
		t, err := newTrial(p, report, messages)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		fmt.Fprintf(report, "\n%s\n", p.title)
		failures = append(failures, t.run(), t.close())
	}
	return errors.Join(failures...)
}
