package objects

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// An Extender is a scheduler extender in memory. The zero value passes all nodes.
type Extender struct {
	fwk.Extender
	// Failed are the nodes that it rejects for now, with its
	// messages. Never are the nodes that it rejects for good.
	Failed, Never extenderv1.FailedNodesMap
	// Err is the error of its answer. Ignorable reports whether the error may be ignored.
	Err       error
	Ignorable bool
	// Indifferent reports whether it is interested in no pod.
	Indifferent bool
	// Asked are the names of the nodes in each call.
	Asked [][]string
	// Agrees makes it pass the nodes of Failed.
	Agrees atomic.Bool
}

// Name returns ext.
func (*Extender) Name() string { return "ext" }

// IsFilter returns true.
func (*Extender) IsFilter() bool { return true }

// IsIgnorable reports whether its errors may be ignored.
func (x *Extender) IsIgnorable() bool { return x.Ignorable }

// IsInterested reports whether it wants to filter for a pod.
func (x *Extender) IsInterested(*corev1.Pod) bool { return !x.Indifferent }

// Filter passes all nodes that are neither in Failed nor in Never.
func (x *Extender) Filter(_ *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	var names []string
	var passed []fwk.NodeInfo
	for _, n := range nodes {
		name := n.Node().Name
		names = append(names, name)
		if _, ok := x.Failed[name]; ok && !x.Agrees.Load() {
			continue
		}
		if _, ok := x.Never[name]; !ok {
			passed = append(passed, n)
		}
	}
	x.Asked = append(x.Asked, names)
	return passed, x.Failed, x.Never, x.Err
}
