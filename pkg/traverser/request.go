package traverser

import (
	"errors"
	"math"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// unbounded is the largest number that a count may ask for.
const unbounded = math.MaxUint32

// A request is a resource of a jobspec that is prepared for a graph.
type request struct {
	typ   typeID
	count jobspec.Count
	// most is the largest number that count accepts.
	most int64
	// exclusive is set if the jobspec has exclusive:
	// true, and shareable if it has exclusive: false.
	exclusive, shareable bool
	label                string
	with                 *requests
	// below has, by type, the minimum that is needed below one vertex of the request.
	below []sum
}

// requests are the resources at one place of a jobspec.
type requests struct {
	list []request
	// at has, by type, the index of its first request in list, or -1.
	at []int16
	// twice has, by type, whether there are two requests or more.
	twice []bool
	slot  int // the index of the first slot, or -1
	// slots is the number of slot requests.
	slots int
}

// maxSiblings is the largest number of resources at one place of a jobspec.
const maxSiblings = math.MaxInt16

// compile prepares resources for the graph. It fails for unknown types.
func (g *graph) compile(rs []jobspec.Resource) (*requests, error) {
	q := &requests{list: make([]request, len(rs)), slot: -1}
	q.at, q.twice = make([]int16, len(g.types)), make([]bool, len(g.types))
	for i := range q.at {
		q.at[i] = -1
	}
	if len(rs) > maxSiblings {
		return nil, errors.New("too many resources in one place")
	}
	for i := range rs {
		r, err := g.compileOne(&rs[i])
		if err != nil {
			return nil, err
		}
		q.list[i] = r
		if r.typ == typeSlot {
			if q.slots++; q.slot < 0 {
				q.slot = i
			}
		}
		if q.at[r.typ] >= 0 {
			q.twice[r.typ] = true
			continue
		}
		q.at[r.typ] = int16(i) //nolint:gosec // at most maxSiblings
	}
	return q, nil
}

func (g *graph) compileOne(from *jobspec.Resource) (request, error) {
	typ, known := g.typeIDs[from.Type]
	if !known {
		return request{}, invalid("jobspec: resources: type %q: neither the graph nor a filter has it", from.Type)
	}
	r := request{typ: typ, count: from.Count, most: from.Count.Floor(unbounded), label: from.Label}
	if from.Exclusive != nil {
		r.exclusive, r.shareable = *from.Exclusive, !*from.Exclusive
	}
	var err error
	if r.with, err = g.compile(from.With); err != nil {
		return r, err
	}
	r.below = r.with.least()
	return r, nil
}

// least returns the minimum of each type that the requests need.
func (q *requests) least() []sum {
	var sums []sum
	for i := range q.list {
		r := &q.list[i]
		if r.typ != typeSlot {
			sums = addSum(sums, r.typ, r.count.Min)
		}
		for _, s := range r.below {
			sums = addSum(sums, s.typ, times(r.count.Min, s.amount))
		}
	}
	return sums
}

// times returns the product of two numbers that are not negative; math.MaxInt64 if it overflows.
func times(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// A hit has the requests that a vertex matches.
type hit struct {
	own  *request // for the vertex's type
	slot *request // the slot whose content is among the children
	// asked is the slot request at the same place as own, whatever the children are.
	asked *request
	fails bool // more than one request matches
}

// fit returns the requests that a vertex matches.
func (a *attempt) fit(u vid, in *inner, q *requests) hit {
	typ := a.g.typ[u]
	var h hit
	if i := q.at[typ]; i >= 0 && typeID(typ) != typeSlot {
		h.own = &q.list[i]
		h.fails = q.twice[typ] || q.slots > 0
	}
	if q.slot >= 0 {
		h.asked = &q.list[q.slot]
		h.fails = h.fails || q.slots > 1
	}
	if h.fails {
		return h
	}
	switch {
	case h.asked != nil:
		if in.offers(h.asked.with) {
			h.slot = h.asked
		}
	case h.own != nil && h.own.with.slot >= 0:
		if s := &h.own.with.list[h.own.with.slot]; in.offers(s.with) {
			h.slot = s
		}
	}
	return h
}

// offers reports whether every type that is asked for is among the types of the children.
func (in *inner) offers(q *requests) bool {
	if in == nil {
		return len(q.list) == 0
	}
	for i := range q.list {
		found := false
		for _, t := range in.below {
			found = found || t == q.list[i].typ
		}
		if !found {
			return false
		}
	}
	return true
}
