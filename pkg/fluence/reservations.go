package fluence

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement"
)

// reservations has the nodes that are reserved for groups that have
// waited for room longer than maxBypass. The zero value is ready for use.
type reservations struct {
	mu     sync.Mutex
	byTurn map[gang.Turn]*reservation
}

// reservation is the state of one turn. A turn is one namespace
// and priority, of which one group at a time has nodes reserved.
type reservation struct {
	// key is the group that has the turn.
	key types.NamespacedName
	// nodes are reserved for the group. There are none if the group does
	// not fit on the nodes that may be reserved, and during a pause.
	nodes []string
	// timer measures how long the turn's reservations make no progress.
	timer stallTimer
	// outlasted are the pods of the turn's namespace that were on reserved
	// nodes when a reservation paused, and still existed at the last pause.
	outlasted sets.Set[types.UID]
	// idleSince is since when no group has the turn; zero while one has it.
	idleSince time.Time
	// searchedAt is when nodes to reserve were last searched.
	searchedAt time.Time
	// lastSearchTimedOut means that the last search ran out of time without an answer.
	// searchAgain means that another search is due: the group wanted one within searchEvery of
	// the last, the last one timed out, or it has not found the smallest number of nodes yet.
	lastSearchTimedOut, searchAgain bool
	// search is the binary search for the smallest number of nodes. The next search continues it.
	search *placement.Bisection
	// activated means that the group was activated because its nodes are free.
	// usedFreePass means that the group was placed although its namespace was throttled,
	// because these nodes were free. That happens once each time they become free.
	activated, usedFreePass bool
}

const (
	// forgetTurn is the minimum time for which the timer of a turn without a group is kept.
	forgetTurn = time.Hour
	// searchEvery is the minimum time between two searches for one turn.
	searchEvery = 5 * time.Second
)

// nodes returns the nodes that are reserved for a group.
// There are none if the group does not have the turn.
func (a *reservations) nodes(t gang.Turn, key types.NamespacedName) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.byTurn[t]; r != nil && r.key == key {
		return r.nodes
	}
	return nil
}

// reservedNodes are the nodes that are reserved for a group.
type reservedNodes struct {
	key   types.NamespacedName
	nodes []string
}

// listReserved returns the reserved nodes, by turn.
func (a *reservations) listReserved() map[gang.Turn]reservedNodes {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := map[gang.Turn]reservedNodes{}
	for t, r := range a.byTurn {
		if len(r.nodes) > 0 {
			of[t] = reservedNodes{r.key, r.nodes}
		}
	}
	return of
}

// hasOutlasted reports whether a pod has outlasted a reservation of its namespace.
func (a *reservations) hasOutlasted(namespace string, uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t, r := range a.byTurn {
		if t.Namespace == namespace && r.outlasted.Has(uid) {
			return true
		}
	}
	return false
}

// pause returns when the pause of a turn ends, and whether the turn has a pause.
func (a *reservations) pause(t gang.Turn) (until time.Time, paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil || r.timer.pausedUntil.IsZero() {
		return time.Time{}, false
	}
	return r.timer.pausedUntil, true
}

// ownPause reports whether the last pause of a turn began because
// only pods of its namespace were left on the reserved nodes.
func (a *reservations) ownPause(t gang.Turn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	return r != nil && r.timer.ownPause
}

// occupancy knows the pods on nodes.
type occupancy interface {
	// blockers returns what has to end on nodes before a group of a namespace can use them.
	blockers(nodes []string, namespace string) blockers
	// podsOf returns the pods of a namespace on nodes, and also
	// the pods in before (an earlier result) that still exist.
	podsOf(nodes []string, namespace string, before sets.Set[types.UID]) sets.Set[types.UID]
}

// nodesOfGroup returns the nodes that a group runs on. There are none if the group has not started.
type nodesOfGroup func(types.NamespacedName) []string

// giveTurn gives a turn to a group. anew reports whether the group did not have the turn
// until now. freed reports whether another group had it, and lost reserved nodes with it.
func (a *reservations) giveTurn(t gang.Turn, key types.NamespacedName, on occupancy, runningOn nodesOfGroup, now time.Time) (anew, freed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil {
		a.begin(t, key, now)
		return true, false
	}
	// A group that comes back to its turn counts as new, because it has to be activated too.
	back := !r.idleSince.IsZero()
	r.idleSince = time.Time{}
	if r.key == key {
		return back, false
	}
	freed = r.endTenure(t, on, runningOn)
	r.key = key
	return true, freed
}

// begin creates the reservation of a turn that has none.
func (a *reservations) begin(t gang.Turn, key types.NamespacedName, now time.Time) *reservation {
	if a.byTurn == nil {
		a.byTurn = map[gang.Turn]*reservation{}
	}
	r := &reservation{key: key, timer: newStallTimer(now)}
	a.byTurn[t] = r
	return r
}

// endTenure ends the reservation of the group that had the
// turn, and reports whether nodes were reserved for it.
func (r *reservation) endTenure(t gang.Turn, on occupancy, runningOn nodesOfGroup) bool {
	had, left := len(r.nodes) > 0, maxBlockers()
	if had {
		left = on.blockers(r.nodes, t.Namespace)
	}
	r.timer.endTenure(sets.New(runningOn(r.key)...).Intersection(sets.New(r.nodes...)).Len(), left)
	r.clear()
	return had
}

// clear drops the reserved nodes and the state of the search.
func (r *reservation) clear() {
	r.nodes, r.search, r.searchedAt = nil, nil, time.Time{}
	r.lastSearchTimedOut, r.searchAgain, r.activated, r.usedFreePass = false, false, false, false
}

