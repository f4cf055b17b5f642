package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// All programs that use the API server report an API server of an older
// minor version, even if nothing else continues: kube-scheduler's
// caches wait for versions of resources that it does not serve.
func TestAnAPIServerOfAnotherVersionIsTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{
		ExtraArgs: map[string][]string{cluster.KubeAPIServer: {"--emulated-version=1.36"}},
		Log:       t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	st, err := stack.Start(ctx, c, stack.Config{SidecarBinary: *sidecar, SidecarArgs: strings.Fields(*sidecarArgs), Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	const told = "the API server is of Kubernetes 1.36, and this build of Fluence is made for 1.37 and 1.38"
	for _, name := range []string{stack.Scheduler, stack.Controller} {
		if err := st.Process(name).WaitLog(ctx, told); err != nil {
			t.Errorf("%s does not say so: %v", name, err)
		}
	}
	s := &story{T: t, Stack: st, ns: "default"}
	s.nodes("n", 2, "8")
	for command, code := range map[string]int{"simulate -f -": 0, "status": 2} {
		ask := exec.CommandContext(ctx, filepath.Join(st.Built(), stack.KubectlPlugin), append(strings.Fields(command), "--kubeconfig", c.Kubeconfig())...)
		ask.Stdin = strings.NewReader(job("gang", 2, "1"))
		if out, _ := ask.CombinedOutput(); !strings.Contains(string(out), told) || ask.ProcessState.ExitCode() != code {
			t.Errorf("kubectl fluence %s ends with %s and says\n%s", command, ask.ProcessState, out)
		}
	}
}
