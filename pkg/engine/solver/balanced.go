package solver

import (
	"cmp"
	"slices"
)

// reachBalanced looks for a plan of equal shares on as few domains as there can be:
// with so many slots on so many domains, some have one more than the others.
func (t *quest) reachBalanced(order []int32, domains []*domain, at int) (*plan, Outcome, Shortfall) {
	total := int64(0)
	for _, s := range t.asked {
		total += s.Count.Min
	}
	result := Impossible
	for k := 1; k <= len(domains) && int64(k) <= total && !t.Spent(); k++ {
		p, o := t.reachShares(domains, at, total, k)
		switch o {
		case Placed:
			return p.with(k), Placed, Shortfall{}
		case Unknown:
			result = Unknown
		case Impossible:
		}
	}
	// Where the slots do not fit in any other way either, that is the reason.
	if _, o, failed := t.lay(order); o != Placed {
		return nil, min(o, result), failed
	}
	return nil, result, t.unbalanced(domains, at, total)
}

// reachShares looks for a plan of equal shares on k domains.
func (t *quest) reachShares(domains []*domain, at int, total int64, k int) (*plan, Outcome) {
	s := &sharing{quest: t, level: &t.aims[at], share: total / int64(k), result: Impossible}
	larger := int(total % int64(k))
	t.Owe(2 * len(domains))
	with := func(share int64) (able []*domain) {
		for _, d := range domains {
			if d.useful >= share {
				able = append(able, d)
			}
		}
		return able
	}
	if len(with(s.share+1)) < larger {
		return nil, Impossible
	}
	if domains = with(s.share); len(domains) < k {
		return nil, Impossible
	}
	if s.domains = domains; len(t.asked) > 1 {
		// The shapes fit together rather where there is most room, and this costs no
		// more however many ways there are.
		s.domains = slices.Clone(domains)
		slices.Reverse(s.domains)
		if s.guess(k, larger) {
			return s.found, Placed
		}
		s.domains = domains
	}
	switch {
	case s.deal(0, k-larger, larger):
		return s.found, Placed
	case t.budget < 0:
		return nil, Unknown
	}
	return nil, s.result
}

// A sharing deals shares to domains.
type sharing struct {
	*quest
	domains []*domain
	level   *Level
	share   int64
	dealt   []*domain
	quotas  []int64
	result  Outcome
	found   *plan
}

// guess deals the larger shares to the first domains that have room for one, then
// the others.
func (s *sharing) guess(k, larger int) bool {
	s.dealt, s.quotas = nil, nil
	for _, part := range []struct {
		share int64
		n     int
	}{{s.share + 1, larger}, {s.share, k - larger}} {
		for _, d := range s.domains {
			if part.n == 0 {
				break
			}
			if !s.Charge(1 + len(s.dealt)/8) {
				return false
			}
			if d.useful >= part.share && !slices.Contains(s.dealt, d) {
				s.dealt, s.quotas = append(s.dealt, d), append(s.quotas, part.share)
				part.n--
			}
		}
		if part.n > 0 {
			return false
		}
	}
	ok := s.lay()
	s.dealt, s.quotas = nil, nil
	return ok
}

// deal goes through all ways to deal so many shares to the domains from the one at i
// on.
func (s *sharing) deal(i, plain, larger int) bool {
	if plain+larger == 0 {
		return s.lay()
	}
	if s.budget--; s.budget < 0 || i+plain+larger > len(s.domains) {
		return false
	}
	d := s.domains[i]
	for _, more := range []int{1, 0} {
		quota := s.share + int64(more)
		if more == 1 && larger == 0 || more == 0 && plain == 0 || d.useful < quota {
			continue
		}
		s.dealt, s.quotas = append(s.dealt, d), append(s.quotas, quota)
		if s.deal(i+1, plain-1+more, larger-more) {
			return true
		}
		s.dealt, s.quotas = s.dealt[:len(s.dealt)-1], s.quotas[:len(s.quotas)-1]
	}
	return s.deal(i+1, plain, larger)
}

// lay looks for a plan of the shares as they are dealt.
func (s *sharing) lay() bool {
	if !s.Charge(len(s.asked) * len(s.dealt)) {
		s.result = Unknown
		return false
	}
	for i := range s.asked {
		shape, room := &s.asked[i], int64(0)
		for x, d := range s.dealt {
			room = Plus(room, min(d.room[i], s.quotas[x]))
		}
		if room < shape.Count.Min {
			return false
		}
	}
	whole, cells := *s.Layout, len(s.left)
	defer func() {
		*s.Layout = whole
		s.left, s.settled = s.left[:cells], s.settled[:cells]
	}()
	s.asked = slices.Clone(s.asked)
	for i := range s.asked {
		shape := &s.asked[i]
		shape.Limits = append(slices.Clone(shape.Limits), len(s.bounds))
	}
	each := make([]int64, len(s.level.Names))
	for x, d := range s.dealt {
		each[d.cell] = s.quotas[x]
	}
	s.bounds = append(slices.Clip(s.bounds), Limit{Of: s.level.Of, Cells: int32(len(s.level.Names)), each: each})
	s.addCells(&s.bounds[len(s.bounds)-1])
	p, o, _ := s.quest.lay(s.union(s.dealt))
	switch o {
	case Placed:
		s.found = p
	case Unknown:
		s.result = Unknown
	case Impossible:
	}
	return o == Placed
}

// unbalanced says how many slots fit in equal shares, by what each domain alone has
// room for.
func (t *quest) unbalanced(domains []*domain, at int, total int64) Shortfall {
	last := len(t.asked) - 1
	least := t.asked[last].Count.Min
	byRoom := slices.Clone(domains)
	slices.SortStableFunc(byRoom, func(x, y *domain) int {
		return cmp.Or(cmp.Compare(y.useful, x.useful), cmp.Compare(x.cell, y.cell))
	})
	most, in := int64(0), (*domain)(nil)
	larger := 0
	for i, d := range byRoom {
		if i > 0 && d.useful < byRoom[i-1].useful {
			larger = i
		}
		if sum := d.useful*int64(i+1) + int64(larger); sum > most {
			if most, in = sum, nil; i == 0 {
				in = d
			}
		}
	}
	found := max(0, min(least-1, most-(total-least)))
	return Shortfall{Shape: last, Found: found, Level: t.aims[at].Kind, in: in}
}
