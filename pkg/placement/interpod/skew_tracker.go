package interpod

import (
	"slices"
)

// SkewTracker counts the pods in the domains of a constraint while members are placed.
// PodTopologySpread keeps an eye on two domains when it is told of pods one by one, and
// would take a third for as full as these.
type SkewTracker struct {
	spread *spreadConstraint
	counts []int
	domain map[string]int
}

// SkewTrackers returns one for each constraint, before any member is placed.
func (s *Constraints) SkewTrackers() []SkewTracker {
	var all []SkewTracker
	for _, sp := range s.spreads {
		all = append(all, SkewTracker{spread: sp, counts: sp.counts(), domain: sp.domainOf()})
	}
	return all
}

// Allows says whether one more pod may come to a node.
func (sk SkewTracker) Allows(t Target) bool {
	d, counts := sk.domain[t.Node]
	if !counts || !slices.Contains(sk.spread.owners, t.Shape) {
		return true
	}
	lowest, is := slices.Min(sk.counts), sk.counts[d]
	if len(sk.counts) < sk.spread.minDomains {
		lowest = 0
	}
	if slices.Contains(sk.spread.counted, t.Shape) {
		is++
	}
	return is-lowest <= sk.spread.maxSkew
}

// Add takes note that one more pod has come to a node.
func (sk SkewTracker) Add(t Target) {
	if d, counts := sk.domain[t.Node]; counts && slices.Contains(sk.spread.counted, t.Shape) {
		sk.counts[d]++
	}
}
