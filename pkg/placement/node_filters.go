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

// nodeFilters are kube-scheduler's filters that look only at the Node and at the spec of
// a pod without a node. Their verdict on a Node holds until another object replaces it.
var nodeFilters = sets.New(names.NodeName, names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity)

// maxFilterKeys bounds the filter keys with cached statuses. One key takes 16 bytes for each node.
const maxFilterKeys = 64

// A nodeFilterCache keeps the verdicts of nodeFilters on each node from one group to
// the next, because most groups ask for pods of the same kind and few Nodes change in
// between. The zero value keeps nothing. Only scheduling cycles use it.
type nodeFilterCache struct {
	// filters names the filters of the profile, without skippedFilters.
	filters []string
	// nodes holds the Nodes of the last lookup, by position. No other Node is kept.
	nodes []*corev1.Node
	// lastVersion is raised each time a position gets another Node object.
	lastVersion uint64
	// versions holds, by position, the value that changes
	// had when the position got its present Node.
	versions []uint64
	// byKey holds the statuses by filter key.
	byKey map[string]*statuses
	// interned holds one status for all with the same content.
	interned map[statusKey]*fwk.Status
}

// A statusKey is the content of a status.
type statusKey struct {
	code         fwk.Code
	plugin, text string
}

// statuses are the verdicts of filters on the nodes, by position, for pods with one filter key.
type statuses struct {
	byNode []*fwk.Status // nil: no verdict
	// seenVersions holds the value of changed at which the filters gave each verdict,
	// or 0 if there is none. It is nil if the statuses are not cached.
	seenVersions []uint64
}

// newNodeFilterCache returns an empty cache for a profile with these Filter plugins.
func newNodeFilterCache(filters []string) nodeFilterCache {
	run := slices.DeleteFunc(slices.Clone(filters), skippedFilters.Has)
	return nodeFilterCache{filters: run, byKey: map[string]*statuses{}, interned: map[statusKey]*fwk.Status{}}
}

// lookup returns the statuses of the nodes for a pod, and the positions where they
// are stale. The caller runs the filters there and calls set. All positions are stale
// if a filter runs that looks at more than the Node.
func (n *nodeFilterCache) lookup(pod *corev1.Pod, nodes []fwk.NodeInfo, skipped sets.Set[string]) (s *statuses, stale []int) {
	run := slices.DeleteFunc(slices.Clone(n.filters), skipped.Has)
	if len(n.filters) == 0 || !nodeFilters.HasAll(run...) {
		return uncachedStatuses(nodes)
	}
	n.update(nodes)
	kind := filterKey(pod, run)
	s = n.byKey[kind]
	if s == nil || len(s.byNode) != len(nodes) {
		if s == nil && len(n.byKey) >= maxFilterKeys {
			clear(n.byKey)
			clear(n.interned)
		}
		s = &statuses{byNode: make([]*fwk.Status, len(nodes)), seenVersions: make([]uint64, len(nodes))}
		n.byKey[kind] = s
	}
	for i, change := range n.versions {
		if s.seenVersions[i] != change {
			s.byNode[i], s.seenVersions[i] = nil, 0
			stale = append(stale, i)
		}
	}
	return s, stale
}

// uncachedStatuses returns statuses that are all stale and will not be cached.
func uncachedStatuses(nodes []fwk.NodeInfo) (*statuses, []int) {
	stale := make([]int, len(nodes))
	for i := range stale {
		stale[i] = i
	}
	return &statuses{byNode: make([]*fwk.Status, len(nodes))}, stale
}

// update records which Nodes have changed.
func (n *nodeFilterCache) update(nodes []fwk.NodeInfo) {
	if len(n.nodes) != len(nodes) {
		n.nodes, n.versions = make([]*corev1.Node, len(nodes)), make([]uint64, len(nodes))
	}
	for i, info := range nodes {
		if node := info.Node(); n.nodes[i] != node {
			n.lastVersion++
			n.nodes[i], n.versions[i] = node, n.lastVersion
		}
	}
}

// set records the answers of the filters at the stale positions. A nil answer means
// that the filters did not run. An error is used once and not cached.
func (n *nodeFilterCache) set(s *statuses, stale []int, answers []*fwk.Status) {
	for k, i := range stale {
		answer := answers[k]
		if answer == nil {
			continue
		}
		if s.seenVersions != nil && (answer.IsSuccess() || answer.IsRejected()) {
			answer, s.seenVersions[i] = n.intern(answer), n.versions[i]
		}
		s.byNode[i] = answer
	}
}

// intern returns the one status that is kept for all with the same content.
func (n *nodeFilterCache) intern(status *fwk.Status) *fwk.Status {
	key := statusKey{status.Code(), status.Plugin(), status.Message()}
	if n.interned[key] == nil {
		n.interned[key] = status
	}
	return n.interned[key]
}

// filterKey returns all that nodeFilters look at in a pod, and the names of the
// filters that run, as JSON.
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
