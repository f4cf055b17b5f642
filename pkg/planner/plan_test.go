package planner

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/flux-k8s/fluence/test/trials"
)

func TestPlanSaysWhatIsBooked(t *testing.T) {
	var p Plan
	p.Add(10, 20, 3)
	p.Add(15, 30, 4)
	p.Add(30, Forever, 4)
	cases := map[string]struct{ got, want int64 }{
		"before all":                       {p.At(9), 0},
		"at a start":                       {p.At(10), 3},
		"where two overlap":                {p.At(19), 7},
		"at an end":                        {p.At(20), 4},
		"where one ends as another begins": {p.At(30), 4},
		"long after":                       {p.At(Forever - 1), 4},
		"the peak of all":                  {p.Peak(0, Forever), 7},
		"the peak up to the overlap":       {p.Peak(0, 15), 3},
		"the peak after the overlap":       {p.Peak(20, Forever), 4},
		"the peak between two events":      {p.Peak(16, 17), 7},
		"the peak before all":              {p.Peak(0, 10), 0},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", name, tc.got, tc.want)
		}
	}
	for at, after := int64(0), 0; after < 5; after++ {
		next, ok := p.Next(at)
		if want := []int64{10, 15, 20, 30, 0}[after]; next != want || ok != (want > 0) {
			t.Errorf("Next(%d) = %d, %v, want %d", at, next, ok, want)
		}
		at = next
	}
}

func TestEarliestOfAPlan(t *testing.T) {
	var p Plan
	p.Add(10, 20, 3)
	p.Add(15, 30, 4)
	p.Add(40, Forever, 6)
	cases := map[string]struct {
		from, duration, amount int64
		want                   int64
		never                  bool
	}{
		"room at once":                            {from: 0, duration: 10, amount: 10, want: 0},
		"room at once beside others":              {from: 0, duration: Forever, amount: 3, want: 0},
		"the first booking is in the way":         {from: 0, duration: 16, amount: 5, want: 20},
		"the start of a stretch is no event":      {from: 21, duration: 9, amount: 6, want: 21},
		"too long for the gap before the last":    {from: 0, duration: 11, amount: 10, never: true},
		"just as long as the gap before the last": {from: 5, duration: 10, amount: 10, want: 30},
		"more than there is":                      {from: 0, duration: 1, amount: 11, never: true},
		"for ever beside the last":                {from: 0, duration: Forever, amount: 4, want: 20},
		"after all, for ever":                     {from: 50, duration: Forever, amount: 4, want: 50},
	}
	for name, tc := range cases {
		got, ok := p.Earliest(tc.from, tc.duration, tc.amount, 10)
		if ok == tc.never || ok && got != tc.want {
			t.Errorf("%s: Earliest(%d, %d, %d) = %d, %v", name, tc.from, tc.duration, tc.amount, got, ok)
		}
	}
}

func TestATimeIsAnEventForAsLongAsASpanBeginsOrEndsThere(t *testing.T) {
	var p Plan
	p.Add(1, 5, 2)
	p.Add(5, 9, 2)
	p.Remove(1, 5, 2)
	if next, ok := p.Next(1); next != 5 || !ok {
		t.Errorf("Next(1) = %d, %v after the span that ended at 5 went, want 5", next, ok)
	}
	p.Remove(5, 9, 2)
	if next, ok := p.Next(0); ok || !p.Empty() {
		t.Errorf("Next(0) = %d and Empty() = %v with nothing booked", next, p.Empty())
	}
}

func TestRemoveOfWhatWasNotAdded(t *testing.T) {
	cases := map[string]span{
		"no span begins there":                {2, 5, []int64{2}},
		"no span ends there":                  {1, 4, []int64{2}},
		"the span there is of another amount": {1, 5, []int64{3}},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Remove() did not panic")
				}
			}()
			var p Plan
			p.Add(1, 5, 2)
			p.Remove(s.start, s.end, s.amounts[0])
		})
	}
}

// checkNodes fails if a part does not describe the node below it, or if a node is too wide.
func checkNodes(t *testing.T, n *node, root bool) (depth int) {
	t.Helper()
	if size := n.size(); size > wide || size == 0 || len(n.steps) > 0 && len(n.parts) > 0 || len(n.parts) == 1 && root {
		t.Fatalf("a node of %d steps and %d parts", len(n.steps), len(n.parts))
	}
	for i, p := range n.parts {
		if p != partOf(p.node) {
			t.Fatalf("a part says %+v, its node %+v", p, partOf(p.node))
		}
		d := checkNodes(t, p.node, false)
		if i > 0 && d != depth {
			t.Fatalf("leaves %d and %d deep", depth, d)
		}
		depth = d
	}
	return depth + 1
}

