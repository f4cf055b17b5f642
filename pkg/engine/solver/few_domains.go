package solver

import (
	"cmp"
	"slices"
)

// placeInOne looks for a plan in one domain: in the one that serves best, and
// where further aims tell plans apart, in the one where these are met best.
func (t *topologySearch) placeInOne(order []int32, domains []*domain, at int) (*plan, Outcome, Shortfall) {
	var best *plan
	result, least := Impossible, t.minCost(order, at+1)
	inner := make(map[*domain]Shortfall)
	want := t.wantedRoom()
	for _, d := range domains {
		if !d.mayHold(want) {
			continue
		}
		p, o, failed := t.placeLevels(d.order, at+1)
		switch o {
		case Placed:
			if p = p.withCost(1); p.isBetter(best) {
				best = p
			}
		case Unknown:
			result = Unknown
			inner[d] = failed
		case Impossible:
			inner[d] = failed
		}
		if best != nil && (slices.Equal(best.cost[1:], least) || t.budget < 0) || t.IsExhausted() {
			break
		}
	}
	if best != nil {
		return best, Placed, Shortfall{}
	}
	return nil, result, t.closestShortfall(domains, at, inner)
}

// closestShortfall names the domain that has room for most slots, and what it has room for.
// Inner is what failed in those that were looked into.
func (t *topologySearch) closestShortfall(domains []*domain, at int, inner map[*domain]Shortfall) Shortfall {
	best, most := Shortfall{Level: t.topology[at].Type}, int64(-1)
	given := make([]int, len(t.shapes))
	for i := range given {
		given[i] = i
	}
	byPath := slices.Clone(domains)
	slices.SortFunc(byPath, func(x, y *domain) int { return cmp.Compare(x.cell, y.cell) })
	for _, d := range byPath {
		if d.useful <= most {
			continue
		}
		if t.IsExhausted() {
			break
		}
		failed, ok := t.withNodes(d.order).greedy(t.view, given)
		if deep, tried := inner[d]; tried && (ok || deep.Level != "") {
			failed = deep
		}
		sum := failed.Found
		for _, s := range t.shapes[:failed.Shape] {
			sum += s.Count.Min
		}
		if sum > most {
			most, best = sum, failed
			best.Level, best.domain = t.topology[at].Type, d
			if failed.Level != "" {
				best.Level, best.domain = failed.Level, cmp.Or(failed.domain, d)
			}
		}
	}
	return best
}

// placeInFewest looks for a plan in as few domains as there can be. Where the budget does
// not last, it may be in more; and where there is room at all, there is a plan.
func (t *topologySearch) placeInFewest(order []int32, domains []*domain, at int) (*plan, Outcome, Shortfall) {
	least := t.minDomains(domains)
	if least >= len(domains) {
		return t.placeInAll(order, at)
	}
	var all *plan
	lower := t.minCost(order, at+1)
	for k := least; k < len(domains) && (all == nil || k < all.cost[0] && !t.IsExhausted()); k++ {
		var best *plan
		t.eachSet(domains, k, func(set []*domain) bool {
			p, o, _ := t.placeLevels(t.union(set), at+1)
			if o == Placed {
				if p = p.withCost(k); p.isBetter(best) {
					best = p
				}
			}
			return best == nil || !slices.Equal(best.cost[1:], lower)
		})
		if best != nil {
			return best, Placed, Shortfall{}
		}
		if all == nil {
			p, o, failed := t.placeInAll(order, at)
			if o != Placed {
				return nil, o, failed
			}
			all = p
		}
		if t.budget < 0 {
			k += k / 4
		}
	}
	return all, Placed, Shortfall{}
}

// placeInAll looks for a plan in all domains.
func (t *topologySearch) placeInAll(order []int32, at int) (*plan, Outcome, Shortfall) {
	p, o, failed := t.placeLevels(order, at+1)
	if o != Placed {
		return nil, o, failed
	}
	used := make(map[int32]bool)
	of := t.topology[at].DomainOf
	for _, r := range p.runs {
		used[of[r.Node]] = true
	}
	return p.withCost(len(used)), Placed, Shortfall{}
}

// minDomains bounds from below how many domains it takes.
func (t *topologySearch) minDomains(domains []*domain) int {
	least := 1
	rooms := make([]int64, len(domains))
	for s, want := range t.wantedRoom() {
		if !t.Charge(SortSteps * len(domains)) {
			break
		}
		for i, d := range domains {
			rooms[i] = d.room[s]
		}
		slices.SortFunc(rooms, func(x, y int64) int { return cmp.Compare(y, x) })
		k := 0
		for ; k < len(rooms) && want > 0; k++ {
			want -= rooms[k]
		}
		if want > 0 {
			return len(domains) + 1
		}
		least = max(least, k)
	}
	return least
}
