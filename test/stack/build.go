package stack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// Build compiles the three programs and the kubectl plugin into the repository's bin
// folder, and returns the folder. The compiler has nothing to do if nothing changed.
func Build(ctx context.Context, log io.Writer) (string, error) {
	root, err := tools.RepositoryRoot()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	for program, pkg := range map[string]string{Scheduler: "./cmd/scheduler", Sidecar: "./cmd/sidecar", Controller: "./cmd/controller", KubectlPlugin: "./cmd/kubectl-fluence"} {
		start := time.Now()
		if err := compile(ctx, root, filepath.Join(bin, program), pkg); err != nil {
			return "", err
		}
		fmt.Fprintf(log, "Built %s in %.1fs\n", program, time.Since(start).Seconds())
	}
	return bin, nil
}

// BuildProgram compiles another main package of the module
// into a file of a folder, and returns the file's path.
func BuildProgram(ctx context.Context, dir, pkg string) (string, error) {
	root, err := tools.RepositoryRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	return path, compile(ctx, root, path, pkg)
}

func compile(ctx context.Context, root, path, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, pkg)
	cmd.Dir = root
	// The settings are the same as for the control plane's
	// programs, so that everything is compiled once.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
