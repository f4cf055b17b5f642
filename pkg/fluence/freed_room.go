package fluence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

const (
	// offerPause is the shortest time from the beginning of one offer to a group to that of the next. It
	// bounds how long room may be idle while pods end one by one for hours: with a handover of 2s
	// it is one fifteenth of the time for each namespace and priority that has groups which wait.
	offerPause = 30 * time.Second
	// maxAnswerTime is for how long after an offer a group may not have asked once more.
	maxAnswerTime = time.Second
	// firstWaitingPause is the shortest time between two searches for the first groups. A search looks
	// at all groups that wait for room, and pods may end by the hundred in a second.
	firstWaitingPause = 500 * time.Millisecond
	// maxOffers is the largest number of offers at a time: that many priorities have one.
	maxOffers = 16
	// maxUsers is the largest number of groups that may start one after another in the time of one offer.
	maxUsers = 8
)

// freedRoom is the room that pods have just left by their end, while it is offered only to the first group that waits
// for room and to others of its priority or a higher one. The pods of a job seldom end at the same moment. Without this,
// a group of a lower priority would take what the first pods leave, and the first group, which needs more,
// would go on waiting. The zero value is ready for use.
type freedRoom struct {
	mu sync.Mutex
	// offers are ordered by priority, the highest first.
	offers []*offer
	// lastEnd is when the last pod ended. A row of ends begins after a time without any that is as long as an offer.
	lastEnd time.Time
	// begun has the last offers of the turns. A turn has the next one offerPause later, or when the group has started. A group
	// that comes in place of another one of its namespace and priority has none before.
	begun map[gang.Turn]begunOffer
	// nextSearch is when the first groups are searched again at the earliest.
	nextSearch time.Time
	// nextAsk is when the first groups may be made to ask again at the earliest. askDue means that they are to.
	nextAsk time.Time
	askDue  bool
}

// An offer is the time for which room is offered to one group first.
type offer struct {
	key      types.NamespacedName
	priority int32
	until    time.Time
	// rank is the group's place among the groups that wait for room. Until settled, which is settleTime after the last of
	// the pods, room is left by the groups of the same priority after it too: the pods of a job that is deleted end one
	// after another.
	rank    gang.Rank
	settled time.Time
	// brief is true for an offer within offerPause of another one of its turn. It ends when it has settled.
	brief bool
	// users is the number of groups to which the room was offered before and that have started.
	users int
	slots []match.Slot
	// keys has the keys of the slots.
	keys sets.Set[string]
}

// A begunOffer is a group to which room was offered, and when that began.
type begunOffer struct {
	key types.NamespacedName
	at  time.Time
}

// add records the end of a pod with this slot, once. It begins an offer of the given length to the first group of each
// priority that may have one, and reports whether it did. first returns these groups, the highest priority first.
func (f *freedRoom) add(slot match.Slot, now time.Time, length time.Duration, first func(time.Time) []gang.StarvingGroup) (begins bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rowBegins := now.Sub(f.lastEnd) >= length
	if f.lastEnd = now; !now.Before(f.nextSearch) {
		f.nextSearch = now.Add(firstWaitingPause)
		begins = f.begin(now, length, rowBegins, first(now))
	}
	for _, o := range f.offers {
		if now.Before(o.until) && !o.keys.Has(slot.Key) {
			o.keys.Insert(slot.Key)
			o.slots = append(o.slots, slot)
			if o.settled = now.Add(settleTime); o.settled.After(o.until) {
				o.settled = o.until
			}
		}
	}
	return begins
}

// begin begins an offer to each of these groups. It is a brief one if the group's turn had one lately, and only where a
// row of ends begins. One group of each priority may have one at a time. Each has one of its own, so that what the
// first leaves is not at once taken by the last.
func (f *freedRoom) begin(now time.Time, length time.Duration, rowBegins bool, first []gang.StarvingGroup) (begins bool) {
	maps.DeleteFunc(f.begun, func(_ gang.Turn, b begunOffer) bool { return now.Sub(b.at) >= offerPause })
	for _, g := range first {
		t := gang.TurnOf(g.Key, g.Rank)
		_, lately := f.begun[t]
		if lately && !rowBegins || len(f.offers) >= maxOffers || slices.ContainsFunc(f.offers, func(o *offer) bool { return o.priority == t.Priority }) {
			continue
		}
		if f.begun == nil {
			f.begun = map[gang.Turn]begunOffer{}
		}
		if !lately {
			f.begun[t] = begunOffer{g.Key, now}
		}
		f.offers = append(f.offers, &offer{
			key: g.Key, priority: t.Priority, rank: g.Rank, until: now.Add(length), brief: lately, keys: sets.New[string](),
		})
		begins = true
	}
	slices.SortStableFunc(f.offers, func(a, b *offer) int { return cmp.Compare(b.priority, a.priority) })
	return begins
}

// unsettledFor returns for how long some room is still left by groups of the same priority after that of an offer.
func (f *freedRoom) unsettledFor(now time.Time) (d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.offers {
		d = max(d, o.settled.Sub(now))
	}
	return d
}

