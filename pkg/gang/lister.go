package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Lister answers what others want to know of pods, groups and jobs. It changes nothing.
type Lister struct{ *core }

// GroupOf returns the group that a pod is in, and false if the pod was not seen.
func (g Lister) GroupOf(uid types.UID) (Membership, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Membership{}, false
	}
	s := m.group
	return Membership{Key: s.key, InPodGroup: s.inPodGroup, Started: s.started, Missing: s.missing(), Minimum: s.required(), Replaces: m.isReplacement()}, true
}

// A Membership is what there is to say of a pod's group.
type Membership struct {
	Key types.NamespacedName
	// InPodGroup says that Key is that of a PodGroup.
	InPodGroup bool
	// Started says that members hold nodes, Lacking how many are missing then to the
	// Minimum that the group is to have.
	Started bool
	Missing int
	Minimum int
	// Replaces says that the pod takes the place of one that is missing.
	Replaces bool
}

// KeyOf returns the group of a pod, and false if the pod was not seen.
func (g Lister) KeyOf(uid types.UID) (types.NamespacedName, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return types.NamespacedName{}, false
	}
	return m.group.key, true
}

// Knows says whether a group has pods or a PodGroup.
func (g Lister) Knows(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups[key] != nil
}

// PriorityOf returns the priority of a group; 0 where nothing is known of it.
func (g Lister) PriorityOf(key types.NamespacedName) int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return 0
	}
	if m := s.members[s.chooseRepresentative()]; m != nil && !s.started {
		return m.priority()
	}
	for _, m := range s.members {
		return m.priority()
	}
	return 0
}

// OnNodes counts the members of a group that have nodes, and how many there are to be.
// Whole says that Placed has told of it, and that it has had enough members since.
func (g Lister) OnNodes(key types.NamespacedName) (n, of int, whole bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return 0, 0, false
	}
	return s.count((*member).isPlaced), s.count((*member).isPresent), s.isPlaced()
}

// RunsOn lists the nodes of a group that has started; none of one that has not.
func (g Lister) RunsOn(key types.NamespacedName) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !s.started {
		return nil
	}
	var nodes []string
	for _, m := range s.members {
		if m.isPresent() {
			nodes = append(nodes, m.node())
		}
	}
	return nodes
}

// ExclusivityOf says whether the nodes of a group that runs are its own, and which annotation asks for
// that too late; both are zero for any other group. Life tells the group's incarnations apart
// that this process has seen.
func (g Lister) ExclusivityOf(key types.NamespacedName) (whole bool, inVain string, life uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !s.started {
		return false, "", 0
	}
	return s.exclusivity == Exclusive, g.lateAnnotation(s), s.pastIncarnations
}

// HolderOf returns the name under which a pod's group has its nodes for itself
// alone, empty if it shares them.
func (g Lister) HolderOf(pod *corev1.Pod) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[pod.UID]
	if m == nil {
		return ""
	}
	return g.exclusiveHolder(m)
}
