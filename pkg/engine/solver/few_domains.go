package solver

import (
	"cmp"
	"slices"
)

// placeInOne searches for a plan in one domain. It returns the plan of the
// first domain, in order of preference, in which the slots fit. If there
// are more levels below, it returns the plan that is best on these levels.
func (t *topologySearch) placeInOne(order []int32, domains []*domain, level int) (*topologyPlacement, Outcome, Shortfall) {
	var best *topologyPlacement
	result, least := Impossible, t.minCost(order, level+1)
	inner := make(map[*domain]Shortfall)
	want := t.wantedRoom()
	for _, d := range domains {
		if !d.mayHold(want) {
			continue
		}
		p, o, failed := t.placeLevels(d.order, level+1)
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
	return nil, result, t.closestShortfall(domains, level, inner)
}

// closestShortfall returns the shortfall of the domain in which the most
// slots fit. inner has the shortfalls of the domains that were searched.
func (t *topologySearch) closestShortfall(domains []*domain, level int, inner map[*domain]Shortfall) Shortfall {
	best, most := Shortfall{Level: t.topology[level].Type}, int64(-1)
	jobspecOrder := make([]int, len(t.shapes))
	for i := range jobspecOrder {
		jobspecOrder[i] = i
	}
	byPath := slices.Clone(domains)
	slices.SortFunc(byPath, func(x, y *domain) int { return cmp.Compare(x.vertex, y.vertex) })
	for _, d := range byPath {
		if d.maxWantedSlots <= most {
			continue
		}
		if t.IsExhausted() {
			break
		}
		failed, ok := t.withNodes(d.order).greedy(t.view, jobspecOrder)
		if deep, tried := inner[d]; tried && (ok || deep.Level != "") {
			failed = deep
		}
		sum := failed.Found
		for _, s := range t.shapes[:failed.Shape] {
			sum += s.Count.Min
		}
		if sum > most {
			most, best = sum, failed
			best.Level, best.domain = t.topology[level].Type, d
			if failed.Level != "" {
				best.Level, best.domain = failed.Level, cmp.Or(failed.domain, d)
			}
		}
	}
	return best
}

// placeInFewest searches for a plan in as few domains as possible. If the
// budget does not last, the plan may use more domains. The rule of this level
// never makes a placement fail: in the worst case the plan uses all domains.
func (t *topologySearch) placeInFewest(order []int32, domains []*domain, level int) (*topologyPlacement, Outcome, Shortfall) {
	least := t.minDomains(domains)
	if least >= len(domains) {
		return t.placeInAll(order, level)
	}
	var all *topologyPlacement
	lower := t.minCost(order, level+1)
	for k := least; k < len(domains) && (all == nil || k < all.cost[0] && !t.IsExhausted()); k++ {
		var best *topologyPlacement
		t.eachSet(domains, k, func(set []*domain) bool {
			p, o, _ := t.placeLevels(t.union(set), level+1)
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
			p, o, failed := t.placeInAll(order, level)
			if o != Placed {
				return nil, o, failed
			}
			all = p
		}
		if t.budget < 0 {
			// The budget is used up. So only some larger numbers are tried, in steps of a quarter.
			k += k / 4
		}
	}
	return all, Placed, Shortfall{}
}

// placeInAll searches for a plan in all domains, and counts the domains that it uses.
func (t *topologySearch) placeInAll(order []int32, level int) (*topologyPlacement, Outcome, Shortfall) {
	p, o, failed := t.placeLevels(order, level+1)
	if o != Placed {
		return nil, o, failed
	}
	used := make(map[int32]bool)
	of := t.topology[level].DomainOf
	for _, r := range p.runs {
		used[of[r.Node]] = true
	}
	return p.withCost(len(used)), Placed, Shortfall{}
}

// minDomains returns a lower bound on the number of domains that are
// needed. It returns len(domains)+1 if all domains together are too small.
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
