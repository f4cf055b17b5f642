package engine

import (
	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/engine/store"
)

// A hostFilter has the rules for hosts of one shape. It looks up the names of nodes in the lists of
// the rules. After many look-ups, it instead looks up all names of the lists in the graph, and
// keeps the result by position.
type hostFilter struct {
	rules []demand.HostRule
	// names is the number of names of all rules. asked is the number of look-ups.
	names, asked int
	// always and now are sets of positions: where the permanent rules allow the shape,
	// and where all rules do. They are nil before all names were looked up.
	always, now bitset
}

// All names are looked up after minLookUps look-ups, or after lookUpsPerName for each name if these
// are more.
const minLookUps, lookUpsPerName = 64, 2

// newHostFilter returns the filter of a shape.
func newHostFilter(rules []demand.HostRule) *hostFilter {
	f := &hostFilter{rules: rules}
	for i := range rules {
		f.names += rules[i].Hosts.Len()
	}
	return f
}

// isResolved reports whether all names were looked up. It looks them up if that is worth it.
func (f *hostFilter) isResolved(g *store.Graph) bool {
	if f.always != nil {
		return true
	}
	if f.asked++; f.asked < max(minLookUps, lookUpsPerName*f.names) || !g.HasNames() {
		return false
	}
	f.always, f.now = newBitset(g.Size(), true), newBitset(g.Size(), true)
	for i := range f.rules {
		r := &f.rules[i]
		listed := newBitset(g.Size(), false)
		for name := range r.Hosts.All() {
			if at, there := g.Position(name); there {
				listed.add(at)
			}
		}
		f.now.keep(listed, r.Excluded)
		if !r.Temporary {
			f.always.keep(listed, r.Excluded)
		}
	}
	return true
}

// A bitset is a set of positions.
type bitset []uint64

// newBitset returns a set of none of n positions, or of all.
func newBitset(n int, full bool) bitset {
	b := make(bitset, (n+63)/64)
	if full {
		for i := range b {
			b[i]--
		}
	}
	return b
}

func (b bitset) add(at int) { b[at/64] |= 1 << (at % 64) }

func (b bitset) has(at int32) bool { return b[at/64]>>(at%64)&1 > 0 }

// keep removes the positions that are not in another set. If others is set, it removes those
// that are in the other set.
func (b bitset) keep(of bitset, others bool) {
	for i := range b {
		if others {
			b[i] &^= of[i]
		} else {
			b[i] &= of[i]
		}
	}
}
