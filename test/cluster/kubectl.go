package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Kubectl runs kubectl with every right. On failure err quotes its standard
// error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	return c.KubectlInput(ctx, nil, args...)
}

// KubectlInput is Kubectl with a standard input, as for "apply", "-f", "-".
func (c *Cluster) KubectlInput(ctx context.Context, in io.Reader, args ...string) (stdout, stderr string, err error) {
	global := []string{
		"--kubeconfig", c.Kubeconfig(),
		"--cache-dir", filepath.Join(c.dir.path, "kubectl-cache"),
	}
	cmd := exec.CommandContext(ctx, c.bins.Kubectl, append(global, args...)...)
	cmd.Env = append(os.Environ(), "KUBERC=off") // the user's own preferences
	cmd.WaitDelay = time.Second
	var out, msg bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &msg
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("kubectl %q: %w: %s", args, err, bytes.TrimSpace(msg.Bytes()))
	}
	return out.String(), msg.String(), err
}
