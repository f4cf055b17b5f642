package gang

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A registry finds groups and members: all of them, and those that are of interest in some way.
type registry struct {
	groups  map[types.NamespacedName]*groupState
	members map[types.UID]*member
	// byMissingOwner are the members whose group is known when an owner is seen, by the UID
	// of that.
	byMissingOwner map[types.UID]map[types.UID]*member
	// unassignedGroups is the part of groups with a member that waits for a seat, or with
	// no member though some are to come, and seated the part with a seat that the
	// API does not show yet: what is looked through on every wake and every tick
	// stays small.
	unassignedGroups map[types.NamespacedName]*groupState
	tentativeGroups  map[types.NamespacedName]*groupState
	// refusedGroups is the part of unseated with a refusal that may stand. Awaiting has the part of that
	// which events may help, by these, and retries the part that asks again by itself, the soonest
	// first.
	refusedGroups    map[types.NamespacedName]*groupState
	byRelevantEvents map[eventSet]map[*groupState]bool
	retries          retryQueue
	// lastRetry has the pace of each namespace of which groups returned within the last retryStep.
	lastRetry map[string]*pace
	// waitingForRoom is the part of groups whose time runs, and of those that it has ceased
	// to run for.
	waitingForRoom map[types.NamespacedName]*groupState
	// yielders is the part of wanting that leaves its turn to the next.
	yielders map[types.NamespacedName]*groupState
	// jobs are those under which members have seats.
	jobs map[match.JobID]jobAssignments
}

// jobAssignments is the group of which so many members have seats under a job.
type jobAssignments struct {
	group       *groupState
	assignments int
}

// newRegistry returns one that is empty.
func newRegistry() registry {
	return registry{
		groups:           map[types.NamespacedName]*groupState{},
		members:          map[types.UID]*member{},
		byMissingOwner:   map[types.UID]map[types.UID]*member{},
		unassignedGroups: map[types.NamespacedName]*groupState{},
		tentativeGroups:  map[types.NamespacedName]*groupState{},
		refusedGroups:    map[types.NamespacedName]*groupState{},
		byRelevantEvents: map[eventSet]map[*groupState]bool{},
		lastRetry:        map[string]*pace{},
		waitingForRoom:   map[types.NamespacedName]*groupState{},
		yielders:         map[types.NamespacedName]*groupState{},
		jobs:             map[match.JobID]jobAssignments{},
	}
}

// assign gives a member that has no seat one.
func (r *registry) assign(m *member, to *assignment) {
	m.assignment = to
	r.jobs[to.job] = jobAssignments{m.group, r.jobs[to.job].assignments + 1}
}

// unassign takes a member's seat, if it has one.
func (r *registry) unassign(m *member) {
	if m.assignment == nil {
		return
	}
	if of := r.jobs[m.assignment.job]; of.assignments > 1 {
		r.jobs[m.assignment.job] = jobAssignments{of.group, of.assignments - 1}
	} else {
		delete(r.jobs, m.assignment.job)
	}
	m.assignment = nil
}

// updateRetry brings up to date when, and after which events, a group may ask again. It is to be called
// after every change of the refusals of the group or of its members, but for a settle that follows.
func (r *registry) updateRetry(s *groupState) {
	var helps eventSet
	var retryAt time.Time
	if r.refusedGroups[s.key] == s {
		for b := range s.backoffs {
			if b.refusal != nil {
				helps, retryAt = helps|b.refusal.relevantEvents(), sooner(retryAt, b.refusal.retryAt)
			}
		}
	}
	r.retries.put(s, retryAt)
	if helps == s.relevantEvents {
		return
	}
	if like := r.byRelevantEvents[s.relevantEvents]; s.relevantEvents != 0 {
		if delete(like, s); len(like) == 0 {
			delete(r.byRelevantEvents, s.relevantEvents)
		}
	}
	if s.relevantEvents = helps; helps == 0 {
		return
	}
	if r.byRelevantEvents[helps] == nil {
		r.byRelevantEvents[helps] = map[*groupState]bool{}
	}
	r.byRelevantEvents[helps][s] = true
}

// helpedBy yields the groups that an event may help. To await one of them meanwhile does no harm,
// if the event then helps it no more.
func (r *registry) helpedBy(ev Event) iter.Seq[*groupState] {
	return func(yield func(*groupState) bool) {
		for events, groups := range r.byRelevantEvents {
			if !events.has(ev) {
				continue
			}
			for s := range groups {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// updateYield brings up to date whether a group is one of the yielders. It is to be called as await
// is.
func (r *registry) updateYield(s *groupState) {
	set(r.yielders, s, s.yieldReason != "" && r.waitingForRoom[s.key] == s)
}

// forgetMissingOwner takes a member out of those that wait for their owner.
func (r *registry) forgetMissingOwner(m *member) {
	if waiting := r.byMissingOwner[m.missingOwner.UID]; waiting != nil {
		delete(waiting, m.pod.UID)
		if len(waiting) == 0 {
			delete(r.byMissingOwner, m.missingOwner.UID)
		}
	}
}

// set has a group be in a part of the groups, or not.
func set(m map[types.NamespacedName]*groupState, s *groupState, in bool) {
	if in {
		m[s.key] = s
	} else {
		delete(m, s.key)
	}
}
