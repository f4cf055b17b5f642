// Package docs runs the commands on the pages, and compares their output with the pages.
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
	// patience is how long it may take until the output is like the page.
	patience = time.Minute
	// longest bounds one command, because the first make run compiles.
	longest = 45 * time.Minute
)

// walked are the pages whose commands run on the cluster of make
// run. The pages of one line share a cluster, one after another.
var walked = [][]string{
	{"README.md"},
	{"docs/first-job.md"},
	{"docs/workloads.md"},
	{"docs/policies.md", "docs/topology.md"},
	{"docs/groups.md", "docs/troubleshooting.md", "docs/operations.md", "docs/cli.md"},
	{"docs/developing.md"},
	{"docs/tasks/slurm-queue.md", "docs/tasks/flux-queue.md"},
	{
		"docs/tasks/one-rack.md", "docs/tasks/equal-shares.md", "docs/tasks/one-pod-per-node.md", "docs/tasks/whole-nodes.md", "docs/tasks/leader-and-workers.md",
		"docs/tasks/job-array.md", "docs/tasks/elastic.md", "docs/tasks/lost-pods.md", "docs/tasks/time-limit.md", "docs/tasks/pytorch.md", "docs/tasks/why.md",
		"docs/tasks/queue.md", "docs/tasks/manage.md", "docs/tasks/make-room.md", "docs/tasks/monitoring.md", "docs/tasks/drain.md",
	},
}

const (
	byItself  = "this test is a part of it"
	byChart   = "test/chart runs it"
	operators = "its operator is not on that cluster; test/operators applies the manifest"
	simulated = "other jobs may fill the cluster; pkg/simulate simulates the manifest"
	noRuntime = "there is no container runtime in tests; test/images reads the Dockerfiles"
)

// elsewhere are commands that are not run here, by page,
// and why. An asterisk means all commands of a page.
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
	"docs/metrics.md":               {"*": byChart},
	"docs/sidecar.md":               {"*": "cmd/sidecar runs them"},
	"docs/tasks/jobset.md":          {"*": operators},
	"docs/tasks/kueue.md":           {"*": operators},
	"docs/tasks/leaderworkerset.md": {"*": operators},
	"docs/tasks/mpi.md":             {"*": operators},
	"docs/tasks/pytorch.md": {
		"kubectl apply -f manifests/examples/operators/pytorchjob.yaml":            operators,
		"kubectl fluence why pytorchjob/pretrain":                                  operators,
		"kubectl fluence simulate -f manifests/examples/operators/pytorchjob.yaml": simulated,
	},
	"docs/tasks/ray.md": {"*": operators},
}

// A reader follows a page. Its commands share an environment and nothing else.
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

// newReader returns a reader with a folder for its run, which leaves nothing behind. Its builds go
// to bin. Otherwise they would undo the work of make build and make run, which link differently.
func newReader(t *testing.T, bin string) *reader {
	t.Helper()
	dir := t.TempDir()
	r := &reader{T: t, env: append(os.Environ(),
		"MAKEFLAGS=BIN="+bin+" RUN="+filepath.Join(dir, "run"),
		// Below make test, make would print the folder that
		// it enters. A user's shell does not run below make.
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

// looking matches commands that change nothing. They may be repeated until the output is right.
var looking = regexp.MustCompile(`^kubectl (get|describe|fluence|logs) `)

// follow runs a command. It repeats a command that
// changes nothing until its output is like the page.
func (r *reader) follow(s step) {
	r.Helper()
	var out string
	var err error
	done := func(ctx context.Context) (bool, error) {
		got, failed := r.run(ctx, s.command)
		if ctx.Err() != nil && out != "" {
			return false, nil // earlier output tells more
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
	// The last output shows why the wait ended.
	_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, done)
	switch {
	case err != nil:
		r.Errorf("$ %s\n%s\nended with: %v", s.command, out, err)
	case s.shows != nil && !like(lines(out), s.shows):
		r.Errorf("$ %s\n%s\nthe page shows:\n%s", s.command, out, strings.Join(s.shows, "\n"))
	}
	r.takeOver(out)
}

// exported matches the line of make run's output that a user types next.
var exported = regexp.MustCompile(`(?m)^    export (KUBECONFIG=\S+) PATH=(\S+):\$PATH$`)

func (r *reader) takeOver(out string) {
	if m := exported.FindStringSubmatch(out); m != nil {
		r.env = append(r.env, m[1], "PATH="+m[2]+":"+os.Getenv("PATH"))
	}
}

// run runs a command and returns its output on a terminal.
// Exit code 2 is no error: with it kubectl fluence answers no.
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

// A command that no test runs may not work.
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
