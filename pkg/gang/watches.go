package gang

// Watches is told what the watches of the API show: pods, PodGroups, owners of pods and
// namespaces.
type Watches struct{ *core }

// MarkSynced says that all pods, PodGroups and namespaces there are were told of. Whether the
// nodes of the groups that run are theirs alone is settled now, for good. Of those that this
// process has not matched, it is what their PodGroup's status says; where that does not say,
// it is what the annotations say. Nodes with pods of other namespaces are shared in any case.
func (g Watches) MarkSynced() Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.synced = true
	for _, s := range g.groups {
		g.settleExclusivity(s)
	}
	return g.output()
}

// NamespaceChanged takes note that a namespace may have whole nodes, or may not any more.
// What runs keeps its nodes as they are.
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

// settleExclusivity settles whether the nodes of a group's members are its own, for those members of
// which it is not settled. Those of them that this process did not match are to be checked
// again: they may have been booked otherwise, before more was known of their group. A pod that
// this process has not matched may have been put on its node by anybody: the node is its
// group's only if no other namespace's pod is there. Before Listed nothing is settled: a node
// may seem to be free of others.
func (g Watches) settleExclusivity(s *groupState) {
	if !g.synced {
		return
	}
	for _, m := range s.ordered(func(m *member) bool { return m.hasNode() && m.exclusivity == ExclusivityUnknown }) {
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
		if !matched {
			g.out.Recheck = append(g.out.Recheck, m.pod.UID)
		}
	}
}
