package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/pki"
	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// longest bounds one command, because the first start compiles.
	longest = 15 * time.Minute
	// restartTime is enough for a program that was killed once to be started again and to lead.
	restartTime = time.Minute
)

// A user is somebody who runs this command on a folder.
type user struct {
	*testing.T
	program, dir string
}

// run runs the command and returns its output.
func (u *user) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.Context()), longest)
	defer cancel()
	out, err := exec.CommandContext(ctx, u.program, append(args, "--dir", u.dir)...).CombinedOutput()
	return string(out), err
}

func (u *user) must(args ...string) string {
	u.Helper()
	out, err := u.run(args...)
	if err != nil {
		u.Fatalf("fluence-run %v: %v\n%s", args, err, out)
	}
	return out
}

// open returns the cluster with the processes that run now.
func (u *user) open() *cluster.Cluster {
	u.Helper()
	c, err := cluster.Open(u.dir)
	if err != nil {
		u.Fatal(err)
	}
	return c
}

// kill kills processes by SIGKILL.
func (u *user) kill(c *cluster.Cluster, names ...string) {
	u.Helper()
	for _, name := range names {
		if err := c.Process(name).Kill(u.Context()); err != nil {
			u.Fatal(err)
		}
	}
}

// pods returns the identities of all pods.
func (u *user) pods() string {
	u.Helper()
	out, _, err := u.open().Kubectl(u.Context(), "get", "pods", "--output=jsonpath={range .items[*]}{.metadata.uid} {.spec.nodeName} {.status.phase}\n{end}")
	if err != nil {
		u.Fatal(err)
	}
	return out
}

// apply applies an example, and waits until so many of its pods are ready.
func (u *user) apply(example, job string, pods int) {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 2*restartTime)
	defer cancel()
	c := u.open()
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(examples(u.T), example)},
		{"wait", "job/" + job, fmt.Sprintf("--for=jsonpath={.status.ready}=%d", pods), "--timeout=60s"},
	} {
		if _, _, err := c.Kubectl(ctx, args...); err != nil {
			u.Fatal(err)
		}
	}
}

func examples(t *testing.T) string {
	t.Helper()
	root, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "manifests", "examples")
}

// The parts share one cluster, because a start takes a while. Each leaves it for the next.
func TestAClusterIsKeptAndLookedAfter(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	u := &user{T: t, dir: filepath.Join(t.TempDir(), "run")}
	var err error
	if u.program, err = stack.BuildProgram(t.Context(), t.TempDir(), "./test/stack/fluence-run"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := u.run("down"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	u.must("up")
	for _, part := range []struct {
		name string
		run  func(u *user)
	}{
		{"each example can be simulated", (*user).simulatesEachExample},
		{"a scheduler that was killed leads again", (*user).losesTheScheduler},
		{"a second start keeps what runs, and brings a supervisor back", (*user).startsAgain},
		{"a start after the end of everything keeps the jobs", (*user).losesEverything},
		{"the end leaves nothing, even without a supervisor", (*user).ends},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(&user{T: t, program: u.program, dir: u.dir}) }) {
			return
		}
	}
}

func (u *user) simulatesEachExample() {
	// These do not start, as their first lines say.
	waits := map[string]string{"five-in-a-rack.yaml": "NeverFits", "missing-member.yaml": "Gathering"}
	// The first is in the cluster already. The pods of the second are not known before the API server makes them. The last has none.
	skipped := []string{"job.yaml", "daemonset.yaml", "queue.yaml"}
	files, err := filepath.Glob(filepath.Join(examples(u.T), "*.yaml"))
	if err != nil || len(files) == 0 {
		u.Fatalf("examples %v, error %v", files, err)
	}
	kubeconfig := u.open().Kubeconfig()
	for _, file := range files {
		name := filepath.Base(file)
		if slices.Contains(skipped, name) {
			continue
		}
		cmd := exec.CommandContext(u.Context(), filepath.Join(u.dir, "bin", stack.KubectlPlugin), "simulate", "-f", file, "--kubeconfig", kubeconfig)
		out, err := cmd.CombinedOutput()
		want := "now: would start"
		if waits[name] != "" {
			want = "now: would not start: " + waits[name]
		}
		if !bytes.Contains(out, []byte(want)) || (err == nil) != (waits[name] == "") {
			u.Errorf("simulate -f %s: %v\n%s\nwant %q", name, err, out, want)
		}
	}
}

