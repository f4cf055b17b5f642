package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flux-k8s/fluence/test/cluster/process"
)

// Supervisor is the name of the process that starts the others of a detached cluster again when
// they end. A cluster has one only if its owner starts a program of that name that calls Supervise.
const Supervisor = "supervisor"

// ErrNoCluster means that a folder has no cluster, or one whose start was not completed.
var ErrNoCluster = errors.New("no cluster")

// answerTimeout is how long a component that runs may take to answer before Resume starts it again.
const answerTimeout = 20 * time.Second

// Supervise starts the processes of the detached cluster in dir again when they end, until
// ctx is done. It is for the process Supervisor of that cluster. It ends without an error
// when the cluster is taken down, or another process becomes its supervisor.
func Supervise(ctx context.Context, dir string, log io.Writer) error {
	return process.Supervise(ctx, dir, Supervisor, log)
}

// endSupervisor ends the supervisor of a folder, if one runs. Processes that it has
// started are found only by a process.Open after that.
func endSupervisor(ctx context.Context, dir string) error {
	g, err := process.Open(dir)
	if err != nil {
		return err
	}
	defer g.Forget()
	p := g.Process(Supervisor)
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	return p.Stop(ctx)
}

// Resume opens the detached cluster in dir, and starts those of its components that have ended or
// do not answer, on the addresses and the data that they had. It ends the cluster's supervisor
// first; the caller starts one again. This process owns the folder until Release. log receives
// progress for a human reader.
//
// The error is ErrNoCluster if there is nothing to resume. Any other error leaves the cluster as it
// is, such as one whose port another program has taken, or whose etcd ends because the disk is full.
func Resume(ctx context.Context, dir string, log io.Writer) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resume the cluster: %w", err)
	}
	if ours, err := isStateDir(dir); err != nil || !ours {
		return nil, errors.Join(err, fmt.Errorf("%s is not empty and not a cluster's", dir))
	}
	c, err := read(dir)
	if err != nil {
		return nil, err
	}
	if c.dir.lock, err = tryLock(filepath.Join(dir, lockFile)); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("another command starts or stops the cluster in %s", dir)
	}
	if err == nil {
		err = c.resume(ctx, log)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resume the cluster in %s: %w", dir, err), c.Release())
	}
	return c, nil
}

// Release gives up the folder of a cluster that Resume has returned. The cluster runs on.
func (c *Cluster) Release() error { return c.dir.release(false) }

// resume does the work of Resume for a cluster that was read.
func (c *Cluster) resume(ctx context.Context, log io.Writer) (err error) {
	if err := endSupervisor(ctx, c.dir.path); err != nil {
		return err
	}
	if c.group, err = process.Open(c.dir.path); err != nil {
		return err
	}
	if err := c.attach(); err != nil {
		return err
	}
	for _, name := range []string{Etcd, KubeAPIServer, KubeControllerManager, Kwok, FakeKubelet, KubeScheduler} {
		comp, ok := c.state.Components[name]
		if !ok {
			continue
		}
		if err := c.revive(ctx, comp, log); err != nil {
			return err
		}
	}
	return nil
}

// revive starts a component if it has ended, and again if it does not answer.
func (c *Cluster) revive(ctx context.Context, comp component, log io.Writer) error {
	p := c.group.Process(comp.Name)
	switch {
	case p == nil:
		fmt.Fprintf(log, "Starting %s, which had ended\n", comp.Name)
	case comp.URL == "" || c.answers(ctx, p, comp.URL):
		return nil
	default:
		fmt.Fprintf(log, "Starting %s again: it does not answer\n", comp.Name)
	}
	return c.Restart(ctx, comp.Name)
}

// answers reports whether a component answers in time.
func (c *Cluster) answers(ctx context.Context, p *process.Process, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client := c.HTTPClient()
	defer client.CloseIdleConnections()
	return p.WaitHTTP(ctx, client, url) == nil
}
