package solver

import (
	"cmp"
	"slices"
)

// eachSet goes through the sets of k domains that may have room for all slots, the one
// that serves best by a quick guess first, until do says to stop or the budget is
// used up.
func (t *topologySearch) eachSet(domains []*domain, k int, do func([]*domain) bool) {
	if set := t.guessSet(domains, k); set != nil && !do(set) {
		return
	}
	if k > 1 && len(t.shapes) > 1 {
		if !do(slices.Clone(domains[len(domains)-k:])) {
			return
		}
	}
	c := &domainSets{topologySearch: t, domains: domains, do: do, want: t.wantedRoom()}
	c.topSums = make([][]int64, len(c.want))
	for s := range c.topSums {
		if c.topSums[s] = t.topSums(domains, s); c.topSums[s] == nil {
			return
		}
	}
	c.enumerate(0, k)
}

// topSums returns by number of domains the most room that so many have for a shape; nil where
// there are no steps left.
func (t *topologySearch) topSums(domains []*domain, s int) []int64 {
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
		sums[i+1] = SatAdd(sums[i], n)
	}
	return sums
}

// guessSet puts together a set of k domains: each is the first that leaves the rest
// to so many others as are still to come, were they the ones with the most room. It
// is nil where that comes to nothing.
func (t *topologySearch) guessSet(domains []*domain, k int) []*domain {
	left := slices.Clone(domains)
	var set []*domain
	want := t.wantedRoom()
	for ; k > 0; k-- {
		sums := make([][]int64, len(want))
		for s := range sums {
			if sums[s] = t.topSums(left, s); sums[s] == nil {
				return nil
			}
		}
		at := slices.IndexFunc(left, func(d *domain) bool {
			for s, sum := range sums {
				// Where the domain is among those with the most room, the next
				// takes its place there.
				all := SatAdd(d.room[s], sum[k-1])
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
type domainSets struct {
	*topologySearch
	domains []*domain
	topSums [][]int64 // by room
	want    []int64   // what is still to be found room for
	set     []*domain
	do      func([]*domain) bool
}

// enumerate takes k more domains, from the one at i on. It is false once there is
// nothing more to be done.
func (c *domainSets) enumerate(i, k int) bool {
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
			fits = fits && SatAdd(d.room[s], c.topSums[s][k-1]) >= want
		}
		if !fits {
			continue
		}
		c.addRoom(d, -1)
		c.set = append(c.set, d)
		if !c.enumerate(i+1, k-1) {
			return false
		}
		c.set = c.set[:len(c.set)-1]
		c.addRoom(d, 1)
	}
	return true
}

// addRoom takes what a domain has room for off what is wanted, or puts it back.
func (c *domainSets) addRoom(d *domain, sign int64) {
	for s, n := range d.room {
		c.want[s] += sign * n
	}
}
