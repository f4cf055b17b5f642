package gang

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Turns is the role that says which groups have waited for room for so long that
// others may not pass them, and which of these leave their turn to the next.
//
// Here to reserve means to keep nodes free for such a group. In the other roles it means
// what it means in kube-scheduler: a scheduling cycle reserves an assignment for its pod.
type Turns struct{ *core }

// A StarvingGroup is a group that has waited for room for so
// long that groups after it may not pass it any more.
type StarvingGroup struct {
	Key types.NamespacedName
	// Since is the time of the first of its refusals in a row with WaitsForRoom.
	Since time.Time
	// Rank is the group's place among the groups that wait for room. Rank.Since
	// is since when the group, with the pods that it needs, could be placed.
	Rank Rank
}

// starvingGroup returns a group that waits for room as a StarvingGroup. It returns false if no member waits.
func (s *groupState) starvingGroup() (StarvingGroup, bool) {
	m := s.members[s.chooseRepresentative()]
	if m == nil {
		return StarvingGroup{}, false
	}
	h := StarvingGroup{Key: s.key, Since: s.roomSince, Rank: m.rank()}
	// The group has not started. The rank of its members in an earlier incarnation does not count.
	h.Rank.Urgent, h.Rank.Since = false, s.eligibleSince(m)
	return h, true
}

// Starving returns, for each namespace and priority, the first group in queue order
// that has waited for room for minWait or longer. It leaves out groups that
// lack members, that yield, or that wait for something else since a refusal.
func (g Turns) Starving(now time.Time, minWait time.Duration) []StarvingGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.starving.holds(now, minWait) {
		return slices.Clone(g.starving.groups)
	}
	first := map[Turn]StarvingGroup{}
	until := now.Add(maxStarvingAge)
	for key, s := range g.waitingForRoom {
		if s.roomSince.IsZero() {
			delete(g.waitingForRoom, key)
			g.updateYield(s)
			continue
		}
		if !s.isStarving(now, minWait) {
			if at := s.roomSince.Add(minWait); at.After(now) && at.Before(until) {
				until = at
			}
			continue
		}
		h, ok := s.starvingGroup()
		at := TurnOf(key, h.Rank)
		if old, there := first[at]; ok && (!there || h.Rank.Less(old.Rank)) {
			first[at] = h
		}
	}
	starving := make([]StarvingGroup, 0, len(first))
	for _, h := range first {
		starving = append(starving, h)
	}
	slices.SortFunc(starving, byRank)
	g.starving = starvingResult{groups: starving, minWait: minWait, at: now, until: until}
	return slices.Clone(starving)
}

// FirstWaiting returns, for each priority, the first group in queue order that waits for room, the highest
// priority first. It leaves out groups that have got room, that yield, or that wait for something else since a refusal.
func (g Turns) FirstWaiting(now time.Time) []StarvingGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := map[int32]StarvingGroup{}
	for _, s := range g.waitingForRoom {
		if s.started || s.number(aliveAssignedMembers) >= s.minimum() || !s.isStarving(now, 0) {
			continue
		}
		h, ok := s.starvingGroup()
		if old, there := first[h.Rank.Priority]; ok && (!there || h.Rank.Less(old.Rank)) {
			first[h.Rank.Priority] = h
		}
	}
	all := slices.Collect(maps.Values(first))
	slices.SortFunc(all, byRank)
	return all
}

// WaitsForRoom reports whether a group that has not started waits for room.
func (g Turns) WaitsForRoom(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || s.started || s.roomSince.IsZero() {
		return false
	}
	why, _ := g.whyNotYet(s)
	return why == ""
}

// WaitsForRoomSince returns since when a group that has not started waits for room, if it is refused for lack of
// room now. It returns now if it has not waited before.
func (g Turns) WaitsForRoomSince(key types.NamespacedName, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return now
	}
	return s.roomSinceOr(now)
}

// maxStarvingAge is the longest time for which a result of Starving is kept.
const maxStarvingAge = 10 * time.Second