// over returns the groups whose offers have lasted long enough.
func (f *freedRoom) over(now time.Time) (keys []types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.offers {
		if !now.Before(o.until) {
			keys = append(keys, o.key)
		}
	}
	return keys
}

// use ends the offer to a group that starts. While pods may still end one after another, the offer goes on to the group of
// this priority that is the first now. use reports whether others may take room by that.
func (f *freedRoom) use(key types.NamespacedName, now time.Time, first func(time.Time) []gang.StarvingGroup) bool {
	f.mu.Lock()
	maps.DeleteFunc(f.begun, func(_ gang.Turn, b begunOffer) bool { return b.key == key })
	if i := slices.IndexFunc(f.offers, func(o *offer) bool { return o.key == key }); i >= 0 {
		if o := f.offers[i]; now.Before(o.settled) && o.users < maxUsers {
			for _, g := range first(now) {
				if g.Rank.Priority == o.priority {
					o.key, o.rank = g.Key, g.Rank
				}
			}
			o.users++
		}
	}
	f.mu.Unlock()
	return f.end(func(o *offer) bool { return o.key == key })
}

// end ends the offers for which over is true. It reports whether there are any.
func (f *freedRoom) end(over func(*offer) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.offers)
	f.offers = slices.DeleteFunc(f.offers, over)
	return len(f.offers) < before
}

// mayAsk reports whether the first groups may be made to ask again now. If not, they are to ask later: see isAskDue.
func (f *freedRoom) mayAsk(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.nextAsk) {
		f.askDue = true
		return false
	}
	f.nextAsk, f.askDue = now.Add(firstWaitingPause), false
	return true
}

// isAskDue reports whether the first groups are to be made to ask again.
func (f *freedRoom) isAskDue() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.askDue
}

// holds reports whether a group of this priority and rank has to leave the room of an offer.
func (o *offer) holds(from types.NamespacedName, priority int32, rank gang.Rank, now time.Time) bool {
	switch {
	case o.key == from:
		return false
	case o.priority == priority:
		return now.Before(o.settled) && o.rank.Less(rank)
	}
	return o.priority > priority && (!o.brief || now.Before(o.settled))
}

// slots returns what a match for a group of this priority and rank has to leave, except on the nodes that it claims.
func (f *freedRoom) slots(of types.NamespacedName, priority int32, rank gang.Rank, now time.Time, claims sets.Set[string]) (all []match.Slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := sets.New[string]()
	for _, o := range f.offers {
		if !o.holds(of, priority, rank, now) {
			continue
		}
		for _, s := range o.slots {
			if !seen.Has(s.Key) && !claims.Has(s.Node) {
				seen.Insert(s.Key)
				all = append(all, s)
			}
		}
	}
	return all
}

// describe says to which group room is offered that a match for a group had to leave. It returns nothing if there is
// none. name returns the words for a group. A report leaves this text out when it compares messages.
func (f *freedRoom) describe(of types.NamespacedName, priority int32, rank gang.Rank, now time.Time, name func(types.NamespacedName, int32) string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.offers {
		if o.holds(of, priority, rank, now) && len(o.slots) > 0 {
			return fmt.Sprintf("; the room of %s that ended is offered first to %s", reason.Plural(len(o.slots), "pod"), name(o.key, o.priority))
		}
	}
	return ""
}

// offerFreedRoom offers the room of a pod that has ended to the first group of each priority that waits. Call it
// before the matcher releases the room.
func (b *base) offerFreedRoom(slot match.Slot) {
	length := b.args.Handover.Duration
	if length == 0 || slot.Shared || b.restarts.leaving().Has(types.UID(slot.Key)) {
		return
	}
	if b.freed.add(slot, b.now(), length, b.groups.FirstWaiting) {
		b.releaseSettled()
		// Their answers end the offers.
		time.AfterFunc(length, func() { b.askAgain(b.freed.over(b.now())...) })
	}
}

// releaseSettled lets groups ask again when no room is left by groups of the same priority any more.
func (b *base) releaseSettled() {
	if d := b.freed.unsettledFor(b.now()); d > 0 {
		time.AfterFunc(d, b.releaseSettled)
		return
	}
	roomFreed(b, gang.Released)
}

// endOffers ends the offers to groups that do not wait for room any more, and those whose groups have not asked again. It
// makes the first groups ask again if that is due.
func (w *watcher) endOffers(now time.Time) {
	if w.freed.end(func(o *offer) bool { return now.Sub(o.until) > maxAnswerTime || !w.groups.WaitsForRoom(o.key) }) {
		roomFreed(w.base, gang.Released)
	}
	if w.freed.isAskDue() {
		w.askFirst()
		w.observeEvent(gang.NodeChanged)
	}
}

// askFirst lets the first group of each priority that waits for room ask again before others.
func (b *base) askFirst() {
	now := b.now()
	if !b.freed.mayAsk(now) {
		return
	}
	var keys []types.NamespacedName
	for _, g := range b.groups.FirstWaiting(now) {
		keys = append(keys, g.Key)
	}
	b.askAgain(keys...)
}

// askAgain lets groups ask again that wait for room, without the pause after their refusal.
func (b *base) askAgain(keys ...types.NamespacedName) {
	b.groups.AskAgain(keys, b.now())
	b.activator.activateDue()
}
