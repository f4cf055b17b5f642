package engine

import (
	"cmp"
	"slices"
)

// reachTogether looks for a plan in one domain: in the one that serves best, and
// where further aims tell plans apart, in the one where these are met best.
func (t *quest) reachTogether(order []int32, domains []*domain, at int) (*plan, outcome, shortfall) {
	var best *plan
	result, least := impossible, t.least(order, at+1)
	inner := make(map[*domain]shortfall)
	want := t.ask.wants()
	for _, d := range domains {
		if !d.serves(want) {
			continue
		}
		p, o, failed := t.reach(d.order, at+1)
		switch o {
		case placed:
			if p = p.with(1); p.better(best) {
				best = p
			}
		case unknown:
			result = unknown
			inner[d] = failed
		case impossible:
			inner[d] = failed
		}
		if best != nil && (slices.Equal(best.cost[1:], least) || t.budget < 0) {
			break
		}
	}
	if best != nil {
		return best, placed, shortfall{}
	}
	return nil, result, t.closest(domains, at, inner)
}

// closest names the domain that has room for most slots, and what it has room for.
// Inner is what failed in those that were looked into.
func (t *quest) closest(domains []*domain, at int, inner map[*domain]shortfall) shortfall {
	best, most := shortfall{level: t.aims[at].kind}, int64(-1)
	given := make([]int, len(t.ask.shapes))
	for i := range given {
		given[i] = i
	}
	byPath := slices.Clone(domains)
	slices.SortFunc(byPath, func(x, y *domain) int { return cmp.Compare(x.cell, y.cell) })
	for _, d := range byPath {
		if d.useful <= most {
			continue
		}
		failed, ok := t.on(d.order).greedy(t.view, given)
		if deep, tried := inner[d]; tried && (ok || deep.level != "") {
			failed = deep
		}
		sum := failed.found
		for _, s := range t.ask.shapes[:failed.shape] {
			sum += s.count.Min
		}
		if sum > most {
			most, best = sum, failed
			best.level, best.in = t.aims[at].kind, d
			if failed.level != "" {
				best.level, best.in = failed.level, cmp.Or(failed.in, d)
			}
		}
	}
	return best
}

// reachFew looks for a plan in as few domains as there can be. Where the budget does
// not last, it may be in more; and where there is room at all, there is a plan.
func (t *quest) reachFew(order []int32, domains []*domain, at int) (*plan, outcome, shortfall) {
	least := t.leastDomains(domains)
	if least >= len(domains) {
		return t.reachAll(order, at)
	}
	var all *plan
	lower := t.least(order, at+1)
	for k := least; k < len(domains) && (all == nil || k < all.cost[0]); k++ {
		var best *plan
		t.sets(domains, k, func(set []*domain) bool {
			p, o, _ := t.reach(t.union(set), at+1)
			if o == placed {
				if p = p.with(k); p.better(best) {
					best = p
				}
			}
			return best == nil || !slices.Equal(best.cost[1:], lower)
		})
		if best != nil {
			return best, placed, shortfall{}
		}
		if all == nil {
			p, o, failed := t.reachAll(order, at)
			if o != placed {
				return nil, o, failed
			}
			all = p
		}
		if t.budget < 0 {
			k += k / 4
		}
	}
	return all, placed, shortfall{}
}

// reachAll looks for a plan in all domains.
func (t *quest) reachAll(order []int32, at int) (*plan, outcome, shortfall) {
	p, o, failed := t.reach(order, at+1)
	if o != placed {
		return nil, o, failed
	}
	used := make(map[int32]bool)
	of := t.graph.partition(t.aims[at].kind).of
	for _, r := range p.runs {
		used[of[r.node]] = true
	}
	return p.with(len(used)), placed, shortfall{}
}

// leastDomains bounds from below how many domains it takes.
func (t *quest) leastDomains(domains []*domain) int {
	least := 1
	rooms := make([]int64, len(domains))
	for s, want := range t.ask.wants() {
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

// sets goes through the sets of k domains that may have room for all slots, the one
// that serves best by a quick guess first, until do says to stop or the budget is
// used up.
func (t *quest) sets(domains []*domain, k int, do func([]*domain) bool) {
	if set := t.fullest(domains, k); set != nil && !do(set) {
		return
	}
	if k > 1 && len(t.ask.shapes) > 1 {
		if !do(slices.Clone(domains[len(domains)-k:])) {
			return
		}
	}
	c := &choice{quest: t, domains: domains, do: do, want: t.ask.wants()}
	c.tops = make([][]int64, len(c.want))
	for s := range c.tops {
		c.tops[s] = tops(domains, s)
	}
	c.choose(0, k)
}

// tops returns by number of domains the most room that so many have for a shape.
func tops(domains []*domain, s int) []int64 {
	rooms := make([]int64, len(domains))
	for i, d := range domains {
		rooms[i] = d.room[s]
	}
	slices.SortFunc(rooms, func(x, y int64) int { return cmp.Compare(y, x) })
	sums := make([]int64, len(domains)+1)
	for i, n := range rooms {
		sums[i+1] = plus(sums[i], n)
	}
	return sums
}

// fullest puts together a set of k domains: each is the first that leaves the rest
// to so many others as are still to come, were they the ones with the most room. It
// is nil where that comes to nothing.
func (t *quest) fullest(domains []*domain, k int) []*domain {
	left := slices.Clone(domains)
	var set []*domain
	want := t.ask.wants()
	for ; k > 0; k-- {
		sums := make([][]int64, len(want))
		for s := range sums {
			sums[s] = tops(left, s)
		}
		at := slices.IndexFunc(left, func(d *domain) bool {
			for s, sum := range sums {
				// Where the domain is among those with the most room, the next
				// takes its place there.
				all := plus(d.room[s], sum[k-1])
				if last := sum[k-1] - sum[max(0, k-2)]; k > 1 && d.room[s] >= last {
					all = sum[k]
				}
				if all < want[s] {
					return false
				}
			}
			return true
		})
		if at < 0 {
			return nil
		}
		for s := range want {
			want[s] -= left[at].room[s]
		}
		set = append(set, left[at])
		left = slices.Delete(left, at, at+1)
	}
	return set
}

// A choice goes through sets of domains.
type choice struct {
	*quest
	domains []*domain
	tops    [][]int64 // by room
	want    []int64   // what is still to be found room for
	set     []*domain
	do      func([]*domain) bool
}

// choose takes k more domains, from the one at i on. It is false once there is
// nothing more to be done.
func (c *choice) choose(i, k int) bool {
	if k == 0 {
		return c.do(slices.Clone(c.set))
	}
	for ; i+k <= len(c.domains); i++ {
		if c.budget--; c.budget < 0 {
			return false
		}
		d := c.domains[i]
		fits := true
		for s, want := range c.want {
			fits = fits && plus(d.room[s], c.tops[s][k-1]) >= want
		}
		if !fits {
			continue
		}
		c.move(d, -1)
		c.set = append(c.set, d)
		if !c.choose(i+1, k-1) {
			return false
		}
		c.set = c.set[:len(c.set)-1]
		c.move(d, 1)
	}
	return true
}

// move takes what a domain has room for off what is wanted, or puts it back.
func (c *choice) move(d *domain, sign int64) {
	for s, n := range d.room {
		c.want[s] += sign * n
	}
}
