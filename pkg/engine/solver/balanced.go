package solver

import (
	"cmp"
	"slices"
)

// placeBalanced searches for a plan of equal shares on as few domains as possible.
// With n slots on k domains, each domain gets n/k slots, and n%k of them get one more.
func (t *topologySearch) placeBalanced(order []int32, domains []*domain, level int) (*topologyPlacement, Outcome, Shortfall) {
	total := int64(0)
	for _, s := range t.shapes {
		total += s.Count.Min
	}
	result := Impossible
	for k := 1; k <= len(domains) && int64(k) <= total && !t.IsExhausted(); k++ {
		p, o := t.placeShares(domains, level, total, k)
		switch o {
		case Placed:
			return p.withCost(k), Placed, Shortfall{}
		case Unknown:
			result = Unknown
		case Impossible:
		}
	}
	// If the slots do not fit without the rule either, that is the reason to report.
	if _, o, failed := t.placeAnywhere(order); o != Placed {
		return nil, min(o, result), failed
	}
	return nil, result, t.balancedShortfall(domains, level, total)
}

// placeShares searches for a plan of equal shares on k domains.
func (t *topologySearch) placeShares(domains []*domain, level int, total int64, k int) (*topologyPlacement, Outcome) {
	s := &equalShares{topologySearch: t, level: &t.topology[level], quota: total / int64(k), result: Impossible}
	larger := int(total % int64(k))
	t.Spend(2 * len(domains))
	with := func(share int64) (able []*domain) {
		for _, d := range domains {
			if d.maxWantedSlots >= share {
				able = append(able, d)
			}
		}
		return able
	}
	if len(with(s.quota+1)) < larger {
		return nil, Impossible
	}
	if domains = with(s.quota); len(domains) < k {
		return nil, Impossible
	}
	if s.domains = domains; len(t.shapes) > 1 {
		// With several shapes, the domains with the most room come first: there the shapes are most
		// likely to fit together. This is one attempt, however many sets of domains there are.
		s.domains = slices.Clone(domains)
		slices.Reverse(s.domains)
		if s.guess(k, larger) {
			return s.found, Placed
		}
		s.domains = domains
	}
	switch {
	case s.enumerate(0, k-larger, larger):
		return s.found, Placed
	case t.budget < 0:
		return nil, Unknown
	}
	return nil, s.result
}

// An equalShares chooses domains and the number of slots for each of them.
type equalShares struct {
	*topologySearch
	domains []*domain
	level   *Level
	// quota is the number of slots of a plain share. A larger share has one more.
	quota  int64
	chosen []*domain
	// quotas has the quota of each domain in chosen.
	quotas []int64
	result Outcome
	found  *topologyPlacement
}

// guess gives the larger shares to the first domains that have room for
// them, and the plain shares to the next. It tries only this choice.
func (s *equalShares) guess(k, larger int) bool {
	s.chosen, s.quotas = nil, nil
	for _, part := range []struct {
		share int64
		n     int
	}{{s.quota + 1, larger}, {s.quota, k - larger}} {
		for _, d := range s.domains {
			if part.n == 0 {
				break
			}
			if !s.Charge(1 + len(s.chosen)/8) {
				return false
			}
			if d.maxWantedSlots >= part.share && !slices.Contains(s.chosen, d) {
				s.chosen, s.quotas = append(s.chosen, d), append(s.quotas, part.share)
				part.n--
			}
		}
		if part.n > 0 {
			return false
		}
	}
	ok := s.tryShares()
	s.chosen, s.quotas = nil, nil
	return ok
}

// enumerate tries all ways to give these numbers of plain
// and larger shares to the domains from index i on.
func (s *equalShares) enumerate(i, plain, larger int) bool {
	if plain+larger == 0 {
		return s.tryShares()
	}
	if s.budget--; s.budget < 0 || i+plain+larger > len(s.domains) {
		return false
	}
	d := s.domains[i]
	for _, more := range []int{1, 0} {
		quota := s.quota + int64(more)
		if more == 1 && larger == 0 || more == 0 && plain == 0 || d.maxWantedSlots < quota {
			continue
		}
		s.chosen, s.quotas = append(s.chosen, d), append(s.quotas, quota)
		if s.enumerate(i+1, plain-1+more, larger-more) {
			return true
		}
		s.chosen, s.quotas = s.chosen[:len(s.chosen)-1], s.quotas[:len(s.quotas)-1]
	}
	return s.enumerate(i+1, plain, larger)
}

// tryShares searches for a plan with the current quotas. It adds them as a limit to every shape.
func (s *equalShares) tryShares() bool {
	if !s.Charge(len(s.shapes) * len(s.chosen)) {
		s.result = Unknown
		return false
	}
	for i := range s.shapes {
		shape, room := &s.shapes[i], int64(0)
		for x, d := range s.chosen {
			room = SatAdd(room, min(d.room[i], s.quotas[x]))
		}
		if room < shape.Count.Min {
			return false
		}
	}
	whole, cells := *s.Layout, len(s.allowances)
	defer func() {
		*s.Layout = whole
		s.allowances, s.cellStamp = s.allowances[:cells], s.cellStamp[:cells]
	}()
	s.shapes = slices.Clone(s.shapes)
	for i := range s.shapes {
		shape := &s.shapes[i]
		shape.Limits = append(slices.Clone(shape.Limits), len(s.limits))
	}
	each := make([]int64, len(s.level.Names))
	for x, d := range s.chosen {
		each[d.vertex] = s.quotas[x]
	}
	s.limits = append(slices.Clip(s.limits), Limit{CellOf: s.level.DomainOf, Cells: int32(len(s.level.Names)), maxByCell: each})
	s.addCells(&s.limits[len(s.limits)-1])
	p, o, _ := s.placeAnywhere(s.union(s.chosen))
	switch o {
	case Placed:
		s.found = p
	case Unknown:
		s.result = Unknown
	case Impossible:
	}
	return o == Placed
}

// balancedShortfall returns how many slots fit in equal shares, judged by the room
// of each domain alone. It reports the last shape as the shape that does not fit.
func (t *topologySearch) balancedShortfall(domains []*domain, level int, total int64) Shortfall {
	last := len(t.shapes) - 1
	least := t.shapes[last].Count.Min
	byRoom := slices.Clone(domains)
	slices.SortStableFunc(byRoom, func(x, y *domain) int {
		return cmp.Or(cmp.Compare(y.maxWantedSlots, x.maxWantedSlots), cmp.Compare(x.vertex, y.vertex))
	})
	most, in := int64(0), (*domain)(nil)
	larger := 0
	for i, d := range byRoom {
		if i > 0 && d.maxWantedSlots < byRoom[i-1].maxWantedSlots {
			larger = i
		}
		if sum := d.maxWantedSlots*int64(i+1) + int64(larger); sum > most {
			if most, in = sum, nil; i == 0 {
				in = d
			}
		}
	}
	found := max(0, min(least-1, most-(total-least)))
	return Shortfall{Shape: last, Found: found, Level: t.topology[level].Type, domain: in}
}
