package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// PutPodGroup records a PodGroup as the API shows it. If the group
// has assignments and has not started, a new minimum counts at once.
func (g Watches) PutPodGroup(key types.NamespacedName, pg PodGroup) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.group(key)
	recorded := ExclusivityUnknown
	if s.podGroup != nil {
		recorded = s.podGroup.Exclusivity
	}
	if s.podGroup == nil || s.podGroup.asksForOther(&pg) {
		// The request may no longer be the refused one.
		s.requestChanged()
	}
	if s.podGroup == nil || s.podGroup.UID != pg.UID {
		// Nothing was reported on this object yet.
		s.reportedPlaced = 0
	}
	before := s.podGroup
	if before == nil && pg.Duration != "" || before != nil && before.Duration != pg.Duration {
		g.recheckEnds(s)
	}
	s.podGroup, s.inPodGroup = &pg, true
	switch {
	case pg.Ended:
		g.giveBackSeats(s, "the group has ended", nil)
	case before != nil && !before.Suspended && pg.Suspended:
		// A PodGroup may still say so when the pods of a resumed owner start: only the change counts.
		g.giveBackSeats(s, "the owner of the group was suspended", nil)
	case before != nil && !before.Templates.equal(pg.Templates):
		seekMore(s, before.Templates)
	}
	g.applyMinimum(s)
	g.recompute(s)
	if s.resetExclusivity(recorded) {
		g.settleExclusivity(s)
	}
	g.out.activate(key)
	return g.output()
}

// recheckEnds lists the members whose ends have changed with the duration of their PodGroup.
func (g Watches) recheckEnds(s *groupState) {
	for _, m := range s.ordered((*member).hasNode) {
		g.out.Recheck = append(g.out.Recheck, m.pod.UID)
	}
}

// asksForOther reports whether another state of a PodGroup asks for something else. What the scheduler
// itself writes does not count, nor the creation time, which only orders groups, nor an Absence, which is only told.
func (p *PodGroup) asksForOther(next *PodGroup) bool {
	return p.UID != next.UID || p.MinMember != next.MinMember || p.Timeout != next.Timeout || p.Ended != next.Ended ||
		p.Policy != next.Policy || p.Topology != next.Topology || p.PreemptionDelay != next.PreemptionDelay || p.Duration != next.Duration || !p.Templates.equal(next.Templates) || p.Expect != next.Expect ||
		p.Basic != next.Basic || p.Priority != next.Priority || p.Domain != next.Domain || p.Fault != next.Fault
}

// isAtRest reports whether the group has no pods that have not ended, none are to come for now, and the status may
// say something from before. A refusal of pods that have gone does not count then.
func isAtRest(s *groupState) bool {
	p := s.podGroup
	return p != nil && s.number(aliveMembers) == 0 && s.number(membersOnNodes) == 0 && (p.Suspended && !p.Ended || p.EndedAs != (Fault{}))
}

// applyMinimum applies a minimum that may have changed since the
// match. It revokes the assignments if there are too few of them now.
func (g Watches) applyMinimum(s *groupState) {
	// Assignments of members that are being deleted do not count.
	assigned := s.number(aliveAssignedMembers)
	if s.started || assigned == 0 {
		return
	}
	s.minReserved = s.minimum()
	if assigned < s.minReserved {
		g.revokeAll(s, s.whyMinimumRaised(assigned))
		return
	}
	s.permitted = s.number(reservedMembers) >= s.minReserved
}

// whyMinimumRaised returns why a group with
// this number of assignments may not start now.
func (s *groupState) whyMinimumRaised(assigned int) string {
	return fmt.Sprintf("%s of %s is now %d, but only %d of its pods have nodes", minimumName(s), group.KeyText(s.key), s.minReserved+s.preplaced(), assigned+s.preplaced())
}

// whyPodGroupDeleted returns why a group that needs its PodGroup may not start now.
func (s *groupState) whyPodGroupDeleted() string {
	return group.KeyText(s.key) + " was deleted"
}

// SetNativePodGroupsUnread records why native PodGroups cannot be read,
// in words fit for a user. Nothing means that they can be read.
func (g Watches) SetNativePodGroupsUnread(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.whyNativeUnread = why
	for _, s := range g.groups {
		if s.isNative {
			s.gatheringKnown = false
		}
	}
}

// DropPodGroup forgets a PodGroup. Members that have nodes keep them. A
// group that needs its PodGroup and has not started loses its assignments.
func (g Watches) DropPodGroup(key types.NamespacedName) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out.forget(key)
	if s := g.groups[key]; s != nil {
		if s.podGroup != nil && s.podGroup.Duration != "" {
			g.recheckEnds(s)
		}
		s.podGroup = nil
		g.endSeats(s, "the PodGroup was deleted")
		s.writtenVersion = s.version // there is no status to write
		if s.needsPodGroup() && !s.started {
			g.revokeAll(s, s.whyPodGroupDeleted())
		}
		g.recompute(s)
		g.out.activate(key)
	}
	return g.output()
}
