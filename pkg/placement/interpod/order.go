package interpod

import (
	"cmp"
	"fmt"
	"slices"
)

// Order returns the indices of slots in the order in which kube-scheduler would place their
// pods. At each step it takes a slot in the lowest domains of the spread constraints.
// Constraints with few domains, such as zones, are compared before constraints with many. A
// match lists its slots node by node. In that order, a round of the verification would
// accept only about one slot in each domain, because of the spread constraints.
func (s *Constraints) Order(slots []Target) []int {
	spreads := slices.SortedStableFunc(slices.Values(s.spreads), func(a, b *spreadConstraint) int { return cmp.Compare(len(a.domains), len(b.domains)) })
	classes := classesOf(spreads, slots)
	counts := make([][]int, len(spreads))
	for x, sp := range spreads {
		counts[x] = sp.counts()
	}
	order := make([]int, 0, len(slots))
	for len(order) < len(slots) {
		next := classes[0]
		for _, c := range classes[1:] {
			if c.isEmptier(next, counts) {
				next = c
			}
		}
		for x, d := range next.domains {
			if d >= 0 {
				counts[x][d]++
			}
		}
		order = append(order, next.slots[0])
		if next.slots = next.slots[1:]; len(next.slots) == 0 {
			classes = slices.DeleteFunc(classes, func(c *slotClass) bool { return c == next })
		}
	}
	return order
}

// A slotClass is the slots that are in the same domains.
type slotClass struct {
	// domains has the index of the domain for each constraint. It is -1 if the
	// constraint does not count the slots, or if they are in no domain.
	domains []int
	slots   []int
}

// isEmptier reports whether c is in lower domains than another class, constraint by constraint.
func (c *slotClass) isEmptier(than *slotClass, counts [][]int) bool {
	for x, d := range c.domains {
		is, other := 0, 0
		if d >= 0 {
			is = counts[x][d]
		}
		if o := than.domains[x]; o >= 0 {
			other = counts[x][o]
		}
		if is != other {
			return is < other
		}
	}
	return false
}

// classesOf groups slots into classes.
func classesOf(spreads []*spreadConstraint, slots []Target) []*slotClass {
	at := make([]map[string]int, len(spreads))
	for x, sp := range spreads {
		at[x] = sp.domainOf()
	}
	known := map[string]*slotClass{}
	var all []*slotClass
	for i, t := range slots {
		domains := make([]int, len(spreads))
		for x, sp := range spreads {
			d, there := at[x][t.Node]
			if !there || !slices.Contains(sp.counted, t.Shape) {
				d = -1
			}
			domains[x] = d
		}
		name := fmt.Sprint(domains)
		if known[name] == nil {
			known[name] = &slotClass{domains: domains}
			all = append(all, known[name])
		}
		known[name].slots = append(known[name].slots, i)
	}
	return all
}
