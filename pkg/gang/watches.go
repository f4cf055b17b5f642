package gang

import "time"

// Watches is the role that takes in what the watches of the
// API show: pods, PodGroups, owners of pods and namespaces.
type Watches struct{ *core }

// MarkSynced records that all existing pods, PodGroups and namespaces have been passed in. It
// settles whether the nodes of the groups that run are exclusive. If this process did not match
// the group, the PodGroup's status decides. If the status says nothing, the annotations decide.
// But a node with pods of other namespaces is shared, unless this process matched the pod to it.
//
// What a group seemed to lack until now was not read yet. It has lacked nothing, and keeps its place in the order.
func (g Watches) MarkSynced() Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.synced = true
	for _, s := range g.groups {
		s.hasLacked, s.completeAgainAt = false, time.Time{}
		g.settleExclusivity(s)
		g.updateSeats(s)
	}
	return g.output()
}

// NamespaceChanged records that a namespace may have whole nodes,
// or may not any more. Pods that run keep their nodes as they are.
func (g Watches) NamespaceChanged(namespace string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, s := range g.groups {
		if key.Namespace == namespace {
			g.recompute(s)
			g.out.activate(key)
		}
	}
	return g.output()
}

// settleExclusivity settles whether the nodes of a group's members are exclusive, if that is not
// settled yet. A member that this process did not match is checked again, because the inventory
// may have booked it before its group, and so its exclusivity, was known. Anyone may have put such
// a pod on its node. Therefore the node is exclusive only if no pod of another namespace is there.
// Before MarkSynced nothing is settled, because a node may only seem to be free of other pods.
func (g Watches) settleExclusivity(s *groupState) {
	if !g.synced {
		return
	}
	for _, m := range s.orderedWith(unsettledMembers) {
		matched := m.assignment != nil
		if s.exclusivity == ExclusivityUnknown {
			if s.exclusivity = s.recordedExclusivity(m); s.exclusivity == ExclusivityUnknown {
				s.exclusivity = Shared
				if g.wantsExclusive(m) {
					s.exclusivity = Exclusive
				}
			}
		}
		m.exclusivity = s.exclusivity
		if m.exclusivity == Exclusive && !matched && g.isOnSharedNode(s, m) {
			m.exclusivity = Shared
		}
		s.changed(m)
		if !matched {
			g.out.Recheck = append(g.out.Recheck, m.pod.UID)
		}
	}
}
