package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/contoken/contoken"
)

// fleet is the server processes, and what they share.
type fleet struct {
	opts      options
	dir       string // of all files, for this user alone
	keysFile  string
	front     string // the socket of the proxy
	instances []*member
	stopStore func() error // nil before it runs
	stopFront func() error // likewise
}

// member is an instance as seen from the process that started it.
type member struct {
	config  instanceConfig
	process *process
	http    *http.Client
}

// startFleet starts the store of one-time tokens, three instances on the keys, and the proxy in front of them.
func startFleet(ctx context.Context, opts options, keys string, users map[string]string, perProcess bool) (*fleet, error) {
	dir, err := os.MkdirTemp("", "fleet") // short, as the path of a socket has to be
	if err != nil {
		return nil, err
	}
	f := &fleet{opts: opts, dir: dir, keysFile: filepath.Join(dir, "keys"), front: filepath.Join(dir, "front.sock")}
	for _, name := range []string{"a", "b", "c"} {
		socket := filepath.Join(dir, name+".sock")
		f.instances = append(f.instances, &member{
			config: instanceConfig{name, socket, filepath.Join(dir, "redeem.sock"), opts.ttl, perProcess, users},
			http:   socketClient(socket, 1),
		})
	}
	if err := f.start(ctx, keys); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context, keys string) error {
	if err := replaceFile(f.keysFile, keys); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+redeemPath, redeemHandler(contoken.NewMemoryRedeemStore(1<<20)))
	var err error
	f.stopStore, err = serveOnSocket(filepath.Join(f.dir, "redeem.sock"), mux)
	if err != nil {
		return err
	}
	var backends []string
	for _, m := range f.instances {
		if err := f.startMember(ctx, m); err != nil {
			return err
		}
		backends = append(backends, m.config.Socket)
	}
	f.stopFront, err = startFront(ctx, f.opts, f.dir, f.front, backends)
	return err
}

// startMember runs this same program as an instance, and waits until it serves.
func (f *fleet) startMember(ctx context.Context, m *member) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, instanceCommand)
	cmd.Env = append(os.Environ(), keysFileVariable+"="+f.keysFile)
	stdin, err := cmd.StdinPipe() // stays open as long as this process lives
	if err != nil {
		return err
	}
	if m.process, err = startProcess("instance "+m.config.Name, cmd, f.opts.log); err != nil {
		return err
	}
	if err := json.NewEncoder(stdin).Encode(m.config); err != nil {
		return fmt.Errorf("%s: %w", m.process.name, err)
	}
	return m.process.awaitReady(ctx, func() error {
		_, err := m.status(ctx)
		return err
	})
}

func (m *member) status(ctx context.Context) (instanceStatus, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://instance/status", nil)
	if err != nil {
		return instanceStatus{}, err
	}
	response, err := m.http.Do(request)
	if err != nil {
		return instanceStatus{}, err
	}
	defer response.Body.Close()
	var status instanceStatus
	err = json.NewDecoder(response.Body).Decode(&status)
	return status, err
}

// rollOut writes the keys to the file that all instances read, and waits until all have them.
func (f *fleet) rollOut(ctx context.Context, keys ...string) error {
	return f.changeKeysFile(ctx, strings.Join(keys, "\n"), func(s instanceStatus) int64 { return s.Reloads })
}

// spoil writes a key file that is cut short, and waits until all instances have refused it.
func (f *fleet) spoil(ctx context.Context, key string) error {
	return f.changeKeysFile(ctx, key[:len(key)/2], func(s instanceStatus) int64 { return s.Refusals })
}

// changeKeysFile writes text to the key file and waits until the count of each instance says that it has read it. All
// but the last instance get a signal, and that one is left to find out by itself.
func (f *fleet) changeKeysFile(ctx context.Context, text string, count func(instanceStatus) int64) error {
	if err := replaceFile(f.keysFile, text); err != nil {
		return err
	}
	var targets []int64
	for i, m := range f.instances {
		status, err := m.status(ctx)
		if err != nil {
			return err
		}
		targets = append(targets, count(status)+2) // one reload may have begun before the file changed
		if i == len(f.instances)-1 {
			break
		}
		if err := m.process.signal(syscall.SIGHUP); err != nil {
			return fmt.Errorf("%s: %w", m.process.name, err)
		}
	}
	for i, m := range f.instances {
		err := m.process.awaitReady(ctx, func() error {
			status, err := m.status(ctx)
			if err == nil && count(status) < targets[i] {
				err = errors.New("the key file has not been read")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restart ends an instance, once it has answered what it is at, and starts it again.
func (f *fleet) restart(ctx context.Context, m *member) error {
	if err := m.process.stop(); err != nil {
		return fmt.Errorf("%s: %w\n%s", m.process.name, err, m.process.stderr)
	}
	return f.startMember(ctx, m)
}

// crash ends an instance in the middle of what it is at, leaves it dead for a while and starts it again.
func (f *fleet) crash(ctx context.Context, m *member, dead time.Duration) error {
	m.process.kill()
	if err := pause(ctx, dead); err != nil {
		return err
	}
	return f.startMember(ctx, m)
}

// stop ends all that startFleet started, and removes its files.
func (f *fleet) stop() error {
	var errs []error
	if f.stopFront != nil {
		errs = append(errs, f.stopFront())
	}
	for _, m := range f.instances {
		if m.process != nil {
			errs = append(errs, m.process.stop())
		}
	}
	if f.stopStore != nil {
		errs = append(errs, f.stopStore())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
