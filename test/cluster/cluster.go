// Package cluster runs a real Kubernetes control plane on loopback, with nodes
// that are simulated, for tests and for trying Fluence out.
//
// etcd, kube-apiserver, kube-controller-manager and KWOK run as ordinary
// processes, with RBAC, default admission and an audit log. Nodes become Ready,
// pods run, finish as their annotations say (see the kubelet package), and are
// rejected with OutOfcpu and the like when their node has no room for them.
//
// Clusters do not know of each other: every one has its own folder, ports,
// certificates and processes. A cluster dies with the process that started it,
// also when that panics or is killed, unless it was started Detached; then Open
// finds it again and Down ends it.
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
	// stopGrace is how long the processes of StartProcess may take to end
	// after SIGTERM when the cluster is stopped.
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

// Start builds what is missing, starts a control plane and waits until it
// answers and its nodes are Ready. If that fails nothing is left running, and
// the error quotes the log of the component at fault. ctx bounds the start, not
// the cluster's life.
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

// start is Start after the state folder exists.
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

// Stop ends all processes of the cluster, those of StartProcess first and
// gently. The state folder goes too, unless Config.Dir named it and the cluster
// was not detached. A second call does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.state.Detached {
		return Down(ctx, c.dir.path)
	}
	err := closeGroup(ctx, c.group)
	return errors.Join(err, c.dir.release(c.dir.temporary))
}

// closeGroup ends the processes of a group: the components' state is thrown
// away with them, so only what others started is asked first.
func closeGroup(ctx context.Context, g *process.Group) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	return g.Close(ctx, func(name string) bool { return !isComponent(name) })
}

// Dir is the folder with the cluster's state.
func (c *Cluster) Dir() string { return c.dir.path }

// Logs is the folder with the log of every process, NAME.log.
func (c *Cluster) Logs() string { return filepath.Join(c.dir.path, "logs") }

// RESTConfig returns a client configuration with every right and without a
// client-side rate limit.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Client is a clientset made from RESTConfig.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Binaries says where the programs of the cluster are.
func (c *Cluster) Binaries() tools.Binaries { return *c.bins }

// StartProcess runs a further program, such as a scheduler, under the same
// supervision as the control plane: it ends with the cluster at the latest.
// Name is used for its log; a program that has ended may be started again under
// the same name. It does not wait until the program is ready: Process has
// methods for that. ctx bounds the start only.
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

// Process returns the process last started under name, a component's name
// included, or nil.
func (c *Cluster) Process(name string) *process.Process { return c.group.Process(name) }

// Processes returns every process of the cluster in order of start.
func (c *Cluster) Processes() []*process.Process { return c.group.Processes() }

// writeFile stores text in the state folder, readable by the owner only.
func (c *Cluster) writeFile(name string, text []byte) (string, error) {
	path := filepath.Join(c.dir.path, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}
