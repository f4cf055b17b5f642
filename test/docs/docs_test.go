// Package docs does what the pages tell a reader to do, and holds what comes of it
// against what they show.
package docs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience is how long the screen may take until it shows what the page does.
	patience = time.Minute
	// longest is what one command may take: the first make run compiles.
	longest = 45 * time.Minute
)

// walked are the pages whose commands run on the cluster of make run. Those of one line
// share one, after each other.
var walked = [][]string{
	{"README.md"},
	{"docs/first-job.md"},
	{"docs/workloads.md"},
	{"docs/policies.md", "docs/topology.md"},
	{"docs/groups.md", "docs/troubleshooting.md", "docs/operations.md", "docs/cli.md"},
	{"docs/developing.md"},
}

const (
	byItself  = "this test is a part of it"
	byChart   = "test/chart runs it"
	noRuntime = "there is no container runtime in tests; test/images reads the Dockerfiles"
)

// elsewhere are commands that are not run here, by page, and why; those of a page with
// an asterisk all are not.
var elsewhere = map[string]map[string]string{
	"README.md": {"make test": byItself},
	"docs/cli.md": {
		"cp bin/kubectl-fluence ~/.local/bin    # any folder of your PATH": "the home folder is nobody's but its user's",
		`exec kubectl-fluence __complete "$@"`:                             "the text of a script; pkg/cli completes",
	},
	"docs/fluxion.md": {"*": "the library of Fluxion is not installed"},
	"docs/install.md": {
		"docker build -f Dockerfile.scheduler -t registry.example.com/hpc/fluence:v0.1.0 --build-arg VERSION=v0.1.0 .": noRuntime,
		"docker push registry.example.com/hpc/fluence:v0.1.0":                                                          noRuntime,
		"*": byChart,
	},
	"docs/metrics.md": {"*": byChart},
	"docs/sidecar.md": {"*": "cmd/sidecar runs them"},
}

// A reader is one that follows a page: commands share an environment and nothing else.
type reader struct {
	*testing.T
	env []string
}

func TestThePagesShowWhatComes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	bin := t.TempDir()
	for _, together := range walked {
		t.Run(together[0], func(t *testing.T) {
			r := newReader(t, bin)
			if steps(t, together[0])[0].command != "make run" {
				r.follow(step{command: "make run"})
			}
			for _, page := range together {
				for _, s := range steps(t, page) {
					if elsewhere[page][s.command] == "" && !t.Failed() {
						r.follow(s)
					}
				}
			}
		})
	}
}

// newReader has a folder for the run that it makes, and leaves nothing behind. What it
// builds goes to bin: otherwise make build and make run, which link otherwise, undo each
// other's work.
func newReader(t *testing.T, bin string) *reader {
	t.Helper()
	dir := t.TempDir()
	r := &reader{T: t, env: append(os.Environ(),
		"MAKEFLAGS=BIN="+bin+" RUN="+filepath.Join(dir, "run"),
		// Below make test, make would tell which folder it enters; nobody's shell is below make.
		"MAKELEVEL=0",
		"KUBECACHEDIR="+filepath.Join(dir, "cache"),
		"HELM_CACHE_HOME="+filepath.Join(dir, "helm"), "HELM_CONFIG_HOME="+filepath.Join(dir, "helm"), "HELM_DATA_HOME="+filepath.Join(dir, "helm"),
	)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if out, err := r.run(ctx, "make down"); err != nil {
			t.Errorf("make down: %v\n%s", err, out)
		}
	})
	return r
}

// looking are commands that change nothing, and may be asked until the answer comes.
var looking = regexp.MustCompile(`^kubectl (get|describe|fluence|logs) `)

// follow types a command. What changes nothing is typed again until the screen is like
// the page.
func (r *reader) follow(s step) {
	r.Helper()
	var out string
	var err error
	done := func(ctx context.Context) (bool, error) {
		got, failed := r.run(ctx, s.command)
		if ctx.Err() != nil && out != "" {
			return false, nil // what came before says more
		}
		out, err = got, failed
		right := s.shows == nil || like(lines(out), s.shows)
		return err == nil && right || !looking.MatchString(s.command), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	if looking.MatchString(s.command) {
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	// What ends the wait shows in what came last.
	_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, done)
	switch {
	case err != nil:
		r.Errorf("$ %s\n%s\nended with: %v", s.command, out, err)
	case s.shows != nil && !like(lines(out), s.shows):
		r.Errorf("$ %s\n%s\nthe page shows:\n%s", s.command, out, strings.Join(s.shows, "\n"))
	}
	r.takeOver(out)
}

// exported is the line of make run that is to be typed next.
var exported = regexp.MustCompile(`(?m)^    export (KUBECONFIG=\S+) PATH=(\S+):\$PATH$`)

func (r *reader) takeOver(out string) {
	if m := exported.FindStringSubmatch(out); m != nil {
		r.env = append(r.env, m[1], "PATH="+m[2]+":"+os.Getenv("PATH"))
	}
}

// run runs a command and returns what a terminal would show. That the answer is no,
// which kubectl fluence says by exit code 2, is no error.
func (r *reader) run(ctx context.Context, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+command)
	cmd.Dir, cmd.Env = root(r.T), r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 && strings.Contains(command, "kubectl fluence ") {
		err = nil
	}
	return string(out), err
}

// A command that nobody runs is one that nobody knows to work.
func TestEveryCommandIsRunSomewhere(t *testing.T) {
	here := map[string]bool{}
	for _, page := range slices.Concat(walked...) {
		here[page] = true
	}
	for _, page := range pages(t) {
		shown := map[string]bool{}
		for _, s := range steps(t, page) {
			shown[s.command] = true
			why := elsewhere[page][s.command]
			if why == "" {
				why = elsewhere[page]["*"]
			}
			if !here[page] && why == "" {
				t.Errorf("%s: no test runs\n%s", page, s.command)
			}
		}
		for command := range elsewhere[page] {
			if command != "*" && !shown[command] {
				t.Errorf("%s shows no such command any more:\n%s", page, command)
			}
		}
	}
}
