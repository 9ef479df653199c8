//go:build unix

package sqlstore

import (
	"bufio"
	"cmp"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// postgres is a PostgreSQL cluster of the test, on loopback and with data of its own.
type postgres struct {
	t        testing.TB
	binaries string
	port     int
	dir      string
	owner    *syscall.Credential // nil: the user of the test
	process  *exec.Cmd
}

// startPostgres creates and starts a cluster with the settings that are the default, and removes it after the test.
func startPostgres(t testing.TB) *postgres {
	t.Helper()
	p := &postgres{t: t, binaries: findBinaries(t), port: freePort(t)}
	var err error
	// The directories of t.TempDir are closed to other users.
	p.dir, err = os.MkdirTemp("", "contoken")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(p.dir) })
	p.giveToOwner()

	initdb := p.command("initdb", "--pgdata", p.data(), "--auth", "trust", "--username", "contoken", "--no-sync")
	if output, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output)
	}
	p.start()
	t.Cleanup(p.kill)
	return p
}

// findBinaries returns the newest installation. Debian does not put it in the path.
func findBinaries(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		must(t, err)
		return filepath.Dir(path)
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // 9.6 before 15
		}))
	}
	if os.Getenv("CONTOKEN_REQUIRE_SERVERS") == "1" {
		t.Fatal("PostgreSQL is not installed")
	}
	t.Skip("PostgreSQL is not installed")
	return ""
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// giveToOwner has an unprivileged user own the cluster, since PostgreSQL refuses to run as root.
func (p *postgres) giveToOwner() {
	p.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	nobody, err := user.Lookup("nobody")
	must(p.t, err)
	uid, err := strconv.Atoi(nobody.Uid)
	must(p.t, err)
	gid, err := strconv.Atoi(nobody.Gid)
	must(p.t, err)
	must(p.t, os.Chown(p.dir, uid, gid))
	p.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (p *postgres) data() string { return filepath.Join(p.dir, "data") }

func (p *postgres) command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(p.binaries, name), arguments...)
	command.Dir = p.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
	return command
}

// start returns when the server says that it is ready, after recovery if it was killed.
func (p *postgres) start() {
	p.t.Helper()
	p.process = p.command("postgres", "-D", p.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-k", p.dir)
	output, err := p.process.StderrPipe()
	must(p.t, err)
	must(p.t, p.process.Start())
	var log strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready to accept connections") {
			go io.Copy(io.Discard, output) // keeps the pipe from filling up; it ends with the process
			return
		}
		log.WriteString(lines.Text() + "\n")
	}
	p.t.Fatalf("PostgreSQL did not start:\n%s", log.String())
}

// kill has all processes of the server exit at once, with nothing flushed or closed, so that the next start recovers
// from the log. A SIGKILL would leave those that serve connections running for a moment.
func (p *postgres) kill() {
	p.process.Process.Signal(syscall.SIGQUIT)
	p.process.Wait()
}

func (p *postgres) open(t testing.TB) *sql.DB {
	t.Helper()
	return open(t, "pgx", fmt.Sprintf("postgres://contoken@127.0.0.1:%d/postgres", p.port))
}

func openSQLite(t testing.TB, file string) *sql.DB {
	t.Helper()
	const settings = "?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	return open(t, "sqlite", "file:"+file+settings)
}

func open(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	must(t, err)
	db.SetMaxOpenConns(16)
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
