package cluster

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/cluster/pki"
	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

func TestATakenPortIsReplaced(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first run builds
	defer cancel()
	bins, err := tools.Build(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{dir: &stateDir{path: t.TempDir()}, bins: bins, ca: ca, state: state{Components: map[string]component{}}}
	if c.group, err = process.NewGroup(c.dir.path, false); err != nil {
		t.Fatal(err)
	}
	defer c.group.Forget()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	attempts := 0
	err = c.launch(ctx, 2, func(ports []int) component {
		if attempts++; attempts == 1 {
			ports[0] = taken.Addr().(*net.TCPAddr).Port
		}
		return c.etcd(Config{}, ports)
	})
	if err != nil {
		t.Fatal(err)
	}
	if attempts != 2 {
		t.Errorf("started %d times, want 2", attempts)
	}
}
