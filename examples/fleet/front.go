package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"text/template"
)

// Reverse proxies that can stand in front of the fleet. Each gives every request to the next instance in turn.
const (
	anyFront     = "auto" // the first of the others that is installed
	haproxyFront = "haproxy"
	nginxFront   = "nginx"
	builtInFront = "builtin"
)

var frontNames = map[string]string{
	haproxyFront: "HAProxy",
	nginxFront:   "nginx",
	builtInFront: "the built-in reverse proxy",
}

// chooseFront returns the proxy that name means, and the path of its program if it is one.
func chooseFront(name string) (front, program string, err error) {
	for _, front := range []string{haproxyFront, nginxFront} {
		if name != anyFront && name != front {
			continue
		}
		// Debian installs both where only root looks.
		for _, candidate := range []string{front, "/usr/sbin/" + front} {
			if program, err := exec.LookPath(candidate); err == nil {
				return front, program, nil
			}
		}
		if name == front {
			return "", "", fmt.Errorf("%s is not installed", front)
		}
	}
	if name != anyFront && name != builtInFront {
		return "", "", fmt.Errorf("unknown proxy %q", name)
	}
	return builtInFront, "", nil
}

// startFront starts a proxy that listens on socket, and returns how to stop it.
func startFront(ctx context.Context, opts options, dir, socket string, backends []string) (stop func() error, err error) {
	if opts.front == builtInFront {
		return serveOnSocket(socket, newRoundRobin(backends))
	}
	config := filepath.Join(dir, opts.front+".conf")
	if err := writeFrontConfig(opts.front, config, dir, socket, backends); err != nil {
		return nil, err
	}
	arguments := []string{"-f", config, "-db", "-q"} // in the foreground, and quiet
	if opts.front == nginxFront {
		arguments = []string{"-c", config, "-p", dir, "-e", "stderr"}
	}
	p, err := startProcess(opts.front, exec.Command(opts.frontProgram, arguments...), opts.log)
	if err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx, func() error { return canConnect(socket) }); err != nil {
		p.kill()
		return nil, err
	}
	return func() error {
		p.stop() // HAProxy ends with a status of its own where it was asked to
		return nil
	}, nil
}

func canConnect(socket string) error {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	return connection.Close()
}

var frontConfigs = map[string]*template.Template{
	haproxyFront: template.Must(template.New("").Parse(`global
    maxconn 1000
defaults
    mode http
    timeout connect 1s
    timeout client 10s
    timeout server 10s
    option redispatch 1
frontend front
    bind unix@{{.Socket}}
    default_backend fleet
backend fleet
    balance roundrobin
{{range $i, $backend := .Backends}}    server instance{{$i}} unix@{{$backend}}
{{end}}`)),
	nginxFront: template.Must(template.New("").Parse(`daemon off;
pid {{.Dir}}/nginx.pid;
worker_processes 1;
{{if .Root}}user root; # or its workers could not reach the sockets
{{end}}events { worker_connections 1000; }
http {
    access_log off;
    client_body_temp_path {{.Dir}}/body;
    proxy_temp_path {{.Dir}}/proxy;
    fastcgi_temp_path {{.Dir}}/fastcgi;
    scgi_temp_path {{.Dir}}/scgi;
    uwsgi_temp_path {{.Dir}}/uwsgi;
    upstream fleet {
{{range .Backends}}        server unix:{{.}} max_fails=0;
{{end}}        keepalive 64;
    }
    server {
        listen unix:{{.Socket}};
        location / {
            proxy_pass http://fleet;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
`)),
}

func writeFrontConfig(front, path, dir, socket string, backends []string) error {
	var text strings.Builder
	err := frontConfigs[front].Execute(&text, map[string]any{
		"Dir": dir, "Socket": socket, "Backends": backends, "Root": os.Geteuid() == 0,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// serveOnSocket serves in this process until it is stopped.
func serveOnSocket(socket string, handler http.Handler) (stop func() error, err error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := newHTTPServer(handler)
	go server.Serve(listener)
	return server.Close, nil
}

// newRoundRobin returns a reverse proxy that gives each request to the next backend in turn. Where that is down, the
// client gets 502 Bad Gateway.
func newRoundRobin(backends []string) http.Handler {
	var turn atomic.Uint64
	transport := &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(address)
			i := slices.IndexFunc(backends, func(socket string) bool { return hostOf(socket) == host })
			return new(net.Dialer).DialContext(ctx, "unix", backends[i])
		},
	}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
			r.Out.URL.Host = hostOf(backends[turn.Add(1)%uint64(len(backends))])
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
}

// hostOf names a socket in a URL.
func hostOf(socket string) string { return strings.TrimSuffix(filepath.Base(socket), ".sock") }
