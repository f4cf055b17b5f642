package fluence

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// askFirstFor is for how long groups in no queue leave room that a pod has left at most, until jobs before them have asked for
// it. A pass of the queues takes a tenth of that, and begins again while jobs may still ask.
const askFirstFor = time.Second

// freedForJobs is the room that pods have left by their end, for which the jobs in queues may not have asked yet. They ask a moment after
// the groups in no queue. Without this, a group would take room that a job before it is about to be given or promised. The zero
// value is ready for use.
type freedForJobs struct {
	mu    sync.Mutex
	slots []freedSlot // in the order of the ends
	// withheld is true if a group had to leave some of it.
	withheld bool
}

// A freedSlot is the room of one pod, and when the pod ended.
type freedSlot struct {
	match.Slot
	at time.Time
	// released is true after the matcher has it.
	released bool
}

func (f *freedForJobs) add(s match.Slot, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots = append(f.slots, freedSlot{Slot: s, at: now})
}

// release records that the matcher has the room of the pods that have ended on a node.
func (f *freedForJobs) release(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.slots {
		if f.slots[i].Node == node {
			f.slots[i].released = true
		}
	}
}

// on returns the room that has become free lately on some nodes, and the room that is about to, by its key. It records that a
// group leaves it. Without nodes there is none: nil means that no job is before the group.
func (f *freedForJobs) on(nodes map[string]struct{}, now time.Time) (kept []match.Slot) {
	if nodes == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	byKey := map[string]match.Slot{}
	for _, s := range f.slots {
		if _, is := nodes[s.Node]; (is || !s.released) && now.Sub(s.at) < askFirstFor {
			byKey[s.Key] = s.Slot
		}
	}
	f.withheld = f.withheld || len(byKey) > 0
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		kept = append(kept, byKey[key])
	}
	return kept
}

// describe says that a match of a group had to leave room on some nodes. It returns nothing if there was none.
func (f *freedForJobs) describe(nodes map[string]struct{}, now time.Time) string {
	kept := f.on(nodes, now)
	if len(kept) == 0 {
		return ""
	}
	return fmt.Sprintf("; the room of %s that ended is offered first to jobs in queues", reason.Plural(len(kept), "pod"))
}

// expire forgets what is too old. It reports whether a group had to leave some of that.
func (f *freedForJobs) expire(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.slots)
	f.slots = slices.DeleteFunc(f.slots, func(s freedSlot) bool { return now.Sub(s.at) >= askFirstFor })
	if len(f.slots) == before || !f.withheld {
		return false
	}
	f.withheld = len(f.slots) > 0
	return true
}

// asked reports whether a group had to leave room, and forgets that.
func (f *freedForJobs) asked() (withheld bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	withheld, f.withheld = f.withheld, false
	return withheld
}

// jobsAsked lets groups ask again that have left room to jobs in queues.
func jobsAsked(b *base) {
	if b.queues.freed.asked() {
		b.observeEvent(gang.Released)
	}
}

// endFreedForJobs does what jobsAsked does if the jobs have not asked for a long time.
func endFreedForJobs(b *base, now time.Time) {
	if b.queues.freed.expire(now) {
		b.observeEvent(gang.Released)
	}
}
