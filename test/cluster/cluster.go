// Package cluster runs a real Kubernetes control plane on loopback,
// with simulated nodes. It is for tests and for trying Fluence out.
//
// etcd, kube-apiserver, kube-controller-manager and KWOK run as ordinary
// processes, with RBAC, default admission and an audit log. Nodes become Ready.
// Pods run, and end when their annotations say so (see package kubelet). A pod
// is rejected with OutOfcpu and the like if its node has no room for it.
//
// Clusters are independent of each other: each has its own folder, ports, certificates and
// processes. A cluster dies with the process that started it, even if that process panics or is
// killed. A cluster that was started Detached lives on. Open finds it again, and Down ends it.
//
//	c, err := cluster.Start(ctx, cluster.Config{Nodes: cluster.Nodes{Count: 4}, Log: os.Stderr})
//	if err != nil { ... }
//	defer c.Stop(ctx)
//	out, _, err := c.Kubectl(ctx, "get", "nodes")
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/test/cluster/pki"
	"github.com/flux-k8s/fluence/test/cluster/process"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

const (
	// startTimeout bounds the start of one component.
	startTimeout = 90 * time.Second
	// stopGrace is how long a process of StartProcess may
	// take to end after SIGTERM when the cluster is stopped.
	stopGrace = 10 * time.Second
)

// Cluster is a running control plane. Its methods may be called from several
// goroutines.
type Cluster struct {
	dir   *stateDir
	group *process.Group
	ca    *pki.Authority
	bins  *tools.Binaries
	state state

	rest   *rest.Config
	client kubernetes.Interface
	mu     sync.Mutex // serialises writes of the state and of kubeconfig files
}

// Start builds the programs that are missing, starts a control plane, and waits until it
// answers and its nodes are Ready. If the start fails, nothing is left running, and the error
// quotes the log of the component at fault. ctx bounds the start, not the cluster's life.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	bins, err := tools.Build(ctx, cfg.log())
	if err != nil {
		return nil, err
	}
	dir, err := newStateDir(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bins: bins, state: state{
		Detached:      cfg.Detached,
		FeatureGates:  cfg.FeatureGates,
		RuntimeConfig: cfg.RuntimeConfig,
		Components:    map[string]component{},
		Binaries:      bins,
	}}
	if err := c.start(ctx, cfg); err != nil {
		if c.group != nil {
			err = errors.Join(err, c.group.Close(ctx, nil))
		}
		return nil, errors.Join(err, dir.release(cfg.Dir == ""))
	}
	if cfg.Detached {
		return c, dir.release(false)
	}
	return c, nil
}

// start does the work of Start in an existing state folder.
func (c *Cluster) start(ctx context.Context, cfg Config) (err error) {
	begin := time.Now()
	if err := c.save(); err != nil {
		return err
	}
	if c.group, err = process.NewGroup(c.dir.path, cfg.Detached); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, cfg); err != nil {
		return err
	}
	fmt.Fprintf(cfg.log(), "control plane ready in %.1fs\n", time.Since(begin).Seconds())
	if cfg.Nodes.Count > 0 {
		begin = time.Now()
		if _, err := c.AddNodes(ctx, cfg.Nodes); err != nil {
			return err
		}
		fmt.Fprintf(cfg.log(), "%d nodes ready in %.1fs\n", cfg.Nodes.Count, time.Since(begin).Seconds())
	}
	c.state.Ready = true
	return c.save()
}

// Stop ends all processes of the cluster. The processes of StartProcess end
// first, by SIGTERM. Stop removes the state folder too, unless Config.Dir
// names it and the cluster is not detached. A second call does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.state.Detached {
		return Down(ctx, c.dir.path)
	}
	err := closeGroup(ctx, c.group)
	return errors.Join(err, c.dir.release(c.dir.temporary))
}

// closeGroup ends the processes of a group. Only processes that are no
// components get SIGTERM, because the state of the components is discarded.
func closeGroup(ctx context.Context, g *process.Group) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	return g.Close(ctx, func(name string) bool { return !isComponent(name) })
}

// Dir returns the folder of the cluster's state.
func (c *Cluster) Dir() string { return c.dir.path }

// Logs returns the folder with the log of each process, NAME.log.
func (c *Cluster) Logs() string { return filepath.Join(c.dir.path, "logs") }

// RESTConfig returns a client configuration with every right and without a
// client-side rate limit.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Client returns a clientset made from RESTConfig.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Binaries returns the paths of the cluster's programs.
func (c *Cluster) Binaries() tools.Binaries { return *c.bins }

// StartProcess runs another program, such as a scheduler, under the same supervision as the
// control plane. The program ends with the cluster, if not before. name is the name of its
// log. After its end it may be started again under the same name. StartProcess does not
// wait until the program is ready: Process has methods for that. ctx bounds the start only.
func (c *Cluster) StartProcess(ctx context.Context, name, binary string, args ...string) (*process.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if isComponent(name) {
		return nil, fmt.Errorf("start %s: the name is taken by a component", name)
	}
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c.group.Start(name, path, args...)
}

// Process returns the process that was last started under a name.
// The name may be a component's. It returns nil if there is none.
func (c *Cluster) Process(name string) *process.Process { return c.group.Process(name) }

// Processes returns all processes of the cluster, in the order of their starts.
func (c *Cluster) Processes() []*process.Process { return c.group.Processes() }

// writeFile writes a file in the state folder, readable by its owner only.
func (c *Cluster) writeFile(name string, text []byte) (string, error) {
	path := filepath.Join(c.dir.path, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}
