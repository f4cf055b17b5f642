package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/client"
	"github.com/flux-k8s/fluence/sidecar/endpoint"
	"github.com/flux-k8s/fluence/sidecar/endpoint/endpointtest"
)

// built is the path of the command, built once for all tests.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fluence-sidecar")
	if err != nil {
		panic(err)
	}
	built = filepath.Join(dir, "fluence-sidecar")
	out, err := exec.Command("go", "build", "-ldflags", "-X main.version=v1.2.3", "-o", built, ".").CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("build: %v\n%s", err, out))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// soon bounds what a test waits for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(soon(t), built, args...)
	// No process stays behind, whatever the test does.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// A sidecar is a running process. Its lines are its log.
type sidecar struct {
	*exec.Cmd
	lines *bufio.Scanner
}

// start runs the command and waits until it serves.
func start(t *testing.T, args ...string) *sidecar {
	t.Helper()
	s := launch(t, args...)
	s.read(t, "msg=Serving ")
	return s
}

// launch runs the command.
func launch(t *testing.T, args ...string) *sidecar {
	t.Helper()
	return startProcess(t, program(t, args...))
}

func startProcess(t *testing.T, c *exec.Cmd) *sidecar {
	t.Helper()
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return &sidecar{Cmd: c, lines: bufio.NewScanner(out)}
}

// read reads lines up to one with this text, and returns it.
func (s *sidecar) read(t *testing.T, text string) string {
	t.Helper()
	var read []string
	for s.lines.Scan() {
		line := s.lines.Text()
		if strings.Contains(line, text) {
			return line
		}
		read = append(read, line)
	}
	t.Fatalf("the sidecar ended without saying %q: %q", text, read)
	return ""
}

// end sends a signal and returns how long the process took to end, and how it ended.
func (s *sidecar) end(t *testing.T, sig os.Signal) (time.Duration, error) {
	t.Helper()
	begin := time.Now()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	for s.lines.Scan() { // until the process closes its side
		continue
	}
	err := s.Wait()
	return time.Since(begin), err
}

func dial(t *testing.T, target string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestTheSidecarServesUntilItIsTold(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(sig.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "new", "s")
			s := start(t, "--listen", "unix://"+path)
			for file, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
				if info, err := os.Stat(file); err != nil || info.Mode() != want {
					t.Errorf("mode of %s: %v, %v, want %v", file, info.Mode(), err, want)
				}
			}
			c := dial(t, "unix://"+path, client.Options{})
			if err := c.Ping(soon(t)); err != nil {
				t.Errorf("ping: %v", err)
			}
			// A watch stays open and must not keep the process.
			ctx, cancel := context.WithCancel(t.Context())
			said, done := make(chan bool, 10), make(chan struct{})
			go func() { defer close(done); c.Watch(ctx, func(b bool) { said <- b }) }()
			defer func() { cancel(); <-done }()
			for serving := range said {
				if serving {
					break
				}
			}
			if took, err := s.end(t, sig); err != nil || took > stopTimeout {
				t.Errorf("ended with %v after %v", err, took)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket is left: %v", err)
			}
			if <-said {
				t.Error("the watch does not say that the sidecar has ended")
			}
		})
	}
}

