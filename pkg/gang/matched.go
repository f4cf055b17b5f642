package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Seat records what a match gave, by slot keys that are pod UIDs, and returns
// the node of the pod that asked and the siblings to put into the queue. The
// seats are lost at the deadline. Slots of pods that left meanwhile come back in
// the Output; if too few are left for the group, all do.
func (g Matching) Seat(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, out Output, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	node, siblings, err = g.seat(p, slots, deadline)
	return node, siblings, g.output(), err
}

func (g Matching) seat(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, err error) {
	asker := g.members[p.uid]
	if asker == nil || !asker.waits() || asker.group.key != p.Key || asker.group.started != p.Late {
		g.out.release(p.Job)
		return "", nil, fmt.Errorf("pod left group %s during the match", p.Key)
	}
	s := asker.group
	seated := 0
	for place, slot := range slots {
		m := g.members[types.UID(slot.Key)]
		if m == nil || m.group != s || !m.waits() || m.seat != nil {
			g.out.release(p.Job, slot.Key)
			continue
		}
		g.give(m, &seat{job: p.Job, slot: slot, deadline: deadline})
		if p.InOrder {
			m.seat.place = place + 1
		}
		m.refusal, m.no, m.refused, m.letPass = nil, nil, 0, false
		seated++
		if m == asker {
			m.seat.tried = true
			node = slot.Node
		} else {
			siblings = append(siblings, m.pod)
		}
	}
	why := s.overtaken(p, seated, node != "")
	switch {
	case node == "" && p.Late:
		// Not unseatAll: the siblings' seats are none of this match.
		g.await(s)
		return "", nil, fmt.Errorf("the match gave the pod that asked nothing")
	case why != "":
		g.unseatAll(s, why)
		g.settle(s)
		return "", nil, fmt.Errorf("group %s changed during the match: %s", p.Key, why)
	}
	if !p.Late {
		s.fenced, s.matched = WholeNo, true
		if match.TakesWhole(p.Policy) {
			s.fenced = WholeYes
		}
		s.refusal, s.refused, s.complete = nil, 0, p.complete
		if pg := s.podGroup; pg != nil && pg.UID != p.podGroup && pg.Created.After(s.complete) {
			// Another PodGroup of this name came during the match: its own wait began then.
			s.complete = pg.Created
		}
	}
	g.matched(s.key.Namespace)
	g.settle(s)
	// Late members of another shape, and those that found no room, ask next.
	g.out.wake(s.key)
	return node, siblings, nil
}

// overtaken says what has happened during a match so that the group may not start with
// so many seats, that of the pod that asked among them; nothing if it may.
func (s *state) overtaken(p Plan, seated int, asker bool) string {
	if p.Late {
		return ""
	}
	s.need = s.minimum()
	switch {
	case s.gang && s.podGroup == nil:
		return "the PodGroup was deleted"
	case asker && seated >= s.need:
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
	g.out.refused(p.Required[0], r.Reason, r.Message)
	// The refusal may run out by itself, or by what happened during the match; and
	// of a started group those of another shape may ask.
	g.out.wake(p.Key)
	m := g.members[p.uid]
	if m == nil {
		return g.output()
	}
	mems := []*refusal{g.refuse(m, r, now)}
	for _, uid := range r.Likewise {
		if o := g.members[uid]; m.group.started && o != nil && o != m && o.group == m.group && o.late(now) {
			mems = append(mems, g.refuse(o, r, now))
		}
	}
	for ev := range numEvents {
		if g.events[ev] != p.events[ev] {
			for _, mem := range mems {
				mem.after(ev)
			}
		}
	}
	g.settle(m.group)
	return g.output()
}

// TurnDown takes note that a pod cannot be asked for, which somebody else has
// found out. The refusal is remembered.
func (g Matching) TurnDown(uid types.UID, now time.Time, because, message string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil {
		if m.seat == nil {
			g.turnDown(m, because, message, now)
			g.settle(m.group)
		}
		g.out.wake(m.group.key)
	}
	return g.output()
}
