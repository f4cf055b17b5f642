package planner

// A Multi has the bookings of several amounts, where each booking takes of all amounts
// at once. The amounts are those below a vertex of a graph, one for each type.
type Multi struct {
	totals []int64
	// plans has one plan for each amount. The first plan has every booking, even
	// a booking that takes nothing of the first amount, so it knows all events.
	// Each other plan has the bookings that take something of its amount.
	plans []Plan
}

// NewMulti returns a Multi with these totals and nothing booked.
func NewMulti(totals []int64) *Multi {
	return &Multi{
		totals: append([]int64(nil), totals...),
		plans:  make([]Plan, max(1, len(totals))),
	}
}

// Totals returns the total of each amount. The caller must not change the slice.
func (m *Multi) Totals() []int64 { return m.totals }

// Add books amounts over [start, end), one for each total. No amount
// may be negative. The end must be after the start, and may be Forever.
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

// first returns the first of the amounts; 0 if there are none.
func first(amounts []int64) int64 {
	if len(amounts) == 0 {
		return 0
	}
	return amounts[0]
}

// Peak returns the largest part of amount i that is booked at any time of [start, end).
func (m *Multi) Peak(i int, start, end int64) int64 { return m.plans[i].Peak(start, end) }

// Free returns how much of amount i is free throughout [start,
// end). It returns 0 if more than the total is booked.
func (m *Multi) Free(i int, start, end int64) int64 {
	return max(0, m.totals[i]-m.Peak(i, start, end))
}

// Empty reports whether nothing is booked.
func (m *Multi) Empty() bool { return m.plans[0].Empty() }

// Next returns the first event after the given time. It returns false if there is none.
func (m *Multi) Next(after int64) (int64, bool) { return m.plans[0].Next(after) }

// Earliest returns the first time from which all wanted amounts are free for the
// duration. The time is from or an event after it. The duration must be more
// than 0, and may be Forever. Earliest returns false if there is no such time.
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
