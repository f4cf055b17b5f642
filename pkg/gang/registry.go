package gang

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A registry finds groups and members: all of them, and those that are of interest in some way.
type registry struct {
	groups  map[types.NamespacedName]*state
	members map[types.UID]*member
	// unseen are the members whose group is known when an owner is seen, by the UID
	// of that.
	unseen map[types.UID]map[types.UID]*member
	// unseated is the part of groups with a member that waits for a seat, or with
	// no member though some are to come, and seated the part with a seat that the
	// API does not show yet: what is looked through on every wake and every tick
	// stays small.
	unseated map[types.NamespacedName]*state
	seated   map[types.NamespacedName]*state
	// refused is the part of unseated with a refusal that may stand. Awaiting has the part of that
	// which events may help, by these, and retries the part that asks again by itself, the soonest
	// first.
	refused  map[types.NamespacedName]*state
	awaiting map[eventSet]map[*state]bool
	retries  retryQueue
	// returned has the pace of each namespace of which groups returned within the last returnStep.
	returned map[string]*pace
	// wanting is the part of groups whose time runs, and of those that it has ceased
	// to run for.
	wanting map[types.NamespacedName]*state
	// yielders is the part of wanting that leaves its turn to the next.
	yielders map[types.NamespacedName]*state
	// jobs are those under which members have seats.
	jobs map[match.JobID]jobSeats
}

// jobSeats is the group of which so many members have seats under a job.
type jobSeats struct {
	group *state
	seats int
}

// newRegistry returns one that is empty.
func newRegistry() registry {
	return registry{
		groups:   map[types.NamespacedName]*state{},
		members:  map[types.UID]*member{},
		unseen:   map[types.UID]map[types.UID]*member{},
		unseated: map[types.NamespacedName]*state{},
		seated:   map[types.NamespacedName]*state{},
		refused:  map[types.NamespacedName]*state{},
		awaiting: map[eventSet]map[*state]bool{},
		returned: map[string]*pace{},
		wanting:  map[types.NamespacedName]*state{},
		yielders: map[types.NamespacedName]*state{},
		jobs:     map[match.JobID]jobSeats{},
	}
}

// give gives a member that has no seat one.
func (r *registry) give(m *member, to *seat) {
	m.seat = to
	r.jobs[to.job] = jobSeats{m.group, r.jobs[to.job].seats + 1}
}

// take takes a member's seat, if it has one.
func (r *registry) take(m *member) {
	if m.seat == nil {
		return
	}
	if of := r.jobs[m.seat.job]; of.seats > 1 {
		r.jobs[m.seat.job] = jobSeats{of.group, of.seats - 1}
	} else {
		delete(r.jobs, m.seat.job)
	}
	m.seat = nil
}

// await brings up to date when, and after which events, a group may ask again. It is to be called
// after every change of the refusals of the group or of its members, but for a settle that follows.
func (r *registry) await(s *state) {
	var helps eventSet
	var retryAt time.Time
	if r.refused[s.key] == s {
		for b := range s.backoffs {
			if b.refusal != nil {
				helps, retryAt = helps|b.refusal.awaits(), sooner(retryAt, b.refusal.retryAt)
			}
		}
	}
	r.retries.put(s, retryAt)
	if helps == s.helps {
		return
	}
	if like := r.awaiting[s.helps]; s.helps != 0 {
		if delete(like, s); len(like) == 0 {
			delete(r.awaiting, s.helps)
		}
	}
	if s.helps = helps; helps == 0 {
		return
	}
	if r.awaiting[helps] == nil {
		r.awaiting[helps] = map[*state]bool{}
	}
	r.awaiting[helps][s] = true
}

// helpedBy yields the groups that an event may help. To await one of them meanwhile does no harm,
// if the event then helps it no more.
func (r *registry) helpedBy(ev Event) iter.Seq[*state] {
	return func(yield func(*state) bool) {
		for events, groups := range r.awaiting {
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

// yield brings up to date whether a group is one of the yielders. It is to be called as await
// is.
func (r *registry) yield(s *state) { set(r.yielders, s, s.yields != "" && r.wanting[s.key] == s) }

// see takes a member out of those that wait for their owner.
func (r *registry) see(m *member) {
	if waiting := r.unseen[m.unseen.UID]; waiting != nil {
		delete(waiting, m.pod.UID)
		if len(waiting) == 0 {
			delete(r.unseen, m.unseen.UID)
		}
	}
}

// set has a group be in a part of the groups, or not.
func set(m map[types.NamespacedName]*state, s *state, in bool) {
	if in {
		m[s.key] = s
	} else {
		delete(m, s.key)
	}
}
