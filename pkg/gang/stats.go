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
}

// Stats returns the counts of now.
func (g Lister) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := Stats{Phases: map[Phase]int{}, WaitingByReason: map[string]int{}}
	for _, s := range g.groups {
		r := s.tally()
		phase, why := g.phaseOf(s, r)
		c.TentativePods, c.HeldPods = c.TentativePods+r.tentative, c.HeldPods+r.held
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

// A tally counts the members of a group in one pass, because there may be many groups.
type tally struct {
	present, tentative, held         int
	assigned, hasLiveMember, waiting bool
}

// tally counts the members.
func (s members) tally() (r tally) {
	for _, m := range s {
		switch {
		case m.hasNode():
			r.held++
		case m.assignment != nil:
			r.tentative++
		}
		if m.isPresent() {
			r.present++
		}
		r.assigned = r.assigned || m.assignment != nil
		r.hasLiveMember = r.hasLiveMember || !isTerminal(m.pod) && m.pod.DeletionTimestamp == nil
		r.waiting = r.waiting || m.isWaiting()
	}
	return r
}

// phaseOf returns the phase of a group and, if the group waits, the reason.
func (g Lister) phaseOf(s *groupState, r tally) (phase Phase, why string) {
	if s.started {
		if r.present >= s.required() {
			return Held, ""
		}
		if m := s.first((*member).wasRefused); m != nil {
			return Incomplete, m.lastRefusal.Reason
		}
		return Incomplete, reason.MembersMissing
	}
	toCome := len(s.members) == 0 && s.podGroup != nil && !s.podGroup.Ended
	switch why, _ := g.whyGathering(s); {
	case r.assigned:
		return Tentative, ""
	case !r.hasLiveMember && !toCome:
		return Done, ""
	case !r.waiting && s.preplaced > 0:
		return Held, ""
	case why != "":
		return Gathering, why
	case !r.waiting:
		return Gathering, reason.Gathering
	case s.refusal != nil:
		return Complete, s.refusal.Reason
	}
	return Complete, ""
}
