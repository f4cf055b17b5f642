package fluence

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// nodeFilters are kube-scheduler's filters that look at a pod's spec and at the Node, and at
// nothing else. What they say of a Node holds until the Node is another object.
var nodeFilters = sets.New(names.NodeName, names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity)

// maxVerdicts bounds for how many kinds of pods verdicts are kept. One takes 16 bytes a
// node.
const maxVerdicts = 64

// A nodeVerdicts keeps what nodeFilters said of each node from one group to the next: most
// groups ask for pods of the same kind, and few Nodes change in between. The zero value
// keeps nothing. It is the scheduling cycle's alone.
type nodeVerdicts struct {
	// filters are those of the profile that a probe runs.
	filters []string
	byKind  map[string]*verdicts
}

// newNodeVerdicts is for a profile with these filters.
func newNodeVerdicts(filters []string) nodeVerdicts {
	probed := slices.DeleteFunc(slices.Clone(filters), notProbed.Has)
	return nodeVerdicts{filters: probed, byKind: map[string]*verdicts{}}
}

// of returns the verdicts on a pod's nodes to go on with. They are empty where any filter
// runs that looks at more than the Node.
func (n *nodeVerdicts) of(pod *corev1.Pod, skipped sets.Set[string]) *verdicts {
	run := slices.DeleteFunc(slices.Clone(n.filters), skipped.Has)
	if len(n.filters) == 0 || !nodeFilters.HasAll(run...) {
		return &verdicts{}
	}
	kind := kindOf(pod, run)
	v := n.byKind[kind]
	if v == nil {
		if len(n.byKind) >= maxVerdicts {
			clear(n.byKind)
		}
		v = &verdicts{}
		n.byKind[kind] = v
	}
	return v
}

// kindOf is the text of all that nodeFilters look at in a pod, and which of them run.
func kindOf(pod *corev1.Pod, filters []string) string {
	var affinity *corev1.NodeAffinity
	if a := pod.Spec.Affinity; a != nil {
		affinity = a.NodeAffinity
	}
	text, err := json.Marshal([]any{filters, pod.Spec.NodeName, pod.Spec.NodeSelector, affinity, pod.Spec.Tolerations})
	if err != nil {
		// Plain data of the API always has a JSON form.
		panic(fmt.Sprintf("encode what filters look at in pod %s/%s: %v", pod.Namespace, pod.Name, err))
	}
	return string(text)
}

// verdicts are what filters said of nodes, by position.
type verdicts struct {
	of     []*corev1.Node
	status []*fwk.Status
}

// open returns the positions of the nodes that filters have to be asked about.
func (v *verdicts) open(nodes []fwk.NodeInfo) []int {
	if len(v.of) != len(nodes) {
		v.of, v.status = make([]*corev1.Node, len(nodes)), make([]*fwk.Status, len(nodes))
	}
	var open []int
	for i, info := range nodes {
		if v.of[i] != info.Node() {
			v.of[i], v.status[i] = nil, nil
			open = append(open, i)
		}
	}
	return open
}

// set takes note of what was said of a node. An error is no verdict, and is asked for again.
func (v *verdicts) set(i int, node *corev1.Node, status *fwk.Status) {
	v.status[i] = status
	if status.IsSuccess() || status.IsRejected() {
		v.of[i] = node
	}
}
