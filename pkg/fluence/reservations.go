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
	mu sync.Mutex
	of map[gang.Turn]*reservation
}

// A reservation is that of the group whose turn it is.
type reservation struct {
	key types.NamespacedName
	// nodes are reserved for the group; none if it does not fit what may be, or while it pauses.
	nodes []string
	clock clock
	// outlasted are the pods of the turn's namespace that stood on reserved nodes when a
	// reservation paused, as far as they were there still when the last one did.
	outlasted sets.Set[types.UID]
	// idle is since when the turn is nobody's; zero where it is somebody's.
	idle time.Time
	// looked is when nodes were last looked for, unknown that it was cut short before there was
	// an answer, and again that they are to be looked for once more: the group asked too soon
	// after that, or the search was cut short.
	looked         time.Time
	unknown, again bool
	// search is that for fewer nodes.
	search *placement.Bisection
	// called says that the group was called to its nodes when they were free, and came that it
	// has asked since.
	called, came bool
}

const (
	// forgetTurn is for how long the clock of a turn that is nobody's is kept at the least.
	forgetTurn = time.Hour
	// lookEvery is how often nodes are looked for at the most, for one turn.
	lookEvery = 5 * time.Second
)

// nodes returns what is reserved for a group whose turn it is.
func (a *reservations) nodes(t gang.Turn, key types.NamespacedName) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.of[t]; r != nil && r.key == key {
		return r.nodes
	}
	return nil
}

// A holding is what is reserved for a group.
type holding struct {
	key   types.NamespacedName
	nodes []string
}

// holdings returns what is reserved, by turn.
func (a *reservations) holdings() map[gang.Turn]holding {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := map[gang.Turn]holding{}
	for t, r := range a.of {
		if len(r.nodes) > 0 {
			of[t] = holding{r.key, r.nodes}
		}
	}
	return of
}

