package redisstore

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// server is a Redis or Valkey process of the test, on loopback and with data of its own.
type server struct {
	t       testing.TB
	binary  string
	port    string
	dir     string
	extra   []string
	process *exec.Cmd
}

// startServer starts a server that keeps every id through a crash, and stops it when the test ends.
func startServer(t testing.TB, extra ...string) *server {
	t.Helper()
	s := &server{t: t, binary: findBinary(t), port: freePort(t), dir: t.TempDir(), extra: extra}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func findBinary(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CONTOKEN_REQUIRE_SERVERS") == "1" {
		t.Fatal("neither redis-server nor valkey-server is installed")
	}
	t.Skip("neither redis-server nor valkey-server is installed")
	return ""
}

// freePort is below 55536, since a cluster node also listens 10,000 ports higher.
func freePort(t testing.TB) string {
	t.Helper()
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		if port < 55536 {
			return strconv.Itoa(port)
		}
	}
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", s.port) }

// start returns when the server says that it is ready.
func (s *server) start() {
	s.t.Helper()
	arguments := append([]string{
		"--bind", "127.0.0.1", "--port", s.port, "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, s.extra...)
	s.process = exec.Command(s.binary, arguments...)
	output, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	var log strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			go io.Copy(io.Discard, output) // keeps the pipe from filling up; it ends with the process
			return
		}
		log.WriteString(lines.Text() + "\n")
	}
	s.t.Fatalf("the server did not start:\n%s", log.String())
}

// kill ends the server as a crash does.
func (s *server) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

func (s *server) client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.address(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// startCluster joins three servers and returns when all of them see the whole cluster.
func startCluster(t *testing.T) []*server {
	t.Helper()
	nodes := make([]*server, 3)
	for i := range nodes {
		nodes[i] = startServer(t, "--cluster-enabled", "yes")
	}
	first := nodes[0].client(t)
	for i, node := range nodes {
		const slots = 16384
		from, to := i*slots/len(nodes), (i+1)*slots/len(nodes)-1
		must(t, node.client(t).ClusterAddSlotsRange(t.Context(), from, to).Err())
		must(t, first.ClusterMeet(t.Context(), "127.0.0.1", node.port).Err())
	}
	for _, node := range nodes {
		awaitCluster(t, node.client(t), len(nodes))
	}
	return nodes
}

func awaitCluster(t *testing.T, node *redis.Client, size int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		info, err := node.ClusterInfo(ctx).Result()
		must(t, err)
		if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(size)) {
			return
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
