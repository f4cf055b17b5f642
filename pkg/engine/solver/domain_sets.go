package solver

import (
	"cmp"
	"slices"
)

// eachSet calls do for the sets of k domains that may have room for all slots.
// Promising sets come first: a greedy guess, and for several shapes the domains
// with the most room. eachSet ends when do returns false or the budget is used up.
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

// topSums returns prefix sums: element n is the total room with index s of the n
// domains that have the most of it. It returns nil if there are too few steps left.
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

// guessSet returns a set of k domains that it chooses greedily. In each step it takes the first
// domain with which the set can still be completed: its room and the room of the k-1 roomiest
// other domains cover what is still wanted. It returns nil if there is no such domain.
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
				// If the domain itself is one of the k-1 with the most room, sum[k-1] includes
				// it already. Then the domain with the next most room counts in its place.
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

// A domainSets enumerates sets of domains, depth first.
type domainSets struct {
	*topologySearch
	domains []*domain
	topSums [][]int64 // by index of the room
	want    []int64   // what the domains of set do not cover yet
	set     []*domain
	do      func([]*domain) bool
}

// enumerate adds k more domains, with indexes from i on, to the set. It calls
// do for each complete set. It returns false if the enumeration is to end.
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

// addRoom adds sign times the room of a domain to want. sign
// is -1 when the domain joins the set, and 1 when it leaves.
func (c *domainSets) addRoom(d *domain, sign int64) {
	for s, n := range d.room {
		c.want[s] += sign * n
	}
}