// A starvingResult is a result of Starving. It is kept, because Starving is called several times a
// second, and looks at all groups that wait for room. It holds until a group changes, or
// has waited long enough.
type starvingResult struct {
	groups  []StarvingGroup
	minWait time.Duration
	// The result holds from at to until. Both are zero if there is no result.
	at, until time.Time
}

// holds reports whether Starving would return the same now.
func (r *starvingResult) holds(now time.Time, minWait time.Duration) bool {
	return r.minWait == minWait && !now.Before(r.at) && now.Before(r.until)
}

// mayChangeWith reports whether Starving might return something else because a group has changed: the group is in the
// result, or goes before one that is. The group may also begin to starve
// later: then the result ends at that time. The argument waits reports whether the group waits for room.
func (r *starvingResult) mayChangeWith(s *groupState, waits bool) bool {
	switch {
	case r.until.IsZero():
		return false
	case slices.ContainsFunc(r.groups, func(h StarvingGroup) bool { return h.Key == s.key }):
		return true
	case !waits || s.roomSince.IsZero():
		return false
	}
	if at := s.roomSince.Add(r.minWait); at.After(r.at) {
		if at.Before(r.until) {
			r.until = at
		}
		return false
	}
	h, ok := s.starvingGroup()
	if !ok || !s.isStarving(r.at, r.minWait) {
		return false
	}
	i := slices.IndexFunc(r.groups, func(old StarvingGroup) bool { return TurnOf(old.Key, old.Rank) == TurnOf(h.Key, h.Rank) })
	return i < 0 || h.Rank.Less(r.groups[i].Rank)
}

// forget makes Starving look at the groups again.
func (r *starvingResult) forget() { *r = starvingResult{} }

// StarvingAmong returns the given groups that are starving, in the order of the
// queue. Unlike Starving it returns all of them, not one of each namespace
// and priority. It looks only at the given groups, however many others wait.
func (g Turns) StarvingAmong(keys []types.NamespacedName, now time.Time, minWait time.Duration) []StarvingGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	starving := make([]StarvingGroup, 0, len(keys))
	for _, key := range keys {
		if s := g.waitingForRoom[key]; s != nil && s.isStarving(now, minWait) {
			if h, ok := s.starvingGroup(); ok {
				starving = append(starving, h)
			}
		}
	}
	slices.SortFunc(starving, byRank)
	return starving
}

// IsFirstStarving reports whether Starving would return a group
// if it were refused for room now and did not yield.
func (g Turns) IsFirstStarving(key types.NamespacedName, now time.Time, minWait time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || s.started || now.Sub(s.roomSinceOr(now)) < minWait {
		return false
	}
	own, ok := s.starvingGroup()
	if !ok {
		return false
	}
	for _, o := range g.waitingForRoom {
		if o == s || o.key.Namespace != key.Namespace || !o.isStarving(now, minWait) {
			continue
		}
		if h, ok := o.starvingGroup(); ok && h.Rank.Priority == own.Rank.Priority && h.Rank.Less(own.Rank) {
			return false
		}
	}
	return true
}

// RestoreWaitingSince sets the start of the group's wait for room to what the PodGroup records.
// Zero means that the group does not wait for room. It is always taken over. Another time is taken
// over only until this scheduler has refused the group. After that the time in the PodGroup is this
// scheduler's own, and may be older than what this scheduler knows.
func (g Turns) RestoreWaitingSince(key types.NamespacedName, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && (!s.refusedHere || since.IsZero()) {
		s.restoredSince = since
	}
}

// isStarving reports whether a group has waited for room for minWait or
// longer. A group that yields or waits for something else is not starving.
func (s *groupState) isStarving(now time.Time, minWait time.Duration) bool {
	return !s.roomSince.IsZero() && now.Sub(s.roomSince) >= minWait && !s.notForRoom && s.yieldReason == ""
}

// byRank compares two starving groups by their ranks.
func byRank(a, b StarvingGroup) int {
	if a.Rank.Less(b.Rank) {
		return -1
	}
	return 1
}
