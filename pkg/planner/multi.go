package planner

// A Multi is what is booked of several amounts, each span of all of them at once:
// what stands below a vertex of a graph, type by type.
type Multi struct {
	totals []int64
	// plans are of the amounts. The first has every span, also where it takes
	// nothing of that amount: it knows all times. The others have those that take
	// something.
	plans []Plan
}

// NewMulti returns a Multi of amounts with these totals and nothing booked.
func NewMulti(totals []int64) *Multi {
	return &Multi{
		totals: append([]int64(nil), totals...),
		plans:  make([]Plan, max(1, len(totals))),
	}
}

// Totals returns the totals, which the caller must not change.
func (m *Multi) Totals() []int64 { return m.totals }

// Add books amounts, one for each total and 0 or more, over [start, end). End has
// to be after start and may be Forever.
func (m *Multi) Add(start, end int64, amounts []int64) {
	m.plans[0].Add(start, end, first(amounts))
	for i := 1; i < len(amounts); i++ {
		if amounts[i] != 0 {
			m.plans[i].Add(start, end, amounts[i])
		}
	}
}

// Remove takes back what Add booked with the same arguments.
func (m *Multi) Remove(start, end int64, amounts []int64) {
	m.plans[0].Remove(start, end, first(amounts))
	for i := 1; i < len(amounts); i++ {
		if amounts[i] != 0 {
			m.plans[i].Remove(start, end, amounts[i])
		}
	}
}

// first returns the first of amounts, 0 where there are none.
func first(amounts []int64) int64 {
	if len(amounts) == 0 {
		return 0
	}
	return amounts[0]
}

// Peak returns the most that is booked of amount i at any time of [start, end).
func (m *Multi) Peak(i int, start, end int64) int64 { return m.plans[i].Peak(start, end) }

// Free returns how much of amount i is free all through [start, end): 0 where
// more than the total is booked.
func (m *Multi) Free(i int, start, end int64) int64 {
	return max(0, m.totals[i]-m.Peak(i, start, end))
}

// Empty says whether nothing is booked.
func (m *Multi) Empty() bool { return m.plans[0].Empty() }

// Next returns the first time after the given one at which a span begins or ends.
// It is false where there is none.
func (m *Multi) Next(after int64) (int64, bool) { return m.plans[0].Next(after) }

// Earliest returns the first time, from or an event after it, from which on
// everything wanted fits for the duration, which is more than 0 and may be
// Forever. It is false where there is none.
func (m *Multi) Earliest(from, duration int64, wanted []int64) (int64, bool) {
	for t := from; ; {
		was := t
		for i, w := range wanted {
			if w <= 0 {
				continue
			}
			var ok bool
			if t, ok = m.plans[i].Earliest(t, duration, w, m.totals[i]); !ok {
				return 0, false
			}
		}
		if t == was {
			return t, true
		}
	}
}
