package gang

// Watches is told what the watches of the API show: pods, PodGroups, owners of pods and
// namespaces.
type Watches struct{ *core }

// Listed says that all pods, PodGroups and namespaces there are were told of. Whether the
// nodes of the groups that run are theirs alone is settled now, for good. Of those that this
// process has not matched, it is what their PodGroup's status says; where that does not say,
// it is what the annotations say. Nodes with pods of other namespaces are shared in any case.
func (g Watches) Listed() Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = true
	for _, s := range g.groups {
		g.fence(s)
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
			g.settle(s)
			g.out.wake(key)
		}
	}
	return g.output()
}

// fence settles whether the nodes of a group's members are its own, for those members of
// which it is not settled. Those of them that this process did not match are to be checked
// again: they may have been booked otherwise, before more was known of their group. A pod that
// this process has not matched may have been put on its node by anybody: the node is its
// group's only if no other namespace's pod is there. Before Listed nothing is settled: a node
// may seem to be free of others.
func (g Watches) fence(s *state) {
	if !g.listed {
		return
	}
	for _, m := range s.ordered(func(m *member) bool { return m.holds() && m.fenced == WholeUnknown }) {
		matched := m.seat != nil
		if s.fenced == WholeUnknown {
			if s.fenced = s.recordFor(m); s.fenced == WholeUnknown {
				s.fenced = WholeNo
				if g.wants(m) {
					s.fenced = WholeYes
				}
			}
		}
		m.fenced = s.fenced
		if m.fenced == WholeYes && !matched && g.stranger(s, m) {
			m.fenced = WholeNo
		}
		if !matched {
			g.out.Recheck = append(g.out.Recheck, m.pod.UID)
		}
	}
}