func TestAnEpochEndsWithItsProcess(t *testing.T) {
	target := "unix://" + filepath.Join(t.TempDir(), "s")
	s := start(t, "--listen", target)
	before, err := dial(t, target, client.Options{}).Reset(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	// The process was killed: the socket stays, and the next process replaces it.
	if _, err := s.end(t, syscall.SIGKILL); err == nil {
		t.Fatal("a killed process ended well")
	}
	start(t, "--listen", target)
	c := dial(t, target, client.Options{})
	if err := c.Ready(soon(t), before); !errors.Is(err, match.ErrStale) {
		t.Errorf("the epoch of a process before: got %v", err)
	}
	if after, err := c.Reset(soon(t)); err != nil || after == before || after == 0 {
		t.Errorf("reset: %d, %v, and the epoch before was %d", after, err, before)
	}
}

func TestAStoppedProcessIsFoundByPing(t *testing.T) {
	target := "unix://" + filepath.Join(t.TempDir(), "s")
	s := start(t, "--listen", target)
	c := dial(t, target, client.Options{})
	if err := c.Ping(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The signal arrives at once, and takes effect a moment later.
	for ctx := soon(t); ; {
		err := c.Ping(t.Context())
		if errors.Is(err, match.ErrUnavailable) {
			break
		}
		if err != nil || ctx.Err() != nil {
			t.Fatalf("while it is stopped: got %v", err)
		}
	}
	if err := s.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(soon(t)); err != nil {
		t.Errorf("once it goes on: %v", err)
	}
}

// A kubelet's probe asks a process that runs. The probe
// fails while the process is stopped, and names the address.
func TestProbe(t *testing.T) {
	target := "unix://" + filepath.Join(t.TempDir(), "s")
	probe := func(timeout string) (string, error) {
		out, err := program(t, "probe", "--listen", target, "--timeout", timeout).CombinedOutput()
		return string(out), err
	}
	if out, err := probe("1s"); err == nil || !strings.Contains(out, target) {
		t.Errorf("nothing serves there: %v: %s", err, out)
	}
	if out, err := probe("0s"); err == nil || !strings.Contains(out, "--timeout 0s") {
		t.Errorf("a timeout of nothing: %v: %s", err, out)
	}
	s := start(t, "--listen", target)
	if out, err := probe("20s"); err != nil || out != "" {
		t.Errorf("it serves: %v: %s", err, out)
	}
	if err := s.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for ctx := soon(t); ; {
		out, err := probe("100ms")
		if err != nil && strings.Contains(out, target) {
			break
		}
		if err != nil || ctx.Err() != nil {
			t.Fatalf("while it is stopped: %v: %s", err, out)
		}
	}
	if err := s.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if out, err := probe("20s"); err != nil {
		t.Errorf("once it goes on: %v: %s", err, out)
	}
}

func TestMistakesNameFlagAndValue(t *testing.T) {
	dir := t.TempDir()
	live := "unix://" + filepath.Join(dir, "live")
	start(t, "--listen", live)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		args []string
		want []string
	}{
		"a socket that a live process serves": {[]string{"--listen", live}, []string{"--listen", live, "another process already serves"}},
		"a file that is no socket":            {[]string{"--listen", "unix://" + file}, []string{"--listen", file, "not a socket"}},
		"another machine may connect":         {[]string{"--listen", "tcp://0.0.0.0:0"}, []string{"--listen", "0.0.0.0", "loopback"}},
		"no scheme":                           {[]string{"--listen", "/run/s"}, []string{"--listen", "/run/s", "unix:///path"}},
		"a policy not known":                  {[]string{"--policy", "best"}, []string{"--policy", "best", match.PolicyLonode}},
		"an engine not known":                 {[]string{"--engine", "abacus"}, []string{"--engine", "abacus", "embedded", "fluxion"}},
		"an engine that is not linked":        {[]string{"--engine", "fluxion"}, []string{"--engine", "fluxion", "lacks", "Dockerfile.sidecar"}},
		"graph options that are no JSON":      {[]string{"--graph-options", "low"}, []string{"--graph-options", "low"}},
		"graph options not known":             {[]string{"--graph-options", `{"matcher_policy":"best"}`}, []string{"--graph-options", "matcher_policy", "best"}},
		"a certificate alone":                 {[]string{"--tls-cert", "/c.pem"}, []string{"--tls-cert", "/c.pem", "--tls-key", "--tls-client-ca"}},
		"files that are not there": {
			[]string{"--listen", "tcp://0.0.0.0:0", "--tls-cert", "/c.pem", "--tls-key", "/k.pem", "--tls-client-ca", "/a.pem"},
			[]string{"--tls-cert", "/c.pem", "no such file"},
		},
		"metrics at no port": {[]string{"--metrics-listen", "127.0.0.1"}, []string{"--metrics-listen", "127.0.0.1", "host:port"}},
		"an argument":        {[]string{"now"}, []string{"now"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := program(t, tc.args...).CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
				t.Errorf("ended with %v", err)
			}
			if bytes.Count(out, []byte("\n")) != 1 {
				t.Errorf("not one line: %s", out)
			}
			for _, want := range tc.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not in: %s", want, out)
				}
			}
		})
	}
	if err := dial(t, live, client.Options{}).Ping(soon(t)); err != nil {
		t.Errorf("the live process was disturbed: %v", err)
	}
}

func TestTheEngineOfACommand(t *testing.T) {
	for name, want := range map[string]string{
		"abacus":  `--engine "abacus": must be "embedded" or "fluxion"`,
		"fluxion": `--engine "fluxion": this image lacks Fluxion's library`,
	} {
		out, err := program(t, "info", "--graph", "../../docs/examples/cluster.json", "--engine", name).CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("--engine %s ended with %v and %q, want %q", name, err, out, want)
		}
	}
}

func TestVersion(t *testing.T) {
	out, err := program(t, "--version").Output()
	if err != nil || !strings.Contains(string(out), "v1.2.3") {
		t.Errorf("got %q, %v", out, err)
	}
}

// field returns the value of a key in a line of the log.
func field(t *testing.T, line, key string) string {
	t.Helper()
	_, rest, ok := strings.Cut(line, " "+key+"=")
	if !ok {
		t.Fatalf("no %s in %q", key, line)
	}
	value, _, _ := strings.Cut(rest, " ")
	return value
}

