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

// reservations are the nodes that are reserved for groups that have waited for room longer
// than maxBypass. The zero value is ready for use.
type reservations struct {
	mu     sync.Mutex
	byTurn map[gang.Turn]*reservation
}

// A reservation is that of the group whose turn it is.
type reservation struct {
	key types.NamespacedName
	// nodes are reserved for the group; none if it does not fit what may be, or while it pauses.
	nodes []string
	timer stallTimer
	// outlasted are the pods of the turn's namespace that stood on reserved nodes when a
	// reservation paused, as far as they were there still when the last one did.
	outlasted sets.Set[types.UID]
	// idle is since when the turn is nobody's; zero where it is somebody's.
	idle time.Time
	// searchedAt is when nodes were last looked for, unknown that it was cut short before there was
	// an answer, and again that they are to be looked for once more: the group asked too soon
	// after that, or the search was cut short.
	searchedAt           time.Time
	unknown, searchAgain bool
	// search is that for fewer nodes.
	search *placement.Bisection
	// activated says that the group was called to its nodes when they were free, and came that it
	// has asked since.
	activated, usedFreePass bool
}

const (
	// forgetTurn is for how long the clock of a turn that is nobody's is kept at the least.
	forgetTurn = time.Hour
	// searchEvery is how often nodes are looked for at the most, for one turn.
	searchEvery = 5 * time.Second
)

// nodes returns what is reserved for a group whose turn it is.
func (a *reservations) nodes(t gang.Turn, key types.NamespacedName) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.byTurn[t]; r != nil && r.key == key {
		return r.nodes
	}
	return nil
}

// A holding is what is reserved for a group.
type reservedNodes struct {
	key   types.NamespacedName
	nodes []string
}

// listReserved returns what is reserved, by turn.
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

// hasOutlasted says whether a pod has outlasted a reservation of its namespace.
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

// pause returns when the pause of a turn ends, and whether it has one.
func (a *reservations) pause(t gang.Turn) (until time.Time, paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil || r.timer.pausedUntil.IsZero() {
		return time.Time{}, false
	}
	return r.timer.pausedUntil, true
}

// A ground knows the pods on nodes: what stands there for a group of a namespace, and which are the
// namespace's own, with those of some that are there still.
type occupancy interface {
	blockers(nodes []string, own string) blockers
	podsOf(nodes []string, namespace string, before sets.Set[types.UID]) sets.Set[types.UID]
}

// A nodesOfGroup returns the nodes that a group runs on; none if it has not started.
type nodesOfGroup func(types.NamespacedName) []string

// giveTurn gives a turn to a group. It says whether it had it not just before, and whether nodes are
// others' again for that.
func (a *reservations) giveTurn(t gang.Turn, key types.NamespacedName, on occupancy, runs nodesOfGroup, now time.Time) (anew, freed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil {
		a.begin(t, key, now)
		return true, false
	}
	// Who comes back to its turn is to be told of it as who is new to it.
	back := !r.idle.IsZero()
	r.idle = time.Time{}
	if r.key == key {
		return back, false
	}
	freed = r.endTenure(t, on, runs)
	r.key = key
	return true, freed
}

// begin gives a group a turn that is nobody's.
func (a *reservations) begin(t gang.Turn, key types.NamespacedName, now time.Time) *reservation {
	if a.byTurn == nil {
		a.byTurn = map[gang.Turn]*reservation{}
	}
	r := &reservation{key: key, timer: newStallTimer(now)}
	a.byTurn[t] = r
	return r
}

// endTenure takes the nodes from the group whose turn it was. It says whether there were any.
func (r *reservation) endTenure(t gang.Turn, on occupancy, runs nodesOfGroup) bool {
	had, left := len(r.nodes) > 0, maxBlockers()
	if had {
		left = on.blockers(r.nodes, t.Namespace)
	}
	r.timer.endTenure(sets.New(runs(r.key)...).Intersection(sets.New(r.nodes...)).Len(), left)
	r.clear()
	return had
}

