package traverser

// evenSlots returns the number of slots that can be made of what was found. even is
// false if candidates of one type differ in what they offer; then n is not known.
func (f *frame) evenSlots(content *requests) (n int64, even bool) {
	n = -1
	for i := range content.list {
		r := &content.list[i]
		l := f.of(r.typ)
		if l.count > 0 && l.each < 0 {
			return 0, false
		}
		here := int64(0)
		if need := r.count.Floor(l.sum); need > 0 {
			here = l.count / ((need-1)/l.each + 1)
		}
		if n < 0 || here < n {
			n = here
		}
	}
	return max(0, n), true
}

// buildSlots makes as many slots as possible of the candidates that were found. Each slot
// takes whole candidates of each type, in the order of the policy, until it has enough.
func (a *attempt) buildSlots(v *visit, f *frame) {
	content := v.slot.with
	slots := int64(-1)
	for i := range content.list {
		r := &content.list[i]
		l := f.of(r.typ)
		a.sort(l, orderContent)
		n := l.bundles(r.count.Floor(l.sum))
		if slots < 0 || n < slots {
			slots = n
		}
	}
	taken := make([]int, len(content.list))
	for range max(0, slots) {
		c := candidate{score: 1, count: 1, at: v.u, by: v.next, slot: v.slot, exclusive: true}
		c.first = int32(len(a.members)) //nolint:gosec // fewer than vertices
		for i := range content.list {
			r := &content.list[i]
			l := f.of(r.typ)
			need := r.count.Floor(l.sum)
			for got := int64(0); got < need; taken[i]++ {
				m := &l.found[taken[i]]
				got += m.count
				c.score += m.score
				a.members = append(a.members, *m)
			}
		}
		c.last = int32(len(a.members)) //nolint:gosec // fewer than vertices
		l := f.of(typeSlot)
		l.note(1, 1)
		l.found = append(l.found, c)
	}
}

// bundles returns how often whole candidates, taken in order, add up to need.
func (l *list) bundles(need int64) int64 {
	if need == 0 {
		return 0
	}
	n, got := int64(0), int64(0)
	for i := range l.found {
		if got += l.found[i].count; got >= need {
			n++
			got = 0
		}
	}
	return n
}