func (u *user) losesTheScheduler() {
	c := u.open()
	holder := func(ctx context.Context) string {
		lease, err := c.Client().CoordinationV1().Leases(stack.Namespace).Get(ctx, stack.Scheduler, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	before := holder(u.Context())
	u.kill(c, stack.Scheduler)
	ctx, cancel := context.WithTimeout(u.Context(), restartTime)
	defer cancel()
	eventually.True(ctx, u, "another scheduler leads", func(ctx context.Context) (bool, string) {
		now := holder(ctx)
		return now != "" && now != before, now
	})
	u.apply("topology-required.yaml", "one-rack", 4)
	log, err := os.ReadFile(filepath.Join(c.Logs(), cluster.Supervisor+".log"))
	if want := stack.Scheduler + " is started again as process"; err != nil || !strings.Contains(string(log), want) {
		u.Errorf("the log of the supervisor has no %q (%v):\n%s", want, err, log)
	}
}

func (u *user) startsAgain() {
	before := u.pods()
	c := u.open()
	scheduler := c.Process(stack.Scheduler).PID()
	u.kill(c, cluster.Supervisor)
	out := u.must("up")
	for _, want := range []string{"with its nodes and jobs", "Keeping " + stack.Scheduler, "Kept: 16 nodes, 12 pods, 2 PodGroups", "export KUBECONFIG="} {
		if !strings.Contains(out, want) {
			u.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	if after := u.pods(); after != before {
		u.Errorf("pods before:\n%safter:\n%s", before, after)
	}
	c = u.open()
	if c.Process(cluster.Supervisor) == nil || c.Process(stack.Scheduler).PID() != scheduler {
		u.Errorf("processes %v, want a supervisor, and the scheduler with the id %d", c.Processes(), scheduler)
	}
}

func (u *user) losesEverything() {
	before := u.pods()
	c := u.open()
	u.kill(c, cluster.Supervisor)
	for _, p := range c.Processes() {
		u.kill(c, p.Name())
	}
	out := u.must("up")
	if want := "Starting etcd, which had ended"; !strings.Contains(out, want) {
		u.Errorf("the output has no %q:\n%s", want, out)
	}
	if after := u.pods(); after != before {
		u.Errorf("pods before:\n%safter:\n%s", before, after)
	}
	u.apply("topology-preferred.yaml", "few-racks", 4)
}

func (u *user) ends() {
	c := u.open()
	all := c.Processes()
	u.kill(c, cluster.Supervisor)
	u.must("down")
	for _, p := range all {
		if err := p.Wait(u.Context()); err != nil {
			u.Error(err)
		}
	}
	if _, err := os.Stat(u.dir); !errors.Is(err, fs.ErrNotExist) {
		u.Errorf("the folder after the end: %v", err)
	}
}

func TestAFolderThatCannotBeKeptIsLeftAsItIs(t *testing.T) {
	cases := map[string]struct {
		file, text string
		want       []string
	}{
		"of something else":      {"thesis.tex", "", []string{"is not empty and not a cluster's"}},
		"with a state cut short": {"cluster.json", `{"ready": true, "detached`, []string{"parse ", "cluster.json", "make down"}},
		"of an attached cluster": {"cluster.json", `{"ready": true}`, []string{"is not detached", "make down"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, tc.file)
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := up(t.Context(), new(bytes.Buffer), dir, 16, 4)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("up() = %v, want %q", err, want)
				}
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != tc.text {
				t.Errorf("%s is now %q (%v)", path, text, err)
			}
		})
	}
}

func TestAClusterWhoseEtcdDoesNotStartIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"pki", "logs", "processes", "etcd"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := pki.NewAuthority("ca")
	if err == nil {
		err = ca.Pair().Write(filepath.Join(dir, "pki"), "ca")
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("false")
	if err != nil {
		t.Fatal(err)
	}
	state := fmt.Sprintf(`{"ready": true, "detached": true, "components": {"etcd": {"name": "etcd", "path": %q, "url": "https://127.0.0.1:1/"}}}`, program)
	data := filepath.Join(dir, "etcd", "data")
	for path, text := range map[string]string{filepath.Join(dir, "cluster.json"): state, data: "jobs"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err = up(t.Context(), new(bytes.Buffer), dir, 16, 4)
	for _, want := range []string{"start etcd", "was removed", "make down, then make run"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("up() = %v, want %q", err, want)
		}
	}
	if text, err := os.ReadFile(data); err != nil || string(text) != "jobs" {
		t.Errorf("the data of etcd are now %q (%v)", text, err)
	}
}
