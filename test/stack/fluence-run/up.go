package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// upTimeout bounds everything, compiling included.
const upTimeout = 45 * time.Minute

// up keeps the cluster that is in dir, or starts a new one.
func up(ctx context.Context, out io.Writer, dir string, nodes, racks int) error {
	if nodes < 1 || racks < 1 {
		return fmt.Errorf("--nodes=%d --racks=%d: both must be at least 1", nodes, racks)
	}
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	start := time.Now()
	c, err := cluster.Resume(ctx, dir, out)
	var commands, kept string
	switch {
	case err == nil:
		fmt.Fprintf(out, "Keeping the cluster in %s with its nodes and jobs; only `make down` removes them\n", dir)
		if commands, kept, err = keep(ctx, out, c, dir); err != nil {
			return fmt.Errorf("%w\n%s", err, leftAsItIs(dir))
		}
	case errors.Is(err, cluster.ErrNoCluster):
		c, commands, err = begin(ctx, out, dir, nodes, racks)
	default:
		return fmt.Errorf("%w\n%s", err, leftAsItIs(dir))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%sDone in %.0fs. Everything is left running; `make down` stops it. To look around:\n\n    export KUBECONFIG=%s PATH=%s:$PATH\n\n",
		kept, time.Since(start).Seconds(), c.Kubeconfig(), commands)
	return nil
}

// leftAsItIs says what a user can do after a failure that removed nothing.
func leftAsItIs(dir string) string {
	return fmt.Sprintf("Nothing in %s was removed. To begin anew, and lose its jobs: make down, then make run", dir)
}

// begin starts a new cluster, Fluence and a first Job. After a failure nothing is left running.
func begin(ctx context.Context, out io.Writer, dir string, nodes, racks int) (*cluster.Cluster, string, error) {
	fmt.Fprintf(out, "Starting a control plane with %d nodes in %d racks; the first time its programs are compiled, which takes a quarter of an hour\n", nodes, racks)
	// A start that was interrupted may have left processes.
	if err := cluster.Down(ctx, dir); err != nil {
		return nil, "", fmt.Errorf("end an earlier run: %w", err)
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Dir:            dir,
		Detached:       true,
		StockScheduler: true,
		// A real kubelet's. After a restart KWOK runs no pods before the leases have run out.
		NodeLease: 40 * time.Second,
		Log:       out,
		Nodes:     demoNodes(nodes, racks),
	})
	if err != nil {
		return nil, "", err
	}
	commands, err := place(ctx, out, c, dir)
	if err == nil {
		err = startSupervisor(ctx, c)
	}
	if err != nil {
		return nil, "", errors.Join(err, cluster.Down(context.WithoutCancel(ctx), dir))
	}
	return c, commands, nil
}

// place installs and starts Fluence, and creates a Job
// of 8. It returns the folder of the commands for users.
func place(ctx context.Context, out io.Writer, c *cluster.Cluster, dir string) (commands string, err error) {
	if err := addDevices(ctx, c); err != nil {
		return "", err
	}
	s, err := stack.Start(ctx, c, config(out))
	if err != nil {
		return "", err
	}
	if commands, err = link(c, s, dir); err != nil {
		return "", err
	}
	return commands, firstJob(ctx, out, s)
}

// keep brings Fluence on a cluster that was resumed up to date. It returns the folder
// of the commands for users, and a sentence on what was kept.
func keep(ctx context.Context, out io.Writer, c *cluster.Cluster, dir string) (commands, kept string, err error) {
	s, err := stack.Update(ctx, c, config(out))
	// Whatever runs is looked after also if the update has failed.
	err = errors.Join(err, startSupervisor(ctx, c), c.Release())
	if err != nil {
		return "", "", err
	}
	if commands, err = link(c, s, dir); err != nil {
		return "", "", err
	}
	nodes, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", "", fmt.Errorf("count the nodes: %w", err)
	}
	pods, err := c.Client().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", "", fmt.Errorf("count the pods: %w", err)
	}
	groups, err := s.PodGroups(ctx, metav1.NamespaceAll)
	if err != nil {
		return "", "", err
	}
	return commands, fmt.Sprintf("Kept: %d nodes, %d pods, %d PodGroups.\n", len(nodes.Items), len(pods.Items), len(groups)), nil
}

// config returns the configuration of Fluence. Simulated nodes
// run no programs, so processes replace the chart's pods.
func config(out io.Writer) stack.Config {
	return stack.Config{
		Chart: &stack.Chart{Set: []string{"replicas=0", "scheduler.args.topologyLevels={" + strings.Join(levels, ",") + "}"}},
		Log:   out,
	}
}

// link makes a folder with the commands that a user types.
func link(c *cluster.Cluster, s *stack.Stack, dir string) (string, error) {
	commands := filepath.Join(dir, "bin")
	if err := os.MkdirAll(commands, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of commands: %w", err)
	}
	for name, path := range map[string]string{
		"kubectl":           c.Binaries().Kubectl,
		"helm":              c.Binaries().Helm,
		stack.KubectlPlugin: filepath.Join(s.Built(), stack.KubectlPlugin),
	} {
		link := filepath.Join(commands, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("make the folder of commands: %w", err)
		}
		if err := os.Symlink(path, link); err != nil {
			return "", fmt.Errorf("make the folder of commands: %w", err)
		}
	}
	return commands, nil
}

func firstJob(ctx context.Context, out io.Writer, s *stack.Stack) error {
	// Users may want to try exclusive groups here.
	if _, _, err := s.Kubectl(ctx, "label", "namespace", "default", group.WholeNodesLabel+"="+group.WholeNodesAllowed); err != nil {
		return err
	}
	fmt.Fprintln(out, "Applying manifests/examples/job.yaml, a Job of 8 pods")
	if _, _, err := s.Kubectl(ctx, "apply", "-f", s.Example("job.yaml")); err != nil {
		return err
	}
	name, err := s.WaitPlaced(ctx, "default", 1)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"get", "fpg"},
		{"get", "pods", "-o", "custom-columns=NAME:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName"},
		{"describe", "podgroups.scheduling.x-k8s.io", name},
	} {
		fmt.Fprintf(out, "\n$ kubectl %s\n", strings.Join(args, " "))
		text, _, err := s.Kubectl(ctx, args...)
		if err != nil {
			return err
		}
		fmt.Fprint(out, text)
	}
	return nil
}
