package gang

import "github.com/flux-k8s/fluence/pkg/match"

// unseat takes a member's seat away: alone in a group that has started or can start
// without it, and else with all others, for then none of them may start.
func (g *core) unseat(m *member, why string) {
	if m.seat == nil {
		return
	}
	if !m.group.started && !m.group.spares(m) {
		g.unseatAll(m.group, why)
		return
	}
	if m.seat.reserved && !m.seat.bound {
		g.out.reject(m.pod.UID, why)
	}
	if !m.holds() {
		// A seat that the API shows is the inventory's to give back.
		g.out.release(m.seat.job, string(m.pod.UID))
		g.out.transition(Transition{Kind: GaveBack, Key: m.group.key, Job: m.seat.job, Pods: 1, Reason: why})
	}
	g.take(m)
}

func (g *core) unseatAll(s *state, why string) {
	s.permitted, s.startTold = false, false
	keys := map[match.JobID][]string{}
	for _, m := range s.ordered(func(m *member) bool { return m.seat != nil && !m.holds() }) {
		keys[m.seat.job] = append(keys[m.seat.job], string(m.pod.UID))
		if m.seat.reserved {
			g.out.reject(m.pod.UID, why)
		}
		g.take(m)
	}
	for job, keys := range keys {
		g.out.release(job, keys...)
		g.out.transition(Transition{Kind: GaveBack, Key: s.key, Job: job, Pods: len(keys), Reason: why})
	}
}
