package cluster

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Kubectl runs kubectl with every right. On failure err quotes its standard
// error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	return c.KubectlInput(ctx, nil, args...)
}

// KubectlInput runs kubectl with a standard input, as for "apply", "-f", "-".
func (c *Cluster) KubectlInput(ctx context.Context, in io.Reader, args ...string) (stdout, stderr string, err error) {
	global := []string{
		"--kubeconfig", c.Kubeconfig(),
		"--cache-dir", filepath.Join(c.dir.path, "kubectl-cache"),
	}
	cmd := exec.CommandContext(ctx, c.bins.Kubectl, append(global, args...)...)
	cmd.Env = append(os.Environ(), "KUBERC=off") // ignore the user's own preferences
	cmd.WaitDelay = time.Second
	var out, msg bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &msg
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("kubectl %q: %w: %s", args, err, bytes.TrimSpace(msg.Bytes()))
	}
	return out.String(), msg.String(), err
}

// WaitCRDs waits until the API server serves these CRDs, at most half a
// minute. Without names it waits for all CRDs that exist. It tries again if
// kubectl wait gives up, as it does on a new CRD that has no conditions yet.
func (c *Cluster) WaitCRDs(ctx context.Context, names ...string) error {
	args := append([]string{"wait", "--for=condition=Established", "--timeout=30s", "crd"}, names...)
	if len(names) == 0 {
		args = append(args, "--all")
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, _, last = c.Kubectl(ctx, args...)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRDs: %w", cmp.Or(last, err))
	}
	return nil
}