func TestMutualTLS(t *testing.T) {
	ours := endpointtest.NewAuthority(t)
	i := ours.Issue(t, t.TempDir(), "server")
	s := launch(t, "--listen", "tcp://127.0.0.1:0", "--tls-cert", i.Cert, "--tls-key", i.Key, "--tls-client-ca", i.CA)
	target := field(t, s.read(t, "msg=Serving "), "listen")

	known := dial(t, target, client.Options{TLS: ours.Issue(t, t.TempDir(), "client")})
	if err := known.Ping(soon(t)); err != nil {
		t.Errorf("a client that the authority vouches for: %v", err)
	}
	foreign := endpointtest.NewAuthority(t).Issue(t, t.TempDir(), "client")
	foreign.CA = i.CA
	for what, id := range map[string]endpoint.Identity{"a client of another authority": foreign, "a client without a certificate": {}} {
		if err := dial(t, target, client.Options{TLS: id}).Ping(soon(t)); !errors.Is(err, match.ErrUnavailable) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	target := "unix://" + filepath.Join(t.TempDir(), "s")
	s := launch(t, "--listen", target, "--metrics-listen", ":0") // as for another machine
	address := field(t, s.read(t, `msg="Serving metrics"`), "address")
	s.read(t, "msg=Serving ")
	c, ctx := dial(t, target, client.Options{}), soon(t)
	e, err := c.Reset(ctx)
	if err != nil {
		t.Fatal(err)
	}
	request := match.Request{Epoch: e, ID: 1, Jobspec: matchtest.Slots("w", 1, matchtest.Cores(1))}
	if _, err := c.Match(ctx, request); !errors.Is(err, match.ErrUnavailable) {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := c.PutNode(ctx, e, matchtest.Node(name, nil, matchtest.Cores(1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Ready(ctx, e); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Match(ctx, request); err != nil {
		t.Fatal(err)
	}
	told, err := c.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(told)) {
		if name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "); !strings.HasPrefix(name, "fluence_sidecar_") {
			t.Errorf("the scheduler is told %q", line)
		}
	}
	got := scrape(ctx, t, "http://"+address+"/metrics")
	for _, want := range []string{
		"fluence_sidecar_jobs 1\n",
		"fluence_sidecar_slots 1\n",
		"fluence_sidecar_nodes 2\n",
		"fluence_sidecar_ready 1\n",
		`fluence_sidecar_match_duration_seconds_count{outcome="matched"} 1` + "\n",
		`fluence_sidecar_match_duration_seconds_count{outcome="unavailable"} 1` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
		if !strings.Contains(string(told), want) {
			t.Errorf("no %q among what the scheduler is told:\n%s", want, told)
		}
	}
	if !strings.Contains(string(told), "\nfluence_sidecar_process_resident_memory_bytes ") {
		t.Errorf("the scheduler is told nothing of memory:\n%s", told)
	}
	if _, err := s.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestGraphsAreServedAndCounted(t *testing.T) {
	graph, err := os.ReadFile("../../docs/examples/cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]string{`{}`: "node0 node0", `{"matcher_policy":"hinode"}`: "node3 node3", `{"matcher_policy":"low"}`: "node0 node1"} {
		t.Run(options, func(t *testing.T) {
			target := "unix://" + filepath.Join(t.TempDir(), "s")
			s := launch(t, "--listen", target, "--metrics-listen", "127.0.0.1:0", "--graph-options", options)
			address := field(t, s.read(t, `msg="Serving metrics"`), "address")
			s.read(t, "msg=Serving ")
			c, ctx := dial(t, target, client.Options{}), soon(t)
			e, err := c.Reset(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.AddSubgraph(ctx, e, graph); err != nil {
				t.Fatal(err)
			}
			if err := c.Ready(ctx, e); err != nil {
				t.Fatal(err)
			}
			js := matchtest.Slots("w", 2, matchtest.Pool{Type: "core", Amount: 2})
			a, err := c.Match(ctx, match.Request{Epoch: e, ID: 1, Jobspec: js})
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Slots[0].Node + " " + a.Slots[1].Node; got != want {
				t.Errorf("the slots are on %s, want %s", got, want)
			}
			if err := c.RemoveSubgraph(ctx, e, "/cluster0/rack0/node2"); !errors.Is(err, match.ErrInvalid) {
				t.Errorf("a path that is not there: got %v", err)
			}
			if found, err := c.Find(ctx, e, "sched-now=allocated", matchtest.Now); err != nil || len(found.Vertices) < 6 {
				t.Errorf("found %v, %v", found, err)
			}
			if got := scrape(ctx, t, "http://"+address+"/metrics"); !strings.Contains(got, "fluence_sidecar_nodes 4\n") || !strings.Contains(got, "fluence_sidecar_slots 2\n") {
				t.Errorf("no 4 nodes and 2 slots in:\n%s", got)
			}
		})
	}
}

func scrape(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryCallIsLoggedAtFour(t *testing.T) {
	target := "unix://" + filepath.Join(t.TempDir(), "s")
	s := start(t, "--listen", target, "--v", "4")
	if _, err := dial(t, target, client.Options{}).Reset(soon(t)); err != nil {
		t.Fatal(err)
	}
	if line := s.read(t, "Answered a call"); field(t, line, "method") != "/fluence.v1.Fluxion/Reset" || field(t, line, "code") != "OK" {
		t.Errorf("got %q", line)
	}
}
