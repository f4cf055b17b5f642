package gang

import "github.com/flux-k8s/fluence/pkg/match"

// revoke takes back a member's assignment. If the group has not started and cannot start
// without the member, revoke takes back all its assignments, because no member may start then.
func (g *core) revoke(m *member, why string) {
	if m.assignment == nil {
		return
	}
	if !m.group.started && !m.group.canStartWithout(m) {
		g.revokeAll(m.group, why)
		return
	}
	if m.assignment.reserved && !m.assignment.bound {
		g.out.reject(m.pod.UID, why)
	}
	if !m.hasNode() {
		// The inventory releases an assignment that the API shows.
		g.out.release(m.assignment.job, m.assignment.slot.Key)
		g.out.Recheck = append(g.out.Recheck, m.pod.UID)
		g.out.transition(Transition{Type: Revoked, Key: m.group.key, Job: m.assignment.job, Pods: 1, Reason: why})
	}
	m.whyRevoked = why
	g.unassign(m)
}

// revokeAll takes back all assignments of a group that the API does not show yet.
func (g *core) revokeAll(s *groupState, why string) {
	s.permitted, s.startReported = false, false
	keys := map[match.JobID][]string{}
	for _, m := range s.ordered(func(m *member) bool { return m.assignment != nil && !m.hasNode() }) {
		keys[m.assignment.job] = append(keys[m.assignment.job], m.assignment.slot.Key)
		g.out.Recheck = append(g.out.Recheck, m.pod.UID)
		if m.assignment.reserved {
			g.out.reject(m.pod.UID, why)
		}
		m.whyRevoked = why
		g.unassign(m)
	}
	g.giveBackSeats(s, why, nil)
	for job, keys := range keys {
		g.out.release(job, keys...)
		g.out.transition(Transition{Type: Revoked, Key: s.key, Job: job, Pods: len(keys), Reason: why})
	}
}