// clear reserves nothing until nodes are looked for anew.
func (r *reservation) clear() {
	r.nodes, r.search, r.searchedAt = nil, nil, time.Time{}
	r.unknown, r.searchAgain, r.activated, r.usedFreePass = false, false, false, false
}

// reserve reserves nodes for the group whose turn it is, and no others. It says whether they
// are others than before, and whether others may have any that they could not have.
func (a *reservations) reserve(t gang.Turn, key types.NamespacedName, nodes []string, on occupancy, runs nodesOfGroup, now time.Time) (changed, freed bool) {
	_, freed = a.giveTurn(t, key, on, runs, now)
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

// unreserve takes the nodes from a group that has a turn. It says whether there were any.
func (a *reservations) unreserve(t gang.Turn, key types.NamespacedName) bool {
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

// startSearch says whether nodes may be looked for now, for the group whose turn it is, and with what
// search to go on. If not, they are to be looked for later. Known says that the last look had an
// answer.
func (a *reservations) startSearch(t gang.Turn, key types.NamespacedName, now time.Time) (search *placement.Bisection, ok, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil || r.key != key {
		return nil, true, true
	}
	if !r.searchedAt.IsZero() && now.Sub(r.searchedAt) < searchEvery {
		r.searchAgain = true
		return nil, false, !r.unknown
	}
	return r.search, true, !r.unknown
}

// endSearch takes note of how far nodes were looked for, for a group that is first in its turn.
func (a *reservations) endSearch(t gang.Turn, key types.NamespacedName, search *placement.Bisection, known bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil {
		r = a.begin(t, key, now)
	}
	if r.key == key {
		r.searchedAt, r.search, r.unknown, r.searchAgain = now, search, !known, !known || !search.Done()
	}
}

// markContested takes note that a group of another namespace is kept from the nodes of some turns.
func (a *reservations) markContested(turns []gang.Turn, by string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range turns {
		if r := a.byTurn[t]; r != nil && t.Namespace != by {
			r.timer.contested = true
		}
	}
}

// pollActivation says whether the group whose turn it is is to ask now: nodes are to be looked for again, or
// those that it has are free. For free nodes it is called once.
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

// useFreePass says whether a group asks for reserved nodes that are free, for the first time since they
// are.
func (a *reservations) useFreePass(t gang.Turn, key types.NamespacedName, free func(nodes []string) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.byTurn[t]
	if r == nil || r.key != key || len(r.nodes) == 0 || r.usedFreePass || !free(r.nodes) {
		return false
	}
	r.usedFreePass = true
	return true
}

// endExcept takes the nodes from turns of other groups than these. It says whether there were any.
// The clock of a turn is forgotten a while after it was somebody's last, unless there are own pods
// that have outlasted it.
func (a *reservations) endExcept(but []gang.Head, on occupancy, runs nodesOfGroup, maxReserve time.Duration, now time.Time) (freed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := sets.New[gang.Turn]()
	for _, h := range but {
		taken.Insert(gang.TurnOf(h.Key, h.Rank))
	}
	maps.DeleteFunc(a.byTurn, func(t gang.Turn, r *reservation) bool {
		if taken.Has(t) {
			return false
		}
		freed = r.endTenure(t, on, runs) || freed
		if r.idle.IsZero() {
			r.idle = now
		}
		if now.Sub(r.idle) <= max(maxPauseFactor*maxReserve, forgetTurn) {
			return false
		}
		if len(r.outlasted) > 0 {
			// It is looked at again after as long.
			r.outlasted, r.idle = on.podsOf(nil, t.Namespace, r.outlasted), now
		}
		return len(r.outlasted) == 0
	})
	return freed
}

// advance looks whether a reservation gets on. One that does not pauses; its nodes are others' again,
// and the own pods there have outlasted it.
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

// outlasted returns the pods of a turn's namespace that have outlasted a reservation. Nobody
// changes them.
func (a *reservations) outlasted(t gang.Turn) sets.Set[types.UID] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.byTurn[t]; r != nil {
		return r.outlasted
	}
	return nil
}

// count says for how many groups nodes are reserved, and how many nodes by namespace.
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
