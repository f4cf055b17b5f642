package fluence

import (
	"slices"
)

// skew counts the pods in the domains of a constraint while members are placed.
// PodTopologySpread keeps an eye on two domains when it is told of pods one by one, and
// would take a third for as full as these.
type skew struct {
	spread *spread
	counts []int
	domain map[string]int
}

// allows says whether one more pod may come to a node.
func (sk skew) allows(t target) bool {
	d, counts := sk.domain[t.node]
	if !counts || !slices.Contains(sk.spread.owners, t.shape) {
		return true
	}
	lowest, is := slices.Min(sk.counts), sk.counts[d]
	if len(sk.counts) < sk.spread.minDomains {
		lowest = 0
	}
	if slices.Contains(sk.spread.counted, t.shape) {
		is++
	}
	return is-lowest <= sk.spread.maxSkew
}

func (sk skew) add(t target) {
	if d, counts := sk.domain[t.node]; counts && slices.Contains(sk.spread.counted, t.shape) {
		sk.counts[d]++
	}
}
