package gang

import "github.com/flux-k8s/fluence/pkg/match"

// revoke takes a member's seat away: alone in a group that has started or can start
// without it, and else with all others, for then none of them may start.
func (g *core) revoke(m *member, why string) {
	if m.assignment == nil {
		return
	}
	if !m.group.started && !m.group.spares(m) {
		g.revokeAll(m.group, why)
		return
	}
	if m.assignment.reserved && !m.assignment.bound {
		g.out.reject(m.pod.UID, why)
	}
	if !m.hasNode() {
		// A seat that the API shows is the inventory's to give back.
		g.out.release(m.assignment.job, string(m.pod.UID))
		g.out.transition(Transition{Type: Revoked, Key: m.group.key, Job: m.assignment.job, Pods: 1, Reason: why})
	}
	g.unassign(m)
}

func (g *core) revokeAll(s *groupState, why string) {
	s.permitted, s.startReported = false, false
	keys := map[match.JobID][]string{}
	for _, m := range s.ordered(func(m *member) bool { return m.assignment != nil && !m.hasNode() }) {
		keys[m.assignment.job] = append(keys[m.assignment.job], string(m.pod.UID))
		if m.assignment.reserved {
			g.out.reject(m.pod.UID, why)
		}
		g.unassign(m)
	}
	for job, keys := range keys {
		g.out.release(job, keys...)
		g.out.transition(Transition{Type: Revoked, Key: s.key, Job: job, Pods: len(keys), Reason: why})
	}
}
