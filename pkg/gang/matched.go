package gang

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Assign records the slots that a match found. The key of a slot is the UID of a pod.
// Assign returns the node of the pod that the Plan is for, and the siblings to put into
// the queue. The assignments are revoked at the deadline if they are not bound by then.
//
// The Output releases the slots of pods that have left meanwhile. If
// too few pods are left for the group to start, it releases all slots.
// Assign returns an error in that case, and if the Plan's pod has no slot.
func (g Matching) Assign(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, out Output, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	node, siblings, err = g.assignSlots(p, slots, deadline)
	return node, siblings, g.output(), err
}

// assignSlots is Assign without the lock and the Output.
func (g Matching) assignSlots(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, err error) {
	representative := g.members[p.uid]
	if representative == nil || !representative.isWaiting() || representative.group.key != p.Key || representative.group.started != p.Late {
		g.out.release(p.Job)
		return "", nil, errors.New(p.whyLeft(representative))
	}
	s := representative.group
	assigned := 0
	var seats []*seat
	for place, slot := range slots {
		if e, is := p.standIns[types.UID(slot.Key)]; is {
			seats = append(seats, g.newSeat(e, p.Job, slot))
			continue
		}
		m := g.members[types.UID(slot.Key)]
		if m == nil || m.group != s || !m.isWaiting() || m.assignment != nil {
			g.out.release(p.Job, slot.Key)
			continue
		}
		g.setAssignment(m, &assignment{job: p.Job, slot: slot, epoch: p.Epoch, deadline: deadline})
		if p.InOrder {
			m.assignment.order = place + 1
		}
		m.refusal, m.lastRefusal, m.refusalCount, m.passedOtherPlugins = nil, nil, 0, false
		s.changed(m)
		assigned++
		if m == representative {
			m.assignment.claimed = true
			node = slot.Node
		} else {
			siblings = append(siblings, m.pod)
		}
	}
	why := s.whyChanged(p, representative, assigned)
	switch {
	case node == "" && p.Late:
		// The siblings keep their assignments, because a match of late members is not all-or-nothing.
		g.addStageSeats(s, seats)
		g.updateRetry(s)
		return "", nil, fmt.Errorf("the match assigned no node to pod %s", representative.pod.Name)
	case why != "":
		for _, t := range seats {
			g.out.release(t.job, t.slot.Key)
		}
		g.revokeAll(s, why)
		g.recompute(s)
		return "", nil, fmt.Errorf("group %s changed during the match: %s", p.Key, why)
	}
	if p.Late {
		g.addStageSeats(s, seats)
		g.leaveSmallSeat(representative, p)
	} else {
		g.holdSeats(s, seats)
		s.note = p.Note
		s.exclusivity, s.matchedHere = Shared, true
		if match.IsExclusive(p.Policy) {
			s.exclusivity = Exclusive
		}
		s.refusal, s.refusalCount, s.completeSince = nil, 0, p.completeSince
		s.scoutingSince = time.Time{}
		if pg := s.podGroup; pg != nil && pg.UID != p.podGroup && pg.Created.After(s.completeSince) {
			// The PodGroup was replaced during the match: the new one waits since its creation.
			s.completeSince = pg.Created
		}
	}
	g.growRetryPace(s.key.Namespace)
	g.recompute(s)
	// Late members with other requests, and late members that found no room, may be placed next.
	g.out.activate(s.key)
	return node, siblings, nil
}

// whyLeft returns why the slots of a match are of no use to the
// Plan's pod. The representative is nil if the pod is gone.
func (p *Plan) whyLeft(representative *member) string {
	pod := p.Required[0].Name
	switch {
	case representative == nil:
		return fmt.Sprintf("pod %s was deleted during the match", pod)
	case representative.group.key != p.Key:
		return fmt.Sprintf("pod %s moved from group %s to group %s during the match", pod, p.Key, representative.group.key)
	case !representative.isWaiting():
		return fmt.Sprintf("pod %s was bound, deleted or ended during the match", pod)
	case p.Late:
		return fmt.Sprintf("group %s ended during the match", p.Key)
	default:
		return fmt.Sprintf("group %s started during the match", p.Key)
	}
}

// whyChanged returns why the group may not start with the assignments of a match, because
// something has happened during the match. It returns nothing if the group may start.
// The argument representative is the Plan's member, and assigned is the number of the assignments.
func (s *groupState) whyChanged(p Plan, representative *member, assigned int) string {
	if p.Late {
		return ""
	}
	s.minReserved = s.minimum()
	switch {
	case s.needsPodGroup() && s.podGroup == nil:
		return s.whyPodGroupDeleted()
	case representative.assignment == nil:
		return fmt.Sprintf("the match assigned no node to pod %s", representative.pod.Name)
	case assigned >= s.minReserved:
		return ""
	case assigned >= len(p.Required)-p.Expected:
		return s.whyMinimumRaised(assigned)
	}
	return fmt.Sprintf("only %d of the %d pods that start together still exist", assigned, len(p.Required)-p.Expected)
}

// Refuse records that the pods of a Plan were not placed. If the group has not started, the
// refusal is for the group. If it has started, the refusal is for the late member that the
// attempt was for, and for the members that r.AlsoRefused names. An event that happened
// during the match counts as if it came afterwards, and so does a change of what the group asks for.
func (g Matching) Refuse(p Plan, r Refusal, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.Note != "" {
		r.Message += "; " + p.Note
	}
	g.out.reportRefusal(p.Required[0], r.Reason, r.Message)
	// The refusal may have ended already, by an event during the
	// match. And late members with other requests may be placed.
	g.out.activate(p.Key)
	m := g.members[p.uid]
	if m == nil {
		return g.output()
	}
	refusals := []*activeRefusal{g.refuse(m, r, now)}
	for _, uid := range r.AlsoRefused {
		if o := g.members[uid]; m.group.started && o != nil && o != m && o.group == m.group && o.isPlaceable(now) {
			refusals = append(refusals, g.refuse(o, r, now))
		}
	}
	if c := m.group.class; c != nil {
		// The scout retries on behalf of the group.
		refusals = []*activeRefusal{c.scout.refusal}
	}
	for ev := range numEvents {
		if g.events[ev] != p.events[ev] {
			for _, refusal := range refusals {
				refusal.observe(ev)
			}
		}
	}
	if m.group.requestChanges != p.requestChanges {
		// The group asks again after the shortest pause.
		m.group.podsChanged()
	}
	if c := m.group.class; c != nil {
		g.updateRetry(c.scout)
	}
	g.recompute(m.group)
	return g.output()
}

// RefusePod records that a pod cannot be placed, for a reason
// that was found outside a match. The refusal is remembered.
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
