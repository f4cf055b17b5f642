package report

import "slices"

// A share is a part of the machine's time, by the processes that used it.
type share struct {
	heading   string
	processes []string
}

// shares are the parts of the machine's time that are shown, without the rest.
func shares() []share {
	return []share{
		{"scheduler", []string{"scheduler", "binder"}},
		{"sidecar", []string{"sidecar"}},
		{"controller", []string{"controller"}},
		{"API server", []string{"apiserver"}},
		{"etcd", []string{"etcd"}},
		{"controller-manager", []string{"kcm"}},
		{"KWOK", []string{"kwok"}},
		{"bench", []string{"bench"}},
	}
}

// beyond returns a table of the time for each pod that a contender takes until the last bind beyond
// another one. It is the time of all cores, so that the processes and the rest add up to it.
func (r Row) beyond(s *Session) table {
	t := table{headings: []string{"until the last bind, ms of all cores a pod", "all"}}
	for _, p := range shares() {
		t.headings = append(t.headings, p.heading)
	}
	t.headings = append(t.headings, "others, and idle")
	for _, pair := range r.Beyond {
		var lines [][]float64 // by repetition
		for n := 1; n <= s.Repetitions(); n++ {
			of, okOf := s.parts(pair.Contender, n)
			less, okLess := s.parts(pair.Against, n)
			if !okOf || !okLess {
				continue
			}
			line := make([]float64, len(of))
			for i := range of {
				line[i] = of[i] - less[i]
			}
			lines = append(lines, line)
		}
		if len(lines) == 0 {
			continue
		}
		cells := []string{pair.Contender + ", beyond " + pair.Against}
		for i := range lines[0] {
			var values []float64
			for _, line := range lines {
				values = append(values, line[i])
			}
			cells = append(cells, cell(values, 2))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// parts returns the milliseconds of all cores for each pod until the last bind in
// a repetition: all of them, the shares of processes, and the rest. For a bracket
// they are the means of its two runs. There are none unless all pods were bound.
func (s *Session) parts(contender string, repetition int) ([]float64, bool) {
	measures := []Measure{func(f Figures) (float64, bool) {
		ok := f.Outcome == AllBound && len(f.BindingCPU) > 0
		return f.LastBind * 1000 * float64(s.Results[0].Cores) / float64(max(1, f.Bound)), ok
	}}
	for _, p := range shares() {
		measures = append(measures, func(f Figures) (float64, bool) {
			sum, _ := sumOf(f.BindingCPU, p.processes) // a contender need not have a sidecar
			return sum, f.Outcome == AllBound
		})
	}
	var out []float64
	for _, m := range measures {
		v, ok := s.Value(m, contender, repetition)
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	rest := out[0]
	for _, v := range out[1:] {
		rest -= v
	}
	return append(out, rest), true
}

// streams returns a table with a line for each contender whose gangs came in a stream.
func streams(s *Session) table {
	columns := []column{
		{"highest rate, gangs/s", stream(func(s Stream) float64 { return s.Highest }), 1},
		{"rate", stream(func(s Stream) float64 { return s.Rate }), 1},
		{"gangs", stream(func(s Stream) float64 { return float64(s.Gangs) }), 0},
		{"last pod to last bind p50, s", StreamP50, 3},
		{"p99", StreamP99, 3},
		{"worst", stream(func(s Stream) float64 { return s.Worst }), 3},
	}
	return existing(s, columns)
}

// preemptions returns a table with a line for each contender whose gangs evicted others.
func preemptions(s *Session) table {
	return existing(s, []column{
		{"evicted pods", Victims, 0},
		{"last pod of the first gang to first end, s", FirstVictim, 3},
		{"to last end", LastVictim, 3},
		{"to last bind", preemption(func(p Preemption) float64 { return p.Bound }), 3},
	})
}

// existing returns a table of the contenders that have a value in its first column.
func existing(s *Session, columns []column) table {
	t := figures(s, columns)
	t.rows = slices.DeleteFunc(t.rows, func(cells []string) bool { return cells[1] == "-" })
	return t
}
