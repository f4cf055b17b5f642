package engine

import "slices"

// A tryingAll is the state of trying all sets of units. All units that are not decided have gone.
type tryingAll struct {
	*displacer
	// taken are the units that are decided to go, and harm is theirs.
	taken []int32
	// bestHarm is the harm of the best set.
	bestHarm harm
}

// tryAll tries all sets of units. It leaves out sets that cannot be better than the best, and ends when no
// steps are left.
func (d *displacer) tryAll() {
	for _, u := range d.units {
		d.remove(u)
	}
	t := &tryingAll{displacer: d, bestHarm: d.scale.of(d.best)}
	t.decide(0, make(harm, d.scale.levels))
}

// decide decides about the units from index i on. so is the harm of the units that are taken.
func (t *tryingAll) decide(i int, so harm) {
	t.counter.Spend(len(so))
	if t.counter.IsExhausted() || slices.Compare(so, t.bestHarm) > 0 {
		return
	}

	// 1. Nothing better follows if the request fits with all others.
	for _, u := range t.units[i:] {
		t.putBack(u)
	}
	enough := t.fits()
	for _, u := range t.units[i:] {
		t.remove(u)
	}
	if enough {
		if t.keep(t.taken); !t.counter.IsExhausted() {
			t.bestHarm = t.scale.of(t.best)
		}
		return
	}
	if i == len(t.units) {
		return
	}

	// 2. Try first that the unit stays, because it is the most important one.
	u := t.units[i]
	t.putBack(u)
	if t.fits() {
		t.decide(i+1, so)
	}
	t.remove(u)

	// 3. Then try that it goes.
	more := slices.Clone(so)
	t.scale.add(more, u)
	t.taken = append(t.taken, u)
	t.decide(i+1, more)
	t.taken = t.taken[:len(t.taken)-1]
}
