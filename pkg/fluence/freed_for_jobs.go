package fluence

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// askFirstFor is the longest time for which groups leave the room of a pod that has ended to jobs before them. They leave it until the
// jobs have asked. That is usually a tenth of this time: a pass of the queues. It is longer while jobs may still ask.
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
	if _, already := f.slots[s.Node][s.Key]; !already {
		s.Holder, s.Shared = "", true // only the amounts are left, as in endedPods
		f.slots[s.Node][s.Key] = freedSlot{Slot: s, at: now}
	}
}

// release records that the matcher has released room on a node. If several pods end there, the room of some may still be held.
func (f *freedForJobs) release(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, s := range f.slots[node] {
		s.released = true
		f.slots[node][key] = s
	}
}

// all returns the room that became free lately, except on nodes that are a group's own.
func (f *freedForJobs) all(own sets.Set[string], now time.Time) (all []freedSlot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(f.slots)) {
		if own.Has(node) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(f.slots[node])) {
			if s := f.slots[node][key]; now.Sub(s.at) < askFirstFor {
				all = append(all, s)
			}
		}
	}
	return all
}

// withhold records that a group had to leave room.
func (f *freedForJobs) withhold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withheld = true
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

// leftToJobs returns the room that a group leaves to jobs before it, which ask first: on nodes for which they have not asked yet, and
// where the matcher is about to release it. A group does not leave the nodes that it claims or to which its pods come back, and
// one whose pods replace lost members leaves none.
func leftToJobs(a *groupPlacer, plan gang.Plan, now time.Time) (left []match.Slot) {
	if goesFirst(plan) {
		return nil
	}
	// The matcher may release the room meanwhile. So the nodes are read after it.
	all := a.queues.forJobs.all(sets.New(a.restarts.nodesOf(plan.Key)...).Union(a.claims.nodesOf(claimantOf(plan))), now)
	if len(all) == 0 {
		return nil
	}
	unasked, before := a.queues.Unasked(rankForRoom(plan))
	if !before {
		return nil
	}
	for _, s := range all {
		if _, is := unasked[s.Node]; is || !s.released {
			left = append(left, s.Slot)
		}
	}
	if len(left) > 0 {
		a.queues.forJobs.withhold()
	}
	return left
}

// jobsAsked lets groups ask again that have left room to jobs in queues.
func jobsAsked(b *base) {
	if b.queues.forJobs.asked() {
		b.observeEvent(gang.Released)
	}
}

// endFreedForJobs does what jobsAsked does if the jobs have not asked for a long time. It is called with each tick.
func endFreedForJobs(b *base, now time.Time) {
	if b.queues.forJobs.expire(now) {
		b.observeEvent(gang.Released)
	}
}
