package cluster_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/process"
)

// TestMain lets the tests start this binary as the owner of a cluster.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "own") {
		own(os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// within returns a context that ends after a time.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// start starts a cluster for the rest of the test.
func start(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	cfg.Log = os.Stderr
	c, err := cluster.Start(within(t, 15*time.Minute), cfg) // the first call builds
	if err != nil {
		t.Fatal(err)
	}
	stopAfter(t, c)
	return c
}

// stopAfter stops a cluster at the end of the test.
func stopAfter(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	})
}

func TestClustersSideBySide(t *testing.T) {
	var one, two *cluster.Cluster
	var g errgroup.Group
	for _, c := range []**cluster.Cluster{&one, &two} {
		g.Go(func() (err error) {
			*c, err = cluster.Start(within(t, 15*time.Minute), cluster.Config{Nodes: cluster.Nodes{Count: 2}, Log: os.Stderr})
			return err
		})
	}
	err := g.Wait()
	for _, c := range []*cluster.Cluster{one, two} {
		if c != nil {
			stopAfter(t, c)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, time.Minute)
	if _, _, err := one.Kubectl(ctx, "create", "namespace", "only-in-one"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := two.Kubectl(ctx, "get", "namespace", "only-in-one"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the other cluster's namespace: %v, want NotFound", err)
	}
	extra, err := one.StartProcess(ctx, "extra", "/bin/sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}

	processes := one.Processes()
	if err := one.Stop(ctx); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	for _, p := range append(processes, extra) {
		select {
		case <-p.Done():
		default:
			t.Errorf("%s runs after Stop()", p.Name())
		}
	}
	if _, err := os.Stat(one.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder after Stop(): %v", err)
	}
	if err := one.Stop(ctx); err != nil {
		t.Errorf("second Stop() = %v", err)
	}
	if out, _, err := two.Kubectl(ctx, "get", "nodes", "-o", "name"); err != nil || out != "node/node-0000\nnode/node-0001\n" {
		t.Errorf("nodes of the other cluster: %q, %v", out, err)
	}
}

func TestAComponentThatEndsEarlyIsNamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := cluster.Start(within(t, 15*time.Minute), cluster.Config{
		ExtraArgs: map[string][]string{cluster.Kwok: {"--no-such-flag"}},
		Log:       os.Stderr,
	})
	for _, want := range []string{"start kwok", "exit status 1", "unknown flag: --no-such-flag", "kwok.log"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start() = %v, want it to say %q", err, want)
		}
	}
	if left, _ := fs.Glob(os.DirFS(os.TempDir()), "fluence-cluster-*/*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBadConfigurations(t *testing.T) {
	cases := map[string]struct {
		cfg  cluster.Config
		want string
	}{
		"detached without a folder":            {cfg: cluster.Config{Detached: true}, want: "dir: "},
		"arguments for an unknown component":   {cfg: cluster.Config{ExtraArgs: map[string][]string{"apiserver": nil}}, want: "extraArgs: "},
		"a lease too short":                    {cfg: cluster.Config{NodeLease: time.Millisecond}, want: "nodeLease: "},
		"no kubelet where there is none":       {cfg: cluster.Config{APIOnly: true, NoKubelet: true}, want: "noKubelet: "},
		"no pod stages where KWOK is left out": {cfg: cluster.Config{APIOnly: true, NoPodStages: true}, want: "noPodStages: "},
		"no heartbeat where KWOK is left out":  {cfg: cluster.Config{APIOnly: true, NoHeartbeat: true}, want: "noHeartbeat: "},
		"arguments for a kubelet that is left out": {
			cfg:  cluster.Config{NoKubelet: true, ExtraArgs: map[string][]string{cluster.FakeKubelet: nil}},
			want: "extraArgs: ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := cluster.Start(t.Context(), tc.cfg); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("Start() = %v, want %q...", err, tc.want)
			}
		})
	}
}

func TestAClusterDiesWithItsOwner(t *testing.T) {
	cases := map[string]func(owner *process.Process) error{
		"killed":     func(owner *process.Process) error { return owner.Signal(syscall.SIGKILL) },
		"in a panic": func(owner *process.Process) error { return owner.Signal(syscall.SIGUSR1) },
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 5*time.Minute)
			group, err := process.NewGroup(t.TempDir(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer group.Forget()
			owner, err := group.Start("owner", os.Args[0], "own", t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := process.Open(ownedDir(ctx, t, owner)) // finds them by their records
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Forget()
			found := theirs.Processes()
			if len(found) != 6 {
				t.Errorf("found %d processes, want 5 components and one more", len(found))
			}
			if err := end(owner); err != nil {
				t.Fatal(err)
			}
			for _, p := range append(found, owner) {
				if err := p.Wait(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// ownedDir waits until own prints its cluster's folder.
func ownedDir(ctx context.Context, t *testing.T, owner *process.Process) string {
	t.Helper()
	const announce = "the cluster is in "
	if err := owner.WaitLog(ctx, announce); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(owner.Tail(100)) {
		if dir, ok := strings.CutPrefix(line, announce); ok {
			return strings.TrimSpace(dir)
		}
	}
	t.Fatal("the owner's log has changed")
	return ""
}
