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

// Config says what to start. The zero value is a control plane without nodes
// and without a scheduler, in a temporary folder.
type Config struct {
	// Dir is the folder of the cluster's state. It must not exist, be empty, or
	// hold what is left of a cluster that has ended. Defaults to a temporary
	// folder, which goes when the cluster stops or, if its owner was killed,
	// when the next one starts.
	Dir string
	// Detached lets the cluster outlive the process that starts it. Needs Dir.
	Detached bool
	// FeatureGates are set in every Kubernetes component.
	FeatureGates map[string]bool
	// RuntimeConfig turns groups and versions of the API on and off, such as
	// "scheduling.k8s.io/v1beta1".
	RuntimeConfig map[string]bool
	// Nodes are added before Start returns.
	Nodes Nodes
	// APIOnly leaves out everything but etcd and the API server: nodes and pods stay
	// as they are written, and nobody makes pods, ends them or finds a node dead. It
	// is for clusters too large to be simulated. Goes without Nodes.
	APIOnly bool
	// NoAudit leaves out the audit log, to which the API server writes every request:
	// AuditEvents then fails.
	NoAudit bool
	// NoKubelet leaves out the fake kubelet: it admits no pod, and none runs. Goes
	// without APIOnly, which leaves it out already.
	NoKubelet bool
	// NoPodStages has KWOK look after nodes alone: they stay Ready, but nobody runs a
	// pod, ends it, or removes it when its grace period is over. Goes without APIOnly,
	// which leaves KWOK out.
	NoPodStages bool
	// NoHeartbeat has KWOK write the status of a node once, to make it Ready; its lease
	// keeps it so. Otherwise it is written again after ten minutes, that of all nodes
	// within ten seconds. Goes without APIOnly.
	NoHeartbeat bool
	// StockScheduler also runs kube-scheduler in its default configuration, but
	// without its limit of 50 requests a second.
	StockScheduler bool
	// NodeLease is how long the lease of a node is valid; it is renewed after a
	// quarter of that. The nodes of a dead KWOK are found NotReady a little
	// later than this, at least 50s. A real kubelet's is 40s, with which a
	// thousand nodes keep an API server busy. Defaults to 200s.
	NodeLease time.Duration
	// ExtraArgs are appended to the arguments of the component they are keyed
	// by, such as KubeAPIServer.
	ExtraArgs map[string][]string
	// Log receives progress for a human reader. Defaults to nowhere.
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

// FeatureGatesFlag returns the flag, such as --feature-gates=A=true,B=false,
// that gives a Kubernetes component the cluster's feature gates. Without gates
// it is --feature-gates= and changes nothing.
func (c *Cluster) FeatureGatesFlag() string {
	return "--feature-gates=" + joinSwitches(c.state.FeatureGates)
}

// joinSwitches writes switches as the components' flags take them.
func joinSwitches(m map[string]bool) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%t", k, m[k]))
	}
	return strings.Join(out, ",")
}
