package gang

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Phase is where a group is in its life; see the package comment.
type Phase string

// The phases.
const (
	Gathering  Phase = "gathering"
	Complete   Phase = "complete"
	Tentative  Phase = "tentative"
	Held       Phase = "held"
	Incomplete Phase = "incomplete"
	Done       Phase = "done"
)

// Phases returns all phases in the order of a group's life.
func Phases() []Phase {
	return []Phase{Gathering, Complete, Tentative, Held, Incomplete, Done}
}

// A Stats counts groups and their pods. A lone pod is a group.
type Stats struct {
	// Phases counts the groups by phase.
	Phases map[Phase]int
	// WaitingByReason counts the groups that are gathering, complete or incomplete by
	// their last reason. The reason is empty for a group that has had no answer yet.
	WaitingByReason map[string]int
	// OldestCompleteSince is since when the complete group with the longest
	// wait has been complete. It is zero if no group is complete.
	OldestCompleteSince time.Time
	// TentativePods is the number of pods with an assignment that the
	// API does not show yet. HeldPods is the number of pods on nodes.
	TentativePods, HeldPods int
	// Seats is the number of seats that are held, by namespace.
	Seats map[string]int
}

// Stats returns the counts of now.
func (g Lister) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := Stats{Phases: map[Phase]int{}, WaitingByReason: map[string]int{}, Seats: g.seatCounts()}
	for _, s := range g.groups {
		phase, why := g.phaseOf(s)
		c.TentativePods, c.HeldPods = c.TentativePods+s.number(tentativeMembers), c.HeldPods+s.number(membersOnNodes)
		c.Phases[phase]++
		switch phase {
		case Gathering, Incomplete:
			c.WaitingByReason[why]++
		case Complete:
			c.WaitingByReason[why]++
			if !s.completeSince.IsZero() && (c.OldestCompleteSince.IsZero() || s.completeSince.Before(c.OldestCompleteSince)) {
				c.OldestCompleteSince = s.completeSince
			}
		default:
			// The group waits for nothing.
		}
	}
	return c
}

// phaseOf returns the phase of a group and, if the group waits, the reason.
func (g Lister) phaseOf(s *groupState) (phase Phase, why string) {
	if s.started {
		if s.number(presentMembers) >= s.required() {
			return Held, ""
		}
		if m := s.first((*member).wasRefused); m != nil {
			return Incomplete, m.lastRefusal.Reason
		}
		return Incomplete, reason.MembersMissing
	}
	toCome := len(s.members) == 0 && s.podGroup != nil && !s.podGroup.Ended
	switch why, _ := g.whyNotYet(s); {
	case s.number(assignedMembers) > 0:
		return Tentative, ""
	case s.number(aliveMembers) == 0 && !toCome:
		return Done, ""
	case s.number(waitingMembers) == 0 && s.preplaced() > 0:
		return Held, ""
	case why != "":
		return Gathering, why
	case s.number(waitingMembers) == 0:
		return Gathering, reason.Gathering
	case s.refusal != nil:
		return Complete, s.refusal.Reason
	}
	return Complete, ""
}
