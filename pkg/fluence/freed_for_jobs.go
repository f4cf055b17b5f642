package fluence

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// askFirstFor is for how long groups in no queue leave room that a pod has left at most, until jobs before them have asked for
// it. A pass of the queues takes a tenth of that, and begins again while jobs may still ask.
const askFirstFor = time.Second

// freedForJobs is the room that pods have left by their end, for which the jobs in queues may not have asked yet. They ask a moment after
// the groups in no queue. Without this, a group would take room that a job before it is about to be given or promised. The zero
// value is ready for use.
type freedForJobs struct {
	mu sync.Mutex
	// slots is the room by node and by the key of the slot.
	slots map[string]map[string]freedSlot
	// withheld is true if a group had to leave some of it since the jobs have asked.
	withheld bool
	// leftBy is the last group that had to leave some of it in its attempt.
	leftBy types.NamespacedName
}

// A freedSlot is the room of one pod, and when the pod ended.
type freedSlot struct {
	match.Slot
	at time.Time
	// released is true after the matcher has released room on the node.
	released bool
}

func (f *freedForJobs) add(s match.Slot, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slots == nil {
		f.slots = map[string]map[string]freedSlot{}
	}
	if f.slots[s.Node] == nil {
		f.slots[s.Node] = map[string]freedSlot{}
	}
	f.slots[s.Node][s.Key] = freedSlot{Slot: s, at: now}
}

// release records that the matcher has released room on a node.
func (f *freedForJobs) release(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, s := range f.slots[node] {
		s.released = true
		f.slots[node][key] = s
	}
}

// left returns the room that a group has to leave: on nodes for which jobs have not asked yet, and where the matcher is about to
// release it, except on nodes that are the group's own. It records that the group leaves it.
func (f *freedForJobs) left(of types.NamespacedName, unasked map[string]struct{}, own sets.Set[string], now time.Time) (all []match.Slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(f.slots)) {
		if own.Has(node) {
			continue
		}
		_, is := unasked[node]
		for _, key := range slices.Sorted(maps.Keys(f.slots[node])) {
			if s := f.slots[node][key]; (is || !s.released) && now.Sub(s.at) < askFirstFor {
				all = append(all, s.Slot)
			}
		}
	}
	switch {
	case len(all) > 0:
		f.withheld, f.leftBy = true, of
	case f.leftBy == of:
		f.leftBy = types.NamespacedName{}
	}
	return all
}

// hasLeft reports whether a group had to leave room in its last attempt.
func (f *freedForJobs) hasLeft(group types.NamespacedName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leftBy == group
}

// expire forgets what is too old. It reports whether groups are to ask again, because the jobs have not asked for so long.
func (f *freedForJobs) expire(now time.Time) (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	expired := false
	for node, slots := range f.slots {
		before := len(slots)
		maps.DeleteFunc(slots, func(_ string, s freedSlot) bool { return now.Sub(s.at) >= askFirstFor })
		expired = expired || len(slots) < before
		if len(slots) == 0 {
			delete(f.slots, node)
		}
	}
	if again = expired && f.withheld; again {
		f.withheld = len(f.slots) > 0
	}
	return again
}

// asked reports whether a group had to leave room, and forgets that.
func (f *freedForJobs) asked() (withheld bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	withheld, f.withheld = f.withheld, false
	return withheld
}

// leftToJobs returns the room that a group leaves to jobs before it, which ask first. A group does not leave the nodes that it claims
// or to which its pods come back, and one whose pods replace lost members leaves none.
func leftToJobs(a *groupPlacer, plan gang.Plan, now time.Time) []match.Slot {
	unasked, before := a.queues.Unasked(rankForRoom(plan))
	if !before || goesFirst(plan) {
		return nil
	}
	own := sets.New(a.restarts.nodesOf(plan.Key)...).Union(a.claims.nodesOf(claimantOf(plan)))
	return a.queues.forJobs.left(plan.Key, unasked, own, now)
}

// tellLeft makes nothing of a refusal for lack of room if the group had to leave some to jobs: it may have that in a moment, so that
// nobody is to be evicted, and no nodes are to be reserved.
func tellLeft(a *groupPlacer, plan gang.Plan, refused *gang.Refusal) {
	if refused.WaitsFor != gang.WaitsForRoom || !a.queues.forJobs.hasLeft(plan.Key) {
		return
	}
	refused.WaitsFor, refused.Equivalence = gang.WaitsForAnswer, ""
	refused.Message += "; the room of pods that ended is offered first to jobs in queues"
}

// jobsAsked lets groups ask again that have left room to jobs in queues.
func jobsAsked(b *base) {
	if b.queues.forJobs.asked() {
		b.observeEvent(gang.Released)
	}
}

// endFreedForJobs does what jobsAsked does if the jobs have not asked for a long time.
func endFreedForJobs(b *base, now time.Time) {
	if b.queues.forJobs.expire(now) {
		b.observeEvent(gang.Released)
	}
}
