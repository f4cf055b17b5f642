package planner

import (
	"testing"

	"github.com/flux-k8s/fluence/test/trials"
)

// fits reports whether the wanted amounts are free throughout [start, end).
func fits(m *Multi, start, end int64, wanted []int64) bool {
	for i, w := range wanted {
		if w > 0 && m.Free(i, start, end) < w {
			return false
		}
	}
	return true
}

func TestMultiBooksSeveralAmountsTogether(t *testing.T) {
	m := NewMulti([]int64{10, 4})
	m.Add(0, 10, []int64{8, 0})
	m.Add(5, 20, []int64{0, 3})
	cases := map[string]struct {
		start, end int64
		wanted     []int64
		want       bool
	}{
		"beside the first":                    {0, 5, []int64{2, 4}, true},
		"one amount too much":                 {0, 5, []int64{3, 4}, false},
		"the other amount too much":           {0, 6, []int64{2, 2}, false},
		"after the first, beside the second":  {10, 20, []int64{10, 1}, true},
		"after all":                           {20, Forever, []int64{10, 4}, true},
		"more than there is":                  {20, Forever, []int64{11, 0}, false},
		"what is not wanted stands in no way": {0, Forever, []int64{0, 1}, true},
	}
	for name, tc := range cases {
		if got := fits(m, tc.start, tc.end, tc.wanted); got != tc.want {
			t.Errorf("%s: from %d to %d there is room for %v: %v", name, tc.start, tc.end, tc.wanted, got)
		}
	}
	if at, ok := m.Earliest(0, 5, []int64{3, 2}); at != 20 || !ok {
		t.Errorf("Earliest() = %d, %v, want 20: the one ends at 10, the other at 20", at, ok)
	}
	if _, ok := m.Earliest(0, 5, []int64{3, 5}); ok {
		t.Error("Earliest() found more than there is")
	}
	m = NewMulti([]int64{10, 2})
	m.Add(5, 20, []int64{0, 3})
	if free := m.Free(1, 5, 6); free != 0 || m.Totals()[1] != 2 {
		t.Errorf("Free() = %d of a total less than what is booked, Totals() = %v", free, m.Totals())
	}
}

func TestMultiKnowsTheTimesOfSpansThatTakeNothing(t *testing.T) {
	for name, m := range map[string]*Multi{"of none": NewMulti(nil), "of two": NewMulti([]int64{1, 1})} {
		m.Add(3, 7, make([]int64, len(m.Totals())))
		if at, ok := m.Next(3); at != 7 || !ok || m.Empty() {
			t.Errorf("%s: Next(3) = %d, %v and Empty() = %v", name, at, ok, m.Empty())
		}
		m.Remove(3, 7, make([]int64, len(m.Totals())))
		if _, ok := m.Next(0); ok || !m.Empty() {
			t.Errorf("%s: something is left", name)
		}
	}
}

func TestRandomBookingsOfAMulti(t *testing.T) {
	r := newRandom(t)
	for round := range trials.Count(100) {
		totals := []int64{r.Int64N(30), r.Int64N(30), r.Int64N(30)}
		m := NewMulti(totals)
		var known record
		horizon := []int64{8, 1000}[round%2]
		for range 60 {
			if n := len(known.spans); n > 0 && r.IntN(3) == 0 {
				at := r.IntN(n)
				m.Remove(known.spans[at].start, known.spans[at].end, known.spans[at].amounts)
				known.spans[at] = known.spans[n-1]
				known.spans = known.spans[:n-1]
			} else {
				s := randomSpan(r, horizon, len(totals))
				m.Add(s.start, s.end, s.amounts)
				known.spans = append(known.spans, s)
			}
			from, duration := r.Int64N(horizon), 1+r.Int64N(horizon)
			wanted := []int64{1 + r.Int64N(20), 1 + r.Int64N(20), 1 + r.Int64N(20)}
			for i := range totals {
				if got, want := m.Peak(i, from, from+duration), known.peak(i, from, from+duration); got != want {
					t.Fatalf("Peak(%d, %d, %d) = %d, want %d", i, from, from+duration, got, want)
				}
			}
			got, gotOK := m.Earliest(from, duration, wanted)
			want, ok := known.earliest(from, duration, wanted, totals)
			if got != want || gotOK != ok {
				t.Fatalf("Earliest(%d, %d, %v) = %d, %v, want %d, %v", from, duration, wanted, got, gotOK, want, ok)
			}
			if fits := fits(m, from, from+duration, wanted); fits != (ok && want == from) {
				t.Fatalf("from %d to %d there is room for %v: %v, earliest at %d, %v", from, from+duration, wanted, fits, want, ok)
			}
			gotNext, gotOK := m.Next(from)
			if next, ok := known.next(from); gotNext != next || gotOK != ok {
				t.Fatalf("Next(%d) = %d, %v, want %d, %v", from, gotNext, gotOK, next, ok)
			}
		}
	}
}