func TestRandomBookingsOfAPlan(t *testing.T) {
	r := newRandom(t)
	deepest := 0
	for round := range trials.Count(27) {
		var p Plan
		var known record
		horizon := []int64{8, 100, 100_000}[round%3]
		most := []int{6, 60, 400}[round/3%3]
		for range 4 * most {
			if n := len(known.spans); n > 0 && (n > most || r.IntN(3) == 0) {
				at := r.IntN(n)
				s := known.spans[at]
				p.Remove(s.start, s.end, s.amounts[0])
				known.spans[at] = known.spans[n-1]
				known.spans = known.spans[:n-1]
			} else {
				s := randomSpan(r, horizon, 1)
				p.Add(s.start, s.end, s.amounts[0])
				known.spans = append(known.spans, s)
			}
			if p.root != nil {
				deepest = max(deepest, checkNodes(t, p.root, true))
			}
			checkPlan(t, r, &p, &known, horizon)
		}
		r.Shuffle(len(known.spans), func(i, j int) { known.spans[i], known.spans[j] = known.spans[j], known.spans[i] })
		for _, s := range known.spans {
			p.Remove(s.start, s.end, s.amounts[0])
		}
		if !p.Empty() {
			t.Fatal("a plan is not empty with nothing booked")
		}
	}
	if deepest < 2 {
		t.Errorf("no plan was deeper than %d", deepest)
	}
}

// checkPlan compares one answer of each kind, for random arguments, with the expected answer.
func checkPlan(t *testing.T, r *rand.Rand, p *Plan, known *record, horizon int64) {
	t.Helper()
	at := r.Int64N(2*horizon) - horizon/8
	if got, want := p.At(at), known.at(0, at); got != want {
		t.Fatalf("At(%d) = %d, want %d", at, got, want)
	}
	gotNext, gotOK := p.Next(at)
	if next, ok := known.next(at); gotNext != next || gotOK != ok {
		t.Fatalf("Next(%d) = %d, %v, want %d, %v", at, gotNext, gotOK, next, ok)
	}
	if p.Empty() != (len(known.spans) == 0) {
		t.Fatalf("Empty() = %v with %d spans", p.Empty(), len(known.spans))
	}
	if r.IntN(4) > 0 {
		return
	}
	end := at + 1 + r.Int64N(horizon)
	if r.IntN(4) == 0 {
		end = Forever
	}
	if got, want := p.Peak(at, end), known.peak(0, at, end); got != want {
		t.Fatalf("Peak(%d, %d) = %d, want %d", at, end, got, want)
	}
	if len(known.spans) > 60 && r.IntN(100) > 0 {
		return // the naive answer takes long
	}
	total := known.peak(0, 0, Forever) + r.Int64N(3)
	amount := r.Int64N(total + 2)
	duration := end - at
	if end == Forever {
		duration = Forever
	}
	got, gotOK := p.Earliest(at, duration, amount, total)
	if want, ok := known.earliest(at, duration, []int64{amount}, []int64{total}); got != want || gotOK != ok {
		t.Fatalf("Earliest(%d, %d, %d, %d) = %d, %v, want %d, %v", at, duration, amount, total, got, gotOK, want, ok)
	}
}

// A profile is the sum over time as a list: each element holds from its time up to the next.
type profile []step

// profileOf adds up spans.
func profileOf(spans []span) profile {
	changes := make(map[int64]int64)
	for _, s := range spans {
		changes[s.start] += s.amounts[0]
		if s.end < Forever {
			changes[s.end] -= s.amounts[0]
		}
	}
	var p profile
	sum := int64(0)
	for _, at := range slices.Sorted(maps.Keys(changes)) {
		sum += changes[at]
		p = append(p, step{at: at, change: sum})
	}
	return p
}

// peak returns the largest sum of the profile within [start, end).
func (p profile) peak(start, end int64) int64 {
	most := int64(0)
	for _, s := range p {
		switch {
		case s.at <= start:
			most = s.change
		case s.at < end:
			most = max(most, s.change)
		}
	}
	return most
}

// earliest goes through the profile once. It starts
// again after each time at which too little is free.
func (p profile) earliest(from, duration, limit int64) (int64, bool) {
	t, ok := from, p.peak(from, from+1) <= limit
	for _, s := range p {
		switch {
		case s.at <= from || ok && s.at >= later(t, duration):
		case s.change > limit:
			ok = false
		case !ok:
			t, ok = s.at, true
		}
	}
	return t, ok
}

