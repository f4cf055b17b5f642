package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Assign records what a match gave, by slot keys that are pod UIDs, and returns
// the node of the pod that asked and the siblings to put into the queue. The
// seats are lost at the deadline. Slots of pods that left meanwhile come back in
// the Output; if too few are left for the group, all do.
func (g Matching) Assign(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, out Output, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	node, siblings, err = g.assignSlots(p, slots, deadline)
	return node, siblings, g.output(), err
}

func (g Matching) assignSlots(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, err error) {
	asker := g.members[p.uid]
	if asker == nil || !asker.isWaiting() || asker.group.key != p.Key || asker.group.started != p.Late {
		g.out.release(p.Job)
		return "", nil, fmt.Errorf("pod left group %s during the match", p.Key)
	}
	s := asker.group
	seated := 0
	for place, slot := range slots {
		m := g.members[types.UID(slot.Key)]
		if m == nil || m.group != s || !m.isWaiting() || m.assignment != nil {
			g.out.release(p.Job, slot.Key)
			continue
		}
		g.assign(m, &assignment{job: p.Job, slot: slot, deadline: deadline})
		if p.InOrder {
			m.assignment.order = place + 1
		}
		m.refusal, m.lastRefusal, m.refusalCount, m.passedOtherPlugins = nil, nil, 0, false
		seated++
		if m == asker {
			m.assignment.claimed = true
			node = slot.Node
		} else {
			siblings = append(siblings, m.pod)
		}
	}
	why := s.whyChanged(p, seated, node != "")
	switch {
	case node == "" && p.Late:
		// Not revokeAll: the siblings' seats are none of this match.
		g.updateRetry(s)
		return "", nil, fmt.Errorf("the match gave the pod that asked nothing")
	case why != "":
		g.revokeAll(s, why)
		g.recompute(s)
		return "", nil, fmt.Errorf("group %s changed during the match: %s", p.Key, why)
	}
	if !p.Late {
		s.exclusivity, s.matched = Shared, true
		if match.IsExclusive(p.Policy) {
			s.exclusivity = Exclusive
		}
		s.refusal, s.refusalCount, s.completeSince = nil, 0, p.completeSince
		if pg := s.podGroup; pg != nil && pg.UID != p.podGroup && pg.Created.After(s.completeSince) {
			// Another PodGroup of this name came during the match: its own wait began then.
			s.completeSince = pg.Created
		}
	}
	g.matched(s.key.Namespace)
	g.recompute(s)
	// Late members of another shape, and those that found no room, ask next.
	g.out.activate(s.key)
	return node, siblings, nil
}

// whyChanged says what has happened during a match so that the group may not start with
// so many seats, that of the pod that asked among them; nothing if it may.
func (s *groupState) whyChanged(p Plan, seated int, asker bool) string {
	if p.Late {
		return ""
	}
	s.minReserved = s.minimum()
	switch {
	case s.needsPodGroup && s.podGroup == nil:
		return "the PodGroup was deleted"
	case asker && seated >= s.minReserved:
		return ""
	case asker && seated >= len(p.Required):
		return "minMember of the PodGroup was raised"
	}
	return "a member of the group was deleted"
}

// Refuse records that a plan found no room: for the group, or for the late member
// that asked and those of the others that r names. An event that happened during
// the match counts as one after it.
func (g Matching) Refuse(p Plan, r Refusal, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out.refuse(p.Required[0], r.Reason, r.Message)
	// The refusal may run out by itself, or by what happened during the match; and
	// of a started group those of another shape may ask.
	g.out.activate(p.Key)
	m := g.members[p.uid]
	if m == nil {
		return g.output()
	}
	mems := []*activeRefusal{g.refuse(m, r, now)}
	for _, uid := range r.AlsoRefused {
		if o := g.members[uid]; m.group.started && o != nil && o != m && o.group == m.group && o.isLate(now) {
			mems = append(mems, g.refuse(o, r, now))
		}
	}
	for ev := range numEvents {
		if g.events[ev] != p.events[ev] {
			for _, mem := range mems {
				mem.observe(ev)
			}
		}
	}
	g.recompute(m.group)
	return g.output()
}

// RefusePod takes note that a pod cannot be asked for, which somebody else has
// found out. The refusal is remembered.
func (g Matching) RefusePod(uid types.UID, now time.Time, because, message string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil {
		if m.assignment == nil {
			g.refuseWithBackoff(m, because, message, now)
			g.recompute(m.group)
		}
		g.out.activate(m.group.key)
	}
	return g.output()
}
