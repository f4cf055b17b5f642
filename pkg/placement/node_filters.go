package placement

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// nodeFilters are kube-scheduler's filters that look at the spec of a pod without a node and
// at the Node. What they say of a Node holds until the Node is another object.
var nodeFilters = sets.New(names.NodeName, names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity)

// maxFilterKeys bounds for how many kinds of pods statuses are kept. One kind takes 16 bytes a
// node.
const maxFilterKeys = 64

// A nodeFilterCache keeps what nodeFilters said of each node from one group to the next: most
// groups ask for pods of the same kind, and few Nodes change in between. The zero value
// keeps nothing. The scheduling cycle alone uses it.
type nodeFilterCache struct {
	// filters names the filters of the profile, without skippedFilters.
	filters []string
	// nodes holds, by position, the Nodes of the last look. No other Node is kept.
	nodes []*corev1.Node
	// changes counts the Nodes that came to a position, and changed holds, by position,
	// the number of the one that is there.
	changes uint64
	changed []uint64
	byKey   map[string]*statuses
	// alike holds one status for all that say the same.
	alike map[statusKey]*fwk.Status
}

// Two statuses of one statusKey say the same.
type statusKey struct {
	code         fwk.Code
	plugin, text string
}

// statuses are what filters said of the nodes for pods of one kind, by position.
type statuses struct {
	byNode []*fwk.Status // nil: nothing is known
	// seenVersions holds the number in changed of the Node that was asked about; 0 is none. It is
	// nil where statuses are not kept.
	seenVersions []uint64
}

// newNodeFilterCache is for a profile with these filters.
func newNodeFilterCache(filters []string) nodeFilterCache {
	run := slices.DeleteFunc(slices.Clone(filters), skippedFilters.Has)
	return nodeFilterCache{filters: run, byKey: map[string]*statuses{}, alike: map[statusKey]*fwk.Status{}}
}

// lookup returns the statuses of a pod's nodes, and at which positions they are stale. The caller
// runs the filters there and calls set. All are stale where one of the filters looks at more
// than the Node.
func (n *nodeFilterCache) lookup(pod *corev1.Pod, nodes []fwk.NodeInfo, skipped sets.Set[string]) (s *statuses, stale []int) {
	run := slices.DeleteFunc(slices.Clone(n.filters), skipped.Has)
	if len(n.filters) == 0 || !nodeFilters.HasAll(run...) {
		return unknown(nodes)
	}
	n.update(nodes)
	kind := filterKey(pod, run)
	s = n.byKey[kind]
	if s == nil || len(s.byNode) != len(nodes) {
		if s == nil && len(n.byKey) >= maxFilterKeys {
			clear(n.byKey)
			clear(n.alike)
		}
		s = &statuses{byNode: make([]*fwk.Status, len(nodes)), seenVersions: make([]uint64, len(nodes))}
		n.byKey[kind] = s
	}
	for i, change := range n.changed {
		if s.seenVersions[i] != change {
			s.byNode[i], s.seenVersions[i] = nil, 0
			stale = append(stale, i)
		}
	}
	return s, stale
}

// unknown returns statuses of which none is known and none will be kept.
func unknown(nodes []fwk.NodeInfo) (*statuses, []int) {
	stale := make([]int, len(nodes))
	for i := range stale {
		stale[i] = i
	}
	return &statuses{byNode: make([]*fwk.Status, len(nodes))}, stale
}

// update takes note of the Nodes that changed.
func (n *nodeFilterCache) update(nodes []fwk.NodeInfo) {
	if len(n.nodes) != len(nodes) {
		n.nodes, n.changed = make([]*corev1.Node, len(nodes)), make([]uint64, len(nodes))
	}
	for i, info := range nodes {
		if node := info.Node(); n.nodes[i] != node {
			n.changes++
			n.nodes[i], n.changed[i] = node, n.changes
		}
	}
}

// set takes note of the answers of filters for the stale positions. A nil answer says that
// no filter was run. An error counts for this look alone.
func (n *nodeFilterCache) set(s *statuses, stale []int, answers []*fwk.Status) {
	for k, i := range stale {
		answer := answers[k]
		if answer == nil {
			continue
		}
		if s.seenVersions != nil && (answer.IsSuccess() || answer.IsRejected()) {
			answer, s.seenVersions[i] = n.one(answer), n.changed[i]
		}
		s.byNode[i] = answer
	}
}

// one returns the status that stands for all that say the same.
func (n *nodeFilterCache) one(status *fwk.Status) *fwk.Status {
	key := statusKey{status.Code(), status.Plugin(), status.Message()}
	if n.alike[key] == nil {
		n.alike[key] = status
	}
	return n.alike[key]
}

// filterKey is the text of all that nodeFilters look at in a pod, and which of them run.
func filterKey(pod *corev1.Pod, filters []string) string {
	var affinity *corev1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	text, err := json.Marshal([]any{filters, pod.Spec.NodeName, pod.Spec.NodeSelector, affinity, pod.Spec.Tolerations})
	if err != nil {
		// Plain data of the API always has a JSON form.
		panic(fmt.Sprintf("encode what filters look at in pod %s/%s: %v", pod.Namespace, pod.Name, err))
	}
	return string(text)
}
