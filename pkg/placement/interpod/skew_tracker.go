package interpod

import (
	"slices"
)

// A SkewTracker counts the pods in the domains of a constraint while members are
// placed. PodTopologySpread tracks only the two lowest domains when pods are added
// one by one, so a third one may be lower without being noticed.
type SkewTracker struct {
	spread *spreadConstraint
	counts []int
	domain map[string]int
}

// SkewTrackers returns a tracker for each spread constraint, with the counts before
// any member is placed.
func (s *Constraints) SkewTrackers() []SkewTracker {
	var all []SkewTracker
	for _, sp := range s.spreads {
		all = append(all, SkewTracker{spread: sp, counts: sp.counts(), domain: sp.domainOf()})
	}
	return all
}

// Allows reports whether one more pod may go to a node.
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

// Add records that one more pod has gone to a node.
func (sk SkewTracker) Add(t Target) {
	if d, counts := sk.domain[t.Node]; counts && slices.Contains(sk.spread.counted, t.Shape) {
		sk.counts[d]++
	}
}
