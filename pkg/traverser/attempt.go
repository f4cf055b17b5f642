package traverser

import (
	"cmp"
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// An attempt is one walk through the graph, for one request and one time.
type attempt struct {
	g      *graph
	policy policy
	// whole has, by type, whether a vertex of the type is given out with everything below it.
	whole []bool
	// holds is the constraint of the request; nil for none.
	holds      jobspec.Condition
	start, end int64
	// empty ignores what jobs hold and which vertices are down.
	empty bool
	// factor is the nodeFactor of the node that the walk is in.
	factor int64
	// seen is the number of vertices that were looked at, in all attempts of a call.
	seen int
	// fault is the reason why the request is invalid, if the walk finds one.
	fault error
	// broken is the reason why the result cannot be trusted: a second look
	// at a vertex differed from the first. That is a bug of this package.
	broken error

	frames []frame // by depth: what was found below the vertex that is visited
	// members are the candidates in slots.
	members []candidate
	items   []item
	sorted  []candidate
}

// A candidate is a vertex, or a slot below a vertex, that may be chosen.
type candidate struct {
	score int64
	// count is how much the candidate offers: the free amount of a vertex, or 1 for a slot.
	count int64
	// at is the vertex, or the vertex that the slot is below.
	at vid
	// by are the requests for which the vertex was visited.
	by        *requests
	slot      *request // nil for a vertex
	exclusive bool
	// members[first:last] are the members of a slot.
	first, last int32
}

// A list has the candidates of one type that were found.
type list struct {
	typ   typeID
	sum   int64 // of the counts of the candidates
	count int64
	// each is the count of every candidate, or -1 if the counts differ.
	each  int64
	found []candidate
}

// A frame has what was found below one vertex.
type frame struct {
	lists []list
	// keeping is set if the candidates themselves are wanted, and not only their number.
	keeping bool
}

var errSiblings = invalid("jobspec: resources: two of one type, or two slots, in one place")

// frame returns the frame of a depth, with no lists.
func (a *attempt) frame(depth int, keeping bool) *frame {
	for len(a.frames) <= depth {
		a.frames = append(a.frames, frame{})
	}
	f := &a.frames[depth]
	f.keeping = keeping
	f.lists = f.lists[:0]
	return f
}

// want adds a list for a type.
func (f *frame) want(typ typeID) {
	for i := range f.lists {
		if f.lists[i].typ == typ {
			return
		}
	}
	if n := len(f.lists); n < cap(f.lists) {
		f.lists = f.lists[:n+1]
		l := &f.lists[n]
		*l = list{typ: typ, found: l.found[:0]}
		return
	}
	f.lists = append(f.lists, list{typ: typ})
}

// of returns the list of a type, or nil if the type is not wanted.
func (f *frame) of(typ typeID) *list {
	for i := range f.lists {
		if f.lists[i].typ == typ {
			return &f.lists[i]
		}
	}
	return nil
}

// sum returns how much of a type was found.
func (f *frame) sum(typ typeID) int64 {
	if l := f.of(typ); l != nil {
		return l.sum
	}
	return 0
}

// note adds n candidates of the same count to the numbers of a list.
func (l *list) note(n, count int64) {
	switch {
	case l.count == 0:
		l.each = count
	case l.each != count:
		l.each = -1
	}
	l.count += n
	l.sum += n * count
}

// take adds what was found below another vertex.
func (l *list) take(from *list, keeping bool) {
	if from.count == 0 {
		return
	}
	if from.each >= 0 {
		l.note(from.count, from.each)
	} else {
		l.count += from.count
		l.sum += from.sum
		l.each = -1
	}
	if keeping {
		l.found = append(l.found, from.found...)
	}
}

// An order is where candidates are sorted.
type order int

const (
	orderInside  order = iota // below a vertex
	orderContent              // the content of slots
	orderTop                  // at the root
)

// sort sorts the candidates of a list in the order of the policy.
func (a *attempt) sort(l *list, o order) {
	if len(l.found) < 2 {
		return
	}
	a.items = a.items[:0]
	for i := range l.found {
		key := l.found[i].score
		if a.policy.high || a.policy.variation && o == orderContent {
			key = -key
		}
		a.items = append(a.items, item{key: key, at: int32(i)}) //nolint:gosec // fewer than vertices
	}
	if a.policy.locality && o == orderTop {
		a.joinRuns()
	}
	if sorted(a.items) {
		return
	}
	sortItems(a.items)
	a.sorted = append(a.sorted[:0], l.found...)
	for i := range a.items {
		l.found[i] = a.sorted[a.items[i].at]
	}
}

// joinRuns gives all candidates of a run of consecutive scores the
// same key: the key of the first one in the order of the policy.
func (a *attempt) joinRuns() {
	byKey := make([]item, len(a.items))
	copy(byKey, a.items)
	slices.SortFunc(byKey, func(x, y item) int { return cmp.Compare(x.key, y.key) })
	run := int64(0)
	for i, it := range byKey {
		if i == 0 || it.key > byKey[i-1].key+1 {
			run = it.key
		}
		a.items[it.at].key = run
	}
}
