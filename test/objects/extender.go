package objects

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// An Extender is a scheduler's extender in memory. The zero value passes all nodes.
type Extender struct {
	fwk.Extender
	// Failed and Never are the nodes that it refuses for the present and for good, with its words.
	Failed, Never extenderv1.FailedNodesMap
	// Err is what it answers with, and Ignorable says that it may be ignored.
	Err       error
	Ignorable bool
	// Indifferent says that it is interested in no pod.
	Indifferent bool
	// Asked are the names of the nodes that it was asked about, each time.
	Asked [][]string
	// Agrees says that it refuses nothing any more.
	Agrees atomic.Bool
}

// Name returns ext.
func (*Extender) Name() string { return "ext" }

// IsFilter says that it filters.
func (*Extender) IsFilter() bool { return true }

// IsIgnorable says whether its errors may be ignored.
func (x *Extender) IsIgnorable() bool { return x.Ignorable }

// IsInterested says whether it is to be asked about a pod.
func (x *Extender) IsInterested(*corev1.Pod) bool { return !x.Indifferent }

// Filter answers as it is told to.
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
