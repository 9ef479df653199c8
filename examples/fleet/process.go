package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child of this one.
type process struct {
	name   string
	cmd    *exec.Cmd
	stderr *tail
	exited chan struct{}
	err    error // once it has exited
}

// startProcess starts cmd. What it writes to standard error goes to log, and its last part to errors.
func startProcess(name string, cmd *exec.Cmd, log io.Writer) (*process, error) {
	p := &process{name: name, cmd: cmd, stderr: new(tail), exited: make(chan struct{})}
	cmd.Stderr = io.MultiWriter(p.stderr, log)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// awaitReady returns once ready does without an error.
func (p *process) awaitReady(ctx context.Context, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.name, p.err, p.stderr)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", p.name, errors.Join(ctx.Err(), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// stop asks the process to end, and kills it if it does not.
func (p *process) stop() error {
	p.signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-p.exited:
		return p.err
	case <-time.After(2 * stopTimeout):
		p.kill()
		return fmt.Errorf("%s had to be killed", p.name)
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// tail keeps the last part of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(len(t.text)-tailBytes, 0):]
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
