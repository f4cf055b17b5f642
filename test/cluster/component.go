package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster/kubelet"
)

// These are the names of a cluster's components, for Process, Restart and Config.ExtraArgs.
const (
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	KubeScheduler         = "kube-scheduler"
	Kwok                  = "kwok"
	FakeKubelet           = "fake-kubelet"
)

func isComponent(name string) bool {
	return slices.Contains([]string{
		Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler, Kwok, FakeKubelet,
	}, name)
}

// component is all that is needed to start one component again.
type component struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	// URL answers 200 when the component is ready. If URL is empty,
	// the component writes kubelet.ReadyLine to its log instead.
	URL string `json:"url,omitempty"`
}

// portAttempts is how often a component is started if another
// program takes its port between the choice and the start.
const portAttempts = 5

// launch starts a component on free ports, and waits until it
// is ready. design returns the component for the chosen ports.
func (c *Cluster) launch(ctx context.Context, ports int, design func(ports []int) component) error {
	for attempt := 1; ; attempt++ {
		chosen, err := FreePorts(ports)
		if err != nil {
			return err
		}
		comp := design(chosen)
		err = c.run(ctx, comp)
		if err == nil {
			c.mu.Lock()
			c.state.Components[comp.Name] = comp
			c.mu.Unlock()
			return nil
		}
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return err
		}
	}
}

// errPortTaken means that a component ended because its port was not free.
var errPortTaken = errors.New("its port is taken")

// run starts a component and waits until it is ready.
func (c *Cluster) run(ctx context.Context, comp component) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := c.group.Start(comp.Name, comp.Path, comp.Args...)
	if err != nil {
		return err
	}
	if comp.URL == "" {
		err = p.WaitLog(ctx, kubelet.ReadyLine)
	} else {
		client := c.HTTPClient()
		defer client.CloseIdleConnections()
		err = p.WaitHTTP(ctx, client, comp.URL)
	}
	if err == nil {
		return nil
	}
	select {
	case <-p.Done():
		if strings.Contains(p.Tail(50), "address already in use") {
			return fmt.Errorf("start %s: %w: %w", comp.Name, errPortTaken, err)
		}
	default:
		err = errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
	}
	return fmt.Errorf("start %s: %w", comp.Name, err)
}

// Restart kills a component, if it still runs, and starts it again with
// the same arguments and state. It returns when the component is ready.
// A test can kill a component on purpose and restart it this way.
func (c *Cluster) Restart(ctx context.Context, name string) error {
	c.mu.Lock()
	comp, ok := c.state.Components[name]
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("restart %s: no such component", name)
	}
	if p := c.group.Process(name); p != nil {
		if err := p.Kill(ctx); err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
	}
	if name == Kwok {
		if err := c.freeNodes(ctx); err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
	}
	return c.run(ctx, comp)
}

// freeNodes removes the leases of the nodes, which KWOK has under another name at each
// start. Otherwise the new KWOK would manage no node before the old leases have run out.
func (c *Cluster) freeNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("remove the leases of the nodes: %w", err)
	}
	return nil
}

// Serve starts the API server again, so that it serves these APIs beside its defaults,
// as with Config.RuntimeConfig. It returns when the API server is ready.
func (c *Cluster) Serve(ctx context.Context, apis map[string]bool) error {
	const flag = "--runtime-config="
	c.mu.Lock()
	comp := c.state.Components[KubeAPIServer]
	comp.Args = slices.Clone(comp.Args)
	for i, arg := range comp.Args {
		if strings.HasPrefix(arg, flag) {
			comp.Args[i] = flag + joinSwitches(apis)
		}
	}
	c.state.Components[KubeAPIServer] = comp
	c.mu.Unlock()
	return c.Restart(ctx, KubeAPIServer)
}

// FreePorts returns n different ports of 127.0.0.1 that were free a
// moment ago. Another program may take them before they are used.
func FreePorts(n int) ([]int, error) {
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // held until all are chosen, so that they differ
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}