// TestManyRandomBookings compares answers of plans that have several layers of nodes.
func TestManyRandomBookings(t *testing.T) {
	r := newRandom(t)
	var p Plan
	spans := make([]span, 8_000)
	for i := range spans {
		spans[i] = randomSpan(r, 1_000_000, 1)
		spans[i].end = min(spans[i].end, spans[i].start+1+r.Int64N(9000))
		p.Add(spans[i].start, spans[i].end, spans[i].amounts[0])
	}
	if depth := checkNodes(t, p.root, true); depth < 3 {
		t.Errorf("the plan is %d deep", depth)
	}
	for len(spans) > 0 {
		known := profileOf(spans)
		for range 50 {
			from := r.Int64N(1_000_000)
			duration := 1 + r.Int64N(10_000)
			limit := known.peak(0, Forever) - r.Int64N(40)
			if r.IntN(2) == 0 {
				limit = r.Int64N(limit + 41)
			}
			if got, want := p.Peak(from, from+duration), known.peak(from, from+duration); got != want {
				t.Fatalf("Peak(%d, %d) = %d, want %d", from, from+duration, got, want)
			}
			got, gotOK := p.Earliest(from, duration, 100, limit+100)
			if want, ok := known.earliest(from, duration, limit); gotOK != ok || ok && got != want {
				t.Fatalf("Earliest(%d, %d) within %d = %d, %v, want %d, %v", from, duration, limit, got, gotOK, want, ok)
			}
		}
		r.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		for range min(len(spans), 700) {
			s := spans[len(spans)-1]
			spans = spans[:len(spans)-1]
			p.Remove(s.start, s.end, s.amounts[0])
		}
		if p.root != nil {
			checkNodes(t, p.root, true)
		}
	}
	if !p.Empty() {
		t.Error("the plan is not empty")
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte{1, 5, 2, 5, 9, 2, 0x81, 0, 0})
	f.Add([]byte{0, 0, 0, 3, 255, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 600)]
		var p Plan
		var known record
		for ; len(data) >= 3; data = data[3:] {
			if n := len(known.spans); data[0]&0x80 != 0 && n > 0 {
				at := int(data[1]) % n
				s := known.spans[at]
				p.Remove(s.start, s.end, s.amounts[0])
				known.spans[at] = known.spans[n-1]
				known.spans = known.spans[:n-1]
				continue
			}
			s := span{start: int64(data[0]), end: int64(data[0]) + 1 + int64(data[1]), amounts: []int64{int64(data[2])}}
			if data[1] == 255 {
				s.end = Forever
			}
			p.Add(s.start, s.end, s.amounts[0])
			known.spans = append(known.spans, s)
			if got, want := p.Peak(s.start, s.end), known.peak(0, s.start, s.end); got != want {
				t.Fatalf("Peak(%d, %d) = %d, want %d", s.start, s.end, got, want)
			}
			total := 2 * s.amounts[0]
			got, gotOK := p.Earliest(s.start, 7, s.amounts[0], total)
			if want, ok := known.earliest(s.start, 7, s.amounts, []int64{total}); got != want || gotOK != ok {
				t.Fatalf("Earliest(%d, 7, %d, %d) = %d, %v, want %d, %v", s.start, s.amounts[0], total, got, gotOK, want, ok)
			}
		}
		for _, s := range known.spans {
			p.Remove(s.start, s.end, s.amounts[0])
		}
		if !p.Empty() {
			t.Error("a plan is not empty with nothing booked")
		}
	})
}

func TestPlansAreSmallAndAsksTakeNoMemory(t *testing.T) {
	if size := unsafe.Sizeof(Plan{}); size > 32 {
		t.Errorf("a plan takes %d bytes", size)
	}
	m := NewMulti([]int64{1 << 40, 1 << 40})
	p := &m.plans[0]
	for i := range int64(1000) {
		m.Add(i, 3*i+1, []int64{i, 1})
	}
	wanted := []int64{1 << 30, 1}
	if n := testing.AllocsPerRun(100, func() {
		p.Peak(7, 2000)
		p.At(99)
		p.Next(5)
		p.Earliest(5, 50, 1<<39, 1<<40)
		m.Free(1, 5, 500)
		m.Earliest(5, 500, wanted)
	}); n > 0 {
		t.Errorf("asking takes %v pieces of memory", n)
	}
}

func TestMemoryAfterAMillionSpans(t *testing.T) {
	r := newRandom(t)
	var p Plan
	before := heap()
	spans := make([]span, 0, 1000)
	for range 1000 {
		for range 1000 {
			start := r.Int64N(1 << 40)
			s := span{start: start, end: start + 1 + r.Int64N(1<<30)}
			p.Add(s.start, s.end, 1)
			spans = append(spans, s)
		}
		if len(spans) < 10_000 && r.IntN(4) > 0 {
			continue
		}
		for _, s := range spans {
			p.Remove(s.start, s.end, 1)
		}
		spans = spans[:0]
	}
	for _, s := range spans {
		p.Remove(s.start, s.end, 1)
	}
	spans = nil
	if after := heap(); after > before+64<<10 {
		t.Errorf("%d bytes are held with nothing booked", after-before)
	}
	if !p.Empty() {
		t.Error("the plan is not empty")
	}
}

// heap returns the size of the memory in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
