package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Lister is the role that answers questions about pods, groups and jobs. It changes nothing,
// except that it may choose a representative, and remembers which siblings have been told.
type Lister struct{ *core }

// GroupOf returns the group of a pod. It returns false if the pod is not known.
func (g Lister) GroupOf(uid types.UID) (Membership, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Membership{}, false
	}
	s := m.group
	return Membership{Key: s.key, InPodGroup: s.inPodGroup, Started: s.started, Missing: s.missing(), Required: s.required(), Replaces: m.isReplacement()}, true
}

// A Membership describes a pod's group, and what the pod is in it.
type Membership struct {
	Key types.NamespacedName
	// InPodGroup is true if Key is the key of a PodGroup.
	InPodGroup bool
	// Started is true if the group has started.
	Started bool
	// Missing is how many members of Minimum a started group lacks.
	Missing int
	// Required is how many members the group has to have.
	Required int
	// Replaces is true if the pod takes the position of a missing member.
	Replaces bool
}

// KeyOf returns the key of a pod's group. It returns false if the pod is not known.
func (g Lister) KeyOf(uid types.UID) (types.NamespacedName, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return types.NamespacedName{}, false
	}
	return m.group.key, true
}

// Knows reports whether a group has pods or a PodGroup.
func (g Lister) Knows(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups[key] != nil
}

// PriorityOf returns the priority of a group: of its representative if it has not
// started, and of any member if it has. It returns 0 if the group is not known.
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

// WaitingPriorityOf returns the highest priority of the members of a group that wait for
// nodes. It returns false if none does.
func (g Lister) WaitingPriorityOf(key types.NamespacedName) (priority int32, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || s.number(waitingMembers) == 0 {
		return 0, false
	}
	for _, m := range s.members {
		if m.isWaiting() && (!waits || m.priority() > priority) {
			priority, waits = m.priority(), true
		}
	}
	return priority, waits
}

// MemberCounts returns how many members of a group are on nodes, and
// how many have a node or an assignment. It also reports whether
// the group was listed in Placed and has enough members on nodes.
func (g Lister) MemberCounts(key types.NamespacedName) (placed, present int, fullyPlaced bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return 0, 0, false
	}
	return s.number(placedMembers), s.number(presentMembers), s.isFullyPlaced()
}

// NodesOf returns the node of each present member of a started
// group. It returns nil if the group has not started.
func (g Lister) NodesOf(key types.NamespacedName) []string {
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

// Placed returns the node of each member of a group that has a node or an assignment, and has not ended, by UID. It includes
// members that are being deleted: they hold their room until they are gone.
func (g Lister) Placed(key types.NamespacedName) map[types.UID]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return nil
	}
	nodes := map[types.UID]string{}
	for uid, m := range s.members {
		if m.assignment != nil || m.hasNode() {
			nodes[uid] = m.node()
		}
	}
	return nodes
}

// Staying counts the members of a group that have a node or an assignment, and have not ended. A member that was to be gone by
// now does not count: its node does not answer.
func (g Lister) Staying(key types.NamespacedName, now time.Time) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return 0
	}
	for _, m := range s.members {
		if (m.assignment != nil || m.hasNode()) && (m.pod.DeletionTimestamp == nil || now.Before(m.pod.DeletionTimestamp.Time)) {
			n++
		}
	}
	return n
}

// ExclusivityOf reports whether the nodes of a started group are exclusive. It also returns
// the annotation that asks for whole nodes too late, and the number of incarnations of the
// group that this process has seen end. All are zero if the group has not started.
func (g Lister) ExclusivityOf(key types.NamespacedName) (exclusive bool, lateAnnotation string, pastIncarnations uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !s.started {
		return false, "", 0
	}
	return s.exclusivity == Exclusive, g.lateAnnotation(s), s.pastIncarnations
}

// HolderOf returns the key of a pod's group if the pod's node is
// exclusive to the group. It returns nothing if the node is shared.
func (g Lister) HolderOf(pod *corev1.Pod) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[pod.UID]
	if m == nil {
		return ""
	}
	return g.exclusiveHolder(m)
}
