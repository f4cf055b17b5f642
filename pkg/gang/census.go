package gang

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Phase is the state that a group is in; see the package comment.
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

// Phases lists them in the order of a group's life.
func Phases() []Phase {
	return []Phase{Gathering, Complete, Tentative, Held, Incomplete, Done}
}

// A Census counts the groups, lone pods among them.
type Census struct {
	Phases map[Phase]int
	// Waiting counts the groups that are gathering, complete or incomplete by what they
	// wait for: the reason that they were given last, empty where they have yet to be
	// answered.
	Waiting map[string]int
	// Longest is since when the group could be asked for that has waited longest of those
	// that are complete; zero if there is none.
	Longest time.Time
	// Tentative counts the pods with a seat that the API does not show yet, and Held those
	// on nodes.
	Tentative, Held int
}

// Census counts what is there now.
func (g Lister) Census() Census {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := Census{Phases: map[Phase]int{}, Waiting: map[string]int{}}
	for _, s := range g.groups {
		r := s.roll()
		phase, why := g.stands(s, r)
		c.Tentative, c.Held = c.Tentative+r.tentative, c.Held+r.held
		c.Phases[phase]++
		switch phase {
		case Gathering, Incomplete:
			c.Waiting[why]++
		case Complete:
			c.Waiting[why]++
			if !s.complete.IsZero() && (c.Longest.IsZero() || s.complete.Before(c.Longest)) {
				c.Longest = s.complete
			}
		default:
			// It waits for nothing.
		}
	}
	return c
}

// A roll counts the members of a group in one pass: there may be many groups.
type roll struct {
	present, tentative, held int
	seated, wanted, asking   bool
}

func (s members) roll() (r roll) {
	for _, m := range s {
		switch {
		case m.holds():
			r.held++
		case m.seat != nil:
			r.tentative++
		}
		if m.present() {
			r.present++
		}
		r.seated = r.seated || m.seat != nil
		r.wanted = r.wanted || !terminal(m.pod) && m.pod.DeletionTimestamp == nil
		r.asking = r.asking || m.waits()
	}
	return r
}

// stands returns the phase of a group and, of one that waits, what for.
func (g Lister) stands(s *state, r roll) (phase Phase, why string) {
	if s.started {
		if r.present >= s.owed() {
			return Held, ""
		}
		if m := s.first((*member).refusedSeat); m != nil {
			return Incomplete, m.no.Reason
		}
		return Incomplete, reason.MembersMissing
	}
	toCome := len(s.members) == 0 && s.podGroup != nil && !s.podGroup.Ended
	switch why, _ := g.incomplete(s); {
	case r.seated:
		return Tentative, ""
	case !r.wanted && !toCome:
		return Done, ""
	case !r.asking && s.brought > 0:
		return Held, ""
	case why != "":
		return Gathering, why
	case !r.asking:
		return Gathering, reason.Gathering
	case s.refusal != nil:
		return Complete, s.refusal.Reason
	}
	return Complete, ""
}
