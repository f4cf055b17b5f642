package cluster_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/process"
)

func TestDetached(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ctx := within(t, 15*time.Minute) // the first call builds
	group, err := process.NewGroup(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Forget()
	owner, err := group.Start("owner", os.Args[0], "own-detached", dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Down(t.Context(), dir); err != nil {
			t.Errorf("Down() at the end = %v", err)
		}
	}()
	if err := owner.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if !owner.State().Success() {
		t.Fatalf("the owner: %v\n%s", owner.State(), owner.Tail(30))
	}

	c, err := cluster.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := c.Kubectl(ctx, "get", "nodes", "-o", "name"); err != nil || strings.Count(out, "node/") != 2 {
		t.Errorf("nodes %q (%v), want 2", out, err)
	}
	extra, err := c.StartProcess(ctx, "extra", "/bin/sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(ctx, cluster.Kwok); err != nil {
		t.Error(err)
	}
	if _, err := cluster.Start(ctx, cluster.Config{Dir: dir, Detached: true}); err == nil || !strings.Contains(err.Error(), "a cluster runs in") {
		t.Errorf("a second Start() in the folder = %v", err)
	}

	again, err := cluster.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	processes := again.Processes()
	if len(processes) != 6 || again.Process("extra").PID() != extra.PID() {
		t.Errorf("%d processes, want 5 components and one more", len(processes))
	}
	if err := cluster.Down(ctx, dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range append(processes, extra) {
		if err := p.Wait(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder after Down(): %v", err)
	}
	if err := cluster.Down(ctx, dir); err != nil {
		t.Errorf("second Down() = %v", err)
	}
	if _, err := cluster.Open(dir); err == nil || !strings.Contains(err.Error(), "no cluster runs in") {
		t.Errorf("Open() after Down() = %v", err)
	}
}
