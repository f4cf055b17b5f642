package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Helm runs Helm with every right. Its caches and settings are in
// the cluster's folder. On failure err quotes its standard error.
func (c *Cluster) Helm(ctx context.Context, args ...string) (stdout string, err error) {
	cmd := exec.CommandContext(ctx, c.bins.Helm, append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Env = os.Environ()
	for _, kind := range []string{"CACHE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, "HELM_"+kind+"_HOME="+filepath.Join(c.dir.path, "helm"))
	}
	cmd.WaitDelay = time.Second
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %q: %w: %s", args, err, bytes.TrimSpace(msg.Bytes()))
	}
	return out.String(), nil
}