// hasOutlasted says whether a pod has outlasted a reservation of its namespace.
func (a *reservations) hasOutlasted(namespace string, uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t, r := range a.of {
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
	r := a.of[t]
	if r == nil || r.clock.until.IsZero() {
		return time.Time{}, false
	}
	return r.clock.until, true
}

// A ground knows the pods on nodes: what stands there for a group of a namespace, and which are the
// namespace's own, with those of some that are there still.
type ground interface {
	load(nodes []string, own string) load
	own(nodes []string, namespace string, before sets.Set[types.UID]) sets.Set[types.UID]
}

// A runsOn returns the nodes that a group runs on; none if it has not started.
type runsOn func(types.NamespacedName) []string

// take gives a turn to a group. It says whether it had it not just before, and whether nodes are
// others' again for that.
func (a *reservations) take(t gang.Turn, key types.NamespacedName, on ground, runs runsOn, now time.Time) (anew, freed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
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
	freed = r.end(t, on, runs)
	r.key = key
	return true, freed
}

// begin gives a group a turn that is nobody's.
func (a *reservations) begin(t gang.Turn, key types.NamespacedName, now time.Time) *reservation {
	if a.of == nil {
		a.of = map[gang.Turn]*reservation{}
	}
	r := &reservation{key: key, clock: newClock(now)}
	a.of[t] = r
	return r
}

// end takes the nodes from the group whose turn it was. It says whether there were any.
func (r *reservation) end(t gang.Turn, on ground, runs runsOn) bool {
	had, left := len(r.nodes) > 0, anyLoad()
	if had {
		left = on.load(r.nodes, t.Namespace)
	}
	r.clock.ends(sets.New(runs(r.key)...).Intersection(sets.New(r.nodes...)).Len(), left)
	r.none()
	return had
}

// none reserves nothing until nodes are looked for anew.
func (r *reservation) none() {
	r.nodes, r.search, r.looked = nil, nil, time.Time{}
	r.unknown, r.again, r.called, r.came = false, false, false, false
}

// put reserves nodes for the group whose turn it is, and no others. It says whether they
// are others than before, and whether others may have any that they could not have.
func (a *reservations) put(t gang.Turn, key types.NamespacedName, nodes []string, on ground, runs runsOn, now time.Time) (changed, freed bool) {
	_, freed = a.take(t, key, on, runs, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
	freed = freed || !sets.New(nodes...).HasAll(r.nodes...)
	if changed = !slices.Equal(r.nodes, nodes); changed {
		old := anyLoad()
		if len(r.nodes) > 0 {
			old = on.load(r.nodes, t.Namespace)
		}
		r.clock.change(old, on.load(nodes, t.Namespace), len(nodes))
		r.nodes, r.called, r.came = nodes, false, false
	}
	return changed, freed
}

// drop takes the nodes from a group that has a turn. It says whether there were any.
func (a *reservations) drop(t gang.Turn, key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
	if r == nil || r.key != key {
		return false
	}
	freed := len(r.nodes) > 0
	r.none()
	return freed
}

// look says whether nodes may be looked for now, for the group whose turn it is, and with what
// search to go on. If not, they are to be looked for later. Known says that the last look had an
// answer.
func (a *reservations) look(t gang.Turn, key types.NamespacedName, now time.Time) (search *placement.Bisection, ok, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
	if r == nil || r.key != key {
		return nil, true, true
	}
	if !r.looked.IsZero() && now.Sub(r.looked) < lookEvery {
		r.again = true
		return nil, false, !r.unknown
	}
	return r.search, true, !r.unknown
}

// found takes note of how far nodes were looked for, for a group that is first in its turn.
func (a *reservations) found(t gang.Turn, key types.NamespacedName, search *placement.Bisection, known bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
	if r == nil {
		r = a.begin(t, key, now)
	}
	if r.key == key {
		r.looked, r.search, r.unknown, r.again = now, search, !known, !known || !search.Done()
	}
}

// contested takes note that a group of another namespace is kept from the nodes of some turns.
func (a *reservations) contested(turns []gang.Turn, by string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range turns {
		if r := a.of[t]; r != nil && t.Namespace != by {
			r.clock.contested = true
		}
	}
}

// call says whether the group whose turn it is is to ask now: nodes are to be looked for again, or
// those that it has are free. For free nodes it is called once.
func (a *reservations) call(t gang.Turn, free func(nodes []string) bool, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
	if r == nil {
		return false
	}
	if r.again && now.Sub(r.looked) >= lookEvery {
		r.again = false
		return true
	}
	if len(r.nodes) == 0 || !free(r.nodes) {
		r.called, r.came = false, false
		return false
	}
	if r.called {
		return false
	}
	r.called = true
	return true
}

// comes says whether a group asks for reserved nodes that are free, for the first time since they
// are.
func (a *reservations) comes(t gang.Turn, key types.NamespacedName, free func(nodes []string) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
	if r == nil || r.key != key || len(r.nodes) == 0 || r.came || !free(r.nodes) {
		return false
	}
	r.came = true
	return true
}

// leave takes the nodes from turns of other groups than these. It says whether there were any.
// The clock of a turn is forgotten a while after it was somebody's last, unless there are own pods
// that have outlasted it.
func (a *reservations) leave(but []gang.Head, on ground, runs runsOn, most time.Duration, now time.Time) (freed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := sets.New[gang.Turn]()
	for _, h := range but {
		taken.Insert(gang.TurnOf(h.Key, h.Rank))
	}
	maps.DeleteFunc(a.of, func(t gang.Turn, r *reservation) bool {
		if taken.Has(t) {
			return false
		}
		freed = r.end(t, on, runs) || freed
		if r.idle.IsZero() {
			r.idle = now
		}
		if now.Sub(r.idle) <= max(mostPause*most, forgetTurn) {
			return false
		}
		if len(r.outlasted) > 0 {
			// It is looked at again after as long.
			r.outlasted, r.idle = on.own(nil, t.Namespace, r.outlasted), now
		}
		return len(r.outlasted) == 0
	})
	return freed
}

// getOn looks whether a reservation gets on. One that does not pauses; its nodes are others' again,
// and the own pods there have outlasted it.
func (a *reservations) getOn(t gang.Turn, on ground, most time.Duration, now time.Time) (paused, again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of[t]
	paused, again = r.clock.run(len(r.nodes) > 0, on.load(r.nodes, t.Namespace), most, now)
	if paused {
		r.outlasted = on.own(r.nodes, t.Namespace, r.outlasted)
		r.none()
	}
	return paused, again
}

// outlasted returns the pods of a turn's namespace that have outlasted a reservation. Nobody
// changes them.
func (a *reservations) outlasted(t gang.Turn) sets.Set[types.UID] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.of[t]; r != nil {
		return r.outlasted
	}
	return nil
}

// reserved says for how many groups nodes are reserved, and how many nodes by namespace.
func (a *reservations) reserved() (groups int, nodes map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes = map[string]int{}
	for t, r := range a.of {
		if n := len(r.nodes); n > 0 {
			groups++
			nodes[t.Namespace] += n
		}
	}
	return groups, nodes
}
