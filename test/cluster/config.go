package cluster

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Config is what to start. The zero value is a control plane
// without nodes and without a scheduler, in a temporary folder.
type Config struct {
	// Dir is the folder of the cluster's state. It must be missing or empty, or be the folder
	// of a cluster that has ended. Defaults to a temporary folder. That is removed when the
	// cluster stops. If its owner was killed, it is removed when the next cluster starts.
	Dir string
	// Detached makes the cluster outlive the process that starts it. It needs Dir.
	Detached bool
	// FeatureGates are set in every Kubernetes component.
	FeatureGates map[string]bool
	// RuntimeConfig turns groups and versions of the API on and off, such as
	// "scheduling.k8s.io/v1beta1".
	RuntimeConfig map[string]bool
	// Nodes are added before Start returns.
	Nodes Nodes
	// APIOnly runs etcd and the API server alone. Nodes and pods remain as
	// they are written: nothing creates pods, ends them or finds a node
	// dead. It is for clusters too large to be simulated. It excludes Nodes.
	APIOnly bool
	// NoAudit leaves out the audit log, to which the API
	// server writes each request. AuditEvents then fails.
	NoAudit bool
	// NoKubelet leaves out the fake kubelet: no pod is admitted, none runs, and none is removed
	// after its grace period. It excludes APIOnly, which leaves out the kubelet already.
	NoKubelet bool
	// NoPodStages makes KWOK manage nodes alone. They stay Ready, but no pod
	// runs or ends. It excludes APIOnly, which leaves out KWOK.
	NoPodStages bool
	// NoHeartbeat makes KWOK write the status of a node once, to make it Ready. The
	// node's lease then keeps it Ready. Without NoHeartbeat, KWOK writes the status
	// again after ten minutes, of all nodes within ten seconds. It excludes APIOnly.
	NoHeartbeat bool
	// StockScheduler also runs kube-scheduler in its default
	// configuration, except for its limit of 50 requests a second.
	StockScheduler bool
	// NodeLease is how long the lease of a node is valid. It is renewed after a
	// quarter of that time. When KWOK dies, its nodes are found NotReady a
	// little later than that, but not before 50s. A real kubelet's is 40s, with
	// which a thousand nodes would keep an API server busy. Defaults to 200s.
	NodeLease time.Duration
	// ExtraArgs are further arguments of components,
	// by the component's name, such as KubeAPIServer.
	ExtraArgs map[string][]string
	// Log receives progress for a human reader. Defaults to io.Discard.
	Log io.Writer
}

func (c *Config) validate() error {
	if c.NodeLease == 0 {
		c.NodeLease = 200 * time.Second
	}
	if c.NodeLease < time.Second {
		return fmt.Errorf("nodeLease: %v is shorter than a second", c.NodeLease)
	}
	if c.Detached && c.Dir == "" {
		return errors.New("dir: a detached cluster needs one, to be found again")
	}
	if c.APIOnly && (c.Nodes.Count > 0 || c.StockScheduler) {
		return errors.New("apiOnly: nobody makes nodes ready or runs pods; leave nodes and stockScheduler out")
	}
	if c.APIOnly && c.NoKubelet {
		return errors.New("noKubelet: apiOnly leaves the kubelet out already")
	}
	for name, on := range map[string]bool{"noPodStages": c.NoPodStages, "noHeartbeat": c.NoHeartbeat} {
		if c.APIOnly && on {
			return fmt.Errorf("%s: apiOnly leaves KWOK out", name)
		}
	}
	if _, ok := c.ExtraArgs[FakeKubelet]; ok && c.NoKubelet {
		return fmt.Errorf("extraArgs: noKubelet leaves %q out", FakeKubelet)
	}
	for name := range c.ExtraArgs {
		if !isComponent(name) {
			return fmt.Errorf("extraArgs: no component is called %q", name)
		}
	}
	return nil
}

func (c *Config) log() io.Writer {
	if c.Log == nil {
		return io.Discard
	}
	return c.Log
}

// FeatureGatesFlag returns the flag that gives a Kubernetes component
// the cluster's feature gates, such as --feature-gates=A=true,B=false.
// Without gates it is --feature-gates=, which changes nothing.
func (c *Cluster) FeatureGatesFlag() string {
	return "--feature-gates=" + joinSwitches(c.state.FeatureGates)
}

// joinSwitches returns switches in the form of the components' flags.
func joinSwitches(m map[string]bool) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%t", k, m[k]))
	}
	return strings.Join(out, ",")
}
