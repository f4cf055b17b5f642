package gang

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A registry finds groups and members. It has an index for each frequent search.
type registry struct {
	groups  map[types.NamespacedName]*groupState
	members map[types.UID]*member
	// byMissingOwner maps the UID of a missing owner to the members that wait for it.
	byMissingOwner map[types.UID]map[types.UID]*member
	// unassignedGroups holds the groups with a member that waits without an
	// assignment, and the groups with no member yet whose PodGroup announces some.
	// With these indexes, each activation and each tick looks through few groups.
	unassignedGroups map[types.NamespacedName]*groupState
	// replacementGroups holds the groups with members that wait for a position. A scheduling cycle
	// looks through these groups, and not through all that wait.
	replacementGroups map[types.NamespacedName]*groupState
	// unconfirmedGroups holds the groups with an assignment that the API does not show yet. They may
	// have started.
	unconfirmedGroups map[types.NamespacedName]*groupState
	// refusedGroups holds the part of unassignedGroups with a refusal that may be active.
	refusedGroups map[types.NamespacedName]*groupState
	// byRelevantEvents holds the part of refusedGroups that events may help, by these events.
	byRelevantEvents map[eventSet]map[*groupState]bool
	// retries holds the part of refusedGroups that retries at a known time, the soonest first.
	retries retryQueue
	// pauses says which groups that events have helped wait for others before they retry.
	pauses pauses
	// classes holds the part of refusedGroups that wait for room alike, by Refusal.Equivalence.
	classes map[string]*equivalenceClass
	// retryPaces says how many groups of each throttled namespace may retry at once.
	retryPaces map[string]*retryPace
	roomWaiters
	// seatedGroups holds the groups with free seats.
	seatedGroups map[types.NamespacedName]*groupState
	// jobs holds the jobs under which members have assignments.
	jobs map[match.JobID]jobAssignments
}

// A roomWaiters finds the groups that wait for room.
type roomWaiters struct {
	// waitingForRoom holds the groups that wait for room, and
	// groups that no longer do, until Starving removes them.
	waitingForRoom map[types.NamespacedName]*groupState
	// starving is the last result of Starving.
	starving starvingResult
	// yielders holds the part of waitingForRoom that leaves its turn to the next.
	yielders map[types.NamespacedName]*groupState
}

// A jobAssignments is the group of a job, and the number of assignments under the job.
type jobAssignments struct {
	group       *groupState
	assignments int
}

// newRegistry returns an empty registry.
func newRegistry() registry {
	return registry{
		groups:            map[types.NamespacedName]*groupState{},
		members:           map[types.UID]*member{},
		byMissingOwner:    map[types.UID]map[types.UID]*member{},
		unassignedGroups:  map[types.NamespacedName]*groupState{},
		replacementGroups: map[types.NamespacedName]*groupState{},
		unconfirmedGroups: map[types.NamespacedName]*groupState{},
		refusedGroups:     map[types.NamespacedName]*groupState{},
		byRelevantEvents:  map[eventSet]map[*groupState]bool{},
		classes:           map[string]*equivalenceClass{},
		retryPaces:        map[string]*retryPace{},
		roomWaiters: roomWaiters{
			waitingForRoom: map[types.NamespacedName]*groupState{},
			yielders:       map[types.NamespacedName]*groupState{},
		},
		seatedGroups: map[types.NamespacedName]*groupState{},
		jobs:         map[match.JobID]jobAssignments{},
	}
}

// setAssignment gives an assignment to a member that has none.
func (r *registry) setAssignment(m *member, to *assignment) {
	m.assignment = to
	m.group.changed(m)
	r.jobs[to.job] = jobAssignments{m.group, r.jobs[to.job].assignments + 1}
}

// unassign takes back a member's assignment, if it has one.
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
	m.group.changed(m)
}

// helpedBy yields the groups that an event may help. The loop may call updateRetry for
// the current group only after it has passed the event to the group's refusals. Otherwise
// the loop could yield the group twice.
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

// updateYield updates whether a group is one of the yielders, and forgets the last result of Starving if the group
// may change it. It has to be called after each change of the group's yieldReason or of waitingForRoom, unless
// recompute follows.
func (r *registry) updateYield(s *groupState) {
	if r.starving.mayChangeWith(s, r.waitingForRoom[s.key] == s) {
		r.starving.forget()
	}
	setIndexed(r.yielders, s, s.yieldReason != "" && r.waitingForRoom[s.key] == s)
}

// forgetMissingOwner removes a member from byMissingOwner.
func (r *registry) forgetMissingOwner(m *member) {
	if waiting := r.byMissingOwner[m.missingOwner.UID]; waiting != nil {
		delete(waiting, m.pod.UID)
		if len(waiting) == 0 {
			delete(r.byMissingOwner, m.missingOwner.UID)
		}
	}
}

// setIndexed adds a group to an index, or removes it.
func setIndexed(m map[types.NamespacedName]*groupState, s *groupState, in bool) {
	if in {
		m[s.key] = s
	} else {
		delete(m, s.key)
	}
}
