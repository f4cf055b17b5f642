package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/test/cluster"
)

func testLoopbackOnly(t *testing.T, c *cluster.Cluster) {
	listening := listeners(t)
	for _, p := range c.Processes() {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID()))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, fd := range fds {
			target, err := os.Readlink(fd)
			if err != nil {
				continue // closed meanwhile
			}
			address, ok := listening[target]
			if !ok {
				continue
			}
			found++
			if !strings.HasPrefix(address, "0100007F:") { // 127.0.0.1
				t.Errorf("%s listens on %s", p.Name(), address)
			}
		}
		if found == 0 && p.Name() != cluster.FakeKubelet {
			t.Errorf("%s does not listen at all", p.Name())
		}
	}
}

// listeners returns the address of each listening TCP socket, in
// the kernel's notation, by the socket's name in /proc/PID/fd.
func listeners(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(text)) {
			const local, state, inode, listen = 1, 3, 9, "0A"
			if f := strings.Fields(line); len(f) > inode && f[state] == listen {
				out["socket:["+f[inode]+"]"] = f[local]
			}
		}
	}
	return out
}
