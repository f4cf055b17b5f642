package solver

import (
	"cmp"
	"slices"
)

// sets goes through the sets of k domains that may have room for all slots, the one
// that serves best by a quick guess first, until do says to stop or the budget is
// used up.
func (t *quest) sets(domains []*domain, k int, do func([]*domain) bool) {
	if set := t.fullest(domains, k); set != nil && !do(set) {
		return
	}
	if k > 1 && len(t.asked) > 1 {
		if !do(slices.Clone(domains[len(domains)-k:])) {
			return
		}
	}
	c := &choice{quest: t, domains: domains, do: do, want: t.wants()}
	c.tops = make([][]int64, len(c.want))
	for s := range c.tops {
		if c.tops[s] = t.tops(domains, s); c.tops[s] == nil {
			return
		}
	}
	c.choose(0, k)
}

// tops returns by number of domains the most room that so many have for a shape; nil where
// there are no steps left.
func (t *quest) tops(domains []*domain, s int) []int64 {
	if !t.Charge(SortSteps * len(domains)) {
		return nil
	}
	rooms := make([]int64, len(domains))
	for i, d := range domains {
		rooms[i] = d.room[s]
	}
	slices.SortFunc(rooms, func(x, y int64) int { return cmp.Compare(y, x) })
	sums := make([]int64, len(domains)+1)
	for i, n := range rooms {
		sums[i+1] = Plus(sums[i], n)
	}
	return sums
}

// fullest puts together a set of k domains: each is the first that leaves the rest
// to so many others as are still to come, were they the ones with the most room. It
// is nil where that comes to nothing.
func (t *quest) fullest(domains []*domain, k int) []*domain {
	left := slices.Clone(domains)
	var set []*domain
	want := t.wants()
	for ; k > 0; k-- {
		sums := make([][]int64, len(want))
		for s := range sums {
			if sums[s] = t.tops(left, s); sums[s] == nil {
				return nil
			}
		}
		at := slices.IndexFunc(left, func(d *domain) bool {
			for s, sum := range sums {
				// Where the domain is among those with the most room, the next
				// takes its place there.
				all := Plus(d.room[s], sum[k-1])
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
		if c.budget--; c.budget < 0 || !c.Charge(len(c.want)) {
			return false
		}
		d := c.domains[i]
		fits := true
		for s, want := range c.want {
			fits = fits && Plus(d.room[s], c.tops[s][k-1]) >= want
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