// reserveNodes replaces the nodes that are reserved for a turn, and gives the turn to the group. changed
// reports whether the nodes differ from before. freed reports whether a node is no longer reserved.
func (a *reservations) reserveNodes(t gang.Turn, key types.NamespacedName, nodes []string, on occupancy, runningOn nodesOfGroup, now time.Time) (changed, freed bool) {
	_, freed = a.giveTurn(t, key, on, runningOn, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	freed = freed || !sets.New(nodes...).HasAll(r.nodes...)
	if changed = !slices.Equal(r.nodes, nodes); changed {
		old := maxBlockers()
		if len(r.nodes) > 0 {
			old = on.blockers(r.nodes, t.Namespace)
		}
		r.timer.change(old, on.blockers(nodes, t.Namespace), len(nodes))
		r.nodes, r.activated, r.usedFreePass = nodes, false, false
	}
	return changed, freed
}

// dropNodes drops the nodes of a group that has the turn, and reports whether there were any.
func (a *reservations) dropNodes(t gang.Turn, key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil || r.key != key {
		return false
	}
	freed := len(r.nodes) > 0
	r.clear()
	return freed
}

// maySearch reports whether nodes may be searched now for the group that has
// the turn (ok), and returns the binary search to continue. If they may not, another
// search becomes due later. known is false if the last search ran out of time.
func (a *reservations) maySearch(t gang.Turn, key types.NamespacedName, now time.Time) (search *placement.Bisection, ok, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil || r.key != key {
		return nil, true, true
	}
	if !r.searchedAt.IsZero() && now.Sub(r.searchedAt) < searchEvery {
		r.searchAgain = true
		return nil, false, !r.lastSearchTimedOut
	}
	return r.search, true, !r.lastSearchTimedOut
}

// endSearch stores the state of a search. It gives the group the turn if no group has had it.
func (a *reservations) endSearch(t gang.Turn, key types.NamespacedName, search *placement.Bisection, known bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil {
		r = a.begin(t, key, now)
	}
	if r.key == key {
		r.searchedAt, r.search, r.lastSearchTimedOut, r.searchAgain = now, search, !known, !known || !search.Done()
	}
}

// markContested records that a group could not use nodes because they are reserved for these
// turns. The argument by is the group's namespace. Turns of that namespace are not marked.
func (a *reservations) markContested(turns []gang.Turn, by string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range turns {
		if r := a.byTurn[t]; r != nil && t.Namespace != by {
			r.timer.contested = true
		}
	}
}

// pollActivation reports whether to activate the group that has the turn: another search
// is due, or the group's nodes are free. For free nodes the group is activated once.
func (a *reservations) pollActivation(t gang.Turn, free func(nodes []string) bool, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil {
		return false
	}
	if r.searchAgain && now.Sub(r.searchedAt) >= searchEvery {
		r.searchAgain = false
		return true
	}
	if len(r.nodes) == 0 || !free(r.nodes) {
		r.activated, r.usedFreePass = false, false
		return false
	}
	if r.activated {
		return false
	}
	r.activated = true
	return true
}

// takeFreePass reports whether a group may be placed although its namespace is throttled,
// because its reserved nodes are free. It returns true once each time they become free.
func (a *reservations) takeFreePass(t gang.Turn, key types.NamespacedName, free func(nodes []string) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil || r.key != key || len(r.nodes) == 0 || r.usedFreePass || !free(r.nodes) {
		return false
	}
	r.usedFreePass = true
	return true
}

// endExcept ends the reservations of all turns except the turns of the groups in keep. It
// reports whether a node is no longer reserved. The timer of a turn without a group is
// forgotten after some time, except if pods that have outlasted its reservation still exist.
func (a *reservations) endExcept(keep []gang.StarvingGroup, on occupancy, runningOn nodesOfGroup, maxReserve time.Duration, now time.Time) (freed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := sets.New[gang.Turn]()
	for _, h := range keep {
		taken.Insert(gang.TurnOf(h.Key, h.Rank))
	}
	maps.DeleteFunc(a.byTurn, func(t gang.Turn, r *reservation) bool {
		if taken.Has(t) {
			return false
		}
		freed = r.endTenure(t, on, runningOn) || freed
		if r.idleSince.IsZero() {
			r.idleSince = now
		}
		if now.Sub(r.idleSince) <= max(maxPauseFactor*maxReserve, forgetTurn) {
			return false
		}
		if len(r.outlasted) > 0 {
			// Check again after the same time.
			r.outlasted, r.idleSince = on.podsOf(nil, t.Namespace, r.outlasted), now
		}
		return len(r.outlasted) == 0
	})
	return freed
}

// advance advances the timer of a reservation. The reservation pauses if the timer says so (see
// stallTimer.advance), at the latest after maxReserve without progress. Then its nodes are no
// longer reserved, and the pods of its namespace on them have outlasted it.
func (a *reservations) advance(t gang.Turn, on occupancy, maxReserve time.Duration, now time.Time) (paused, resumed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	paused, resumed = r.timer.advance(len(r.nodes) > 0, on.blockers(r.nodes, t.Namespace), maxReserve, now)
	if paused {
		r.outlasted = on.podsOf(r.nodes, t.Namespace, r.outlasted)
		r.clear()
	}
	return paused, resumed
}

// outlasted returns the pods of a turn's namespace that have
// outlasted a reservation. The caller must not modify the set.
func (a *reservations) outlasted(t gang.Turn) sets.Set[types.UID] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.byTurn[t]; r != nil {
		return r.outlasted
	}
	return nil
}

// count returns the number of groups with reserved
// nodes, and the number of reserved nodes by namespace.
func (a *reservations) count() (groups int, nodes map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes = map[string]int{}
	for t, r := range a.byTurn {
		if n := len(r.nodes); n > 0 {
			groups++
			nodes[t.Namespace] += n
		}
	}
	return groups, nodes
}
