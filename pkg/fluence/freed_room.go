package fluence

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

const (
	// handoverPause is the shortest time from the beginning of one handover for a group to that of the next. It
	// bounds how long room may be idle while pods end one by one for hours: with a handover of 2s
	// it is one fifteenth of the time.
	handoverPause = 30 * time.Second
	// maxAnswerTime is for how long after its handover a group may not have asked once more.
	maxAnswerTime = time.Second
	// firstWaitingPause is the shortest time between two searches for the first groups. A search looks
	// at all groups that wait for room, and pods may end by the hundred in a second.
	firstWaitingPause = 500 * time.Millisecond
	// maxHandovers is the largest number of handovers at a time: that many priorities have one.
	maxHandovers = 16
)

// freedRoom is the room that pods have just left by their end, while it is offered only to the first group that waits
// for room and to others of its priority or a higher one. The pods of a job seldom end at the same moment. Without this,
// a group of a lower priority would take what the first pods leave, and the first group, which needs more,
// would go on waiting. The zero value is ready for use.
type freedRoom struct {
	mu sync.Mutex
	// handovers are ordered by priority, the highest first.
	handovers []*handoverOf
	// begun is when the last handover of a group began.
	begun map[types.NamespacedName]time.Time
	// nextSearch is when the first groups are searched again at the earliest.
	nextSearch time.Time
}

// A handoverOf is the time for which room is offered to one group first.
type handoverOf struct {
	key      types.NamespacedName
	priority int32
	until    time.Time
	slots    []match.Slot
}

// add records the end of a pod with this slot. It begins a handover of the given length for the first group of each priority
// that may have one, and reports whether it did. first returns these groups, the highest priority first.
func (f *freedRoom) add(slot match.Slot, now time.Time, length time.Duration, first func(time.Time) []gang.StarvingGroup) (begins bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !now.Before(f.nextSearch) {
		f.nextSearch = now.Add(firstWaitingPause)
		begins = f.begin(now, length, first(now))
	}
	for _, h := range f.handovers {
		if now.Before(h.until) {
			h.slots = append(h.slots, slot)
		}
	}
	return begins
}

// begin begins a handover for each of these groups that had none lately. One group of each priority may have
// one at a time. Each has one of its own, so that what the first leaves is not at once taken by the last.
func (f *freedRoom) begin(now time.Time, length time.Duration, first []gang.StarvingGroup) (begins bool) {
	maps.DeleteFunc(f.begun, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) >= handoverPause })
	for _, g := range first {
		priority := g.Rank.Priority
		_, lately := f.begun[g.Key]
		if lately || len(f.handovers) >= maxHandovers || slices.ContainsFunc(f.handovers, func(h *handoverOf) bool { return h.priority == priority }) {
			continue
		}
		if f.begun == nil {
			f.begun = map[types.NamespacedName]time.Time{}
		}
		f.begun[g.Key] = now
		f.handovers = append(f.handovers, &handoverOf{key: g.Key, priority: priority, until: now.Add(length)})
		begins = true
	}
	slices.SortStableFunc(f.handovers, func(a, b *handoverOf) int { return cmp.Compare(b.priority, a.priority) })
	return begins
}

// over returns the groups whose handovers have lasted long enough.
func (f *freedRoom) over(now time.Time) (keys []types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.handovers {
		if !now.Before(h.until) {
			keys = append(keys, h.key)
		}
	}
	return keys
}

// drop ends the handover of a group. It reports whether others may take room by that.
func (f *freedRoom) drop(key types.NamespacedName) bool {
	return f.end(func(h *handoverOf) bool { return h.key == key })
}

// end ends the handovers for which over is true. It reports whether there are any.
func (f *freedRoom) end(over func(*handoverOf) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.handovers)
	f.handovers = slices.DeleteFunc(f.handovers, over)
	return len(f.handovers) < before
}

// slots returns what a match for a group of this priority has to leave.
func (f *freedRoom) slots(of types.NamespacedName, priority int32) (all []match.Slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := sets.New[string]()
	for _, h := range f.handovers {
		if h.key == of || h.priority <= priority {
			continue
		}
		for _, s := range h.slots {
			if !seen.Has(s.Key) {
				seen.Insert(s.Key)
				all = append(all, s)
			}
		}
	}
	return all
}

// describe says to which group room is offered that a match for a group had to leave. It returns nothing if there is
// none. name returns the words for a group. A report leaves this text out when it compares messages.
func (f *freedRoom) describe(of types.NamespacedName, priority int32, name func(types.NamespacedName, int32) string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.handovers {
		if h.key != of && h.priority > priority && len(h.slots) > 0 {
			return fmt.Sprintf("; the room of %s that ended is offered first to %s", reason.Plural(len(h.slots), "pod"), name(h.key, h.priority))
		}
	}
	return ""
}

// offerFreedRoom offers the room of a pod that has ended to the first group that waits. Call it before
// the matcher releases the room.
func (w *watcher) offerFreedRoom(ctx context.Context, was *corev1.Pod) {
	length := w.args.Handover.Duration
	if length == 0 || translate.OnEveryNode(was) || w.restarts.keepsRoomOf(was.UID) {
		return
	}
	if w.freed.add(translate.HeldSlot(was), w.now(), length, w.groups.FirstWaiting) {
		time.AfterFunc(length, func() {
			if ctx.Err() == nil {
				w.hastenHandovers()
			}
		})
	}
}

// hastenHandovers lets the groups ask once more whose handovers have lasted long enough. Their answers end the handovers.
func (w *watcher) hastenHandovers() { w.retry(w.freed.over(w.now())...) }

// endHandover offers to all what was offered to a group first, if that has lasted long enough and the group
// was just refused.
func (a *groupPlacer) endHandover(key types.NamespacedName) {
	now := a.now()
	if a.freed.end(func(h *handoverOf) bool { return h.key == key && !now.Before(h.until) }) {
		a.observeEvent(gang.Released)
	}
}

// retryFirst lets the first group of each priority that waits for room ask at once.
func (pl *Fluence) retryFirst() {
	for _, g := range pl.groups.FirstWaiting(pl.now()) {
		pl.retry(g.Key)
	}
}

// retry lets groups that wait for room ask at once, whenever they were refused.
func (b *base) retry(keys ...types.NamespacedName) {
	for _, key := range keys {
		b.groups.RetryNow(key)
	}
	b.activator.activateGroups(keys...)
}
