package report

import (
	"fmt"
	"slices"
	"strings"
)

// A Row is how the sessions of a row are shown.
type Row struct {
	Name string
	// Against are the contenders that the speed of the others is compared with.
	Against []string
	// Beyond are pairs of contenders. What the first uses more than the second is shown by process.
	Beyond []Pair
	Goals  []Goal
}

// A Pair is two contenders that are compared.
type Pair struct{ Contender, Against string }

// A table is headings and cells.
type table struct {
	headings []string
	rows     [][]string
}

// A column is one figure of every contender.
type column struct {
	heading string
	measure Measure
	digits  int
}

// These are the columns of the tables: speeds and binds
// are how fast contenders were, costs are what they used.
var (
	speeds = []column{
		{"pods/s", Speed, 0},
		{"over all", SpeedOverAll, 0},
	}
	binds = []column{
		{"first bind, s", FirstBind, 2},
		{"last bind, s", LastBind, 1},
		{"gang p50, s", GangP50, 2},
		{"p99", GangP99, 2},
		{"worst", GangWorst, 2},
		{"in halves", Halves, 0},
	}
	costs = []column{
		{"scheduler, ms CPU a pod", CPU("scheduler", "binder"), 2},
		{"sidecar", CPU("sidecar"), 2},
		{"controller", CPU("controller"), 2},
		{"API server", CPU("apiserver"), 2},
		{"etcd", CPU("etcd"), 2},
		{"controller-manager", CPU("kcm"), 2},
		{"KWOK", CPU("kwok"), 2},
		{"bench", CPU("bench"), 2},
		{"quiet after, s", func(f Figures) (float64, bool) { return f.Quiet, f.Quiet > 0 }, 1},
		{"writes a pod", Writes, 2},
		{"429", TooMany, 0},
		{"memory, MB", PeakMemory, 0},
	}
)

// tables returns all tables of a session.
func (r Row) tables(s *Session) []table {
	out := []table{r.speed(s), figures(s, costs)}
	for _, t := range []table{r.beyond(s), streams(s), preemptions(s), arrivals(s)} {
		if len(t.rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// speed returns the table that compares the contenders.
func (r Row) speed(s *Session) table {
	columns := slices.Clone(speeds)
	t := figures(s, columns)
	for _, other := range r.Against {
		if len(s.all(other)) == 0 {
			continue
		}
		t.headings = append(t.headings, "to "+other)
		for i, name := range s.Contenders() {
			var ratios []float64
			for n := 1; n <= s.Repetitions(); n++ {
				if v, ok := s.Ratio(Speed, name, other, n); ok && name != other {
					ratios = append(ratios, v)
				}
			}
			t.rows[i] = append(t.rows[i], cell(ratios, 2))
		}
	}
	rest := figures(s, binds)
	t.headings = append(t.headings, rest.headings[1:]...)
	for i := range t.rows {
		t.rows[i] = append(t.rows[i], rest.rows[i][1:]...)
	}
	return t
}

// figures returns a table with a line for each contender. A cell has the
// median of its runs and, if they differ, the minimum and the maximum.
func figures(s *Session, columns []column) table {
	t := table{headings: []string{"contender"}}
	for _, c := range columns {
		t.headings = append(t.headings, c.heading)
	}
	for _, name := range s.Contenders() {
		line := []string{name + fate(s.all(name))}
		for _, c := range columns {
			var values []float64
			for _, f := range s.all(name) {
				if v, ok := c.measure(f); ok {
					values = append(values, v)
				}
			}
			line = append(line, cell(values, c.digits))
		}
		t.rows = append(t.rows, line)
	}
	return t
}

// fate returns remarks on a contender's runs, "" if there are none.
func fate(runs []Figures) string {
	count := map[string]int{}
	for _, f := range runs {
		if f.Outcome != AllBound {
			count[string(f.Outcome)]++
		}
		if f.Outcome == AllBound && f.Quiet == 0 {
			count["never quiet"]++
		}
		if f.Reopened > 0 {
			count["told late"]++
		}
	}
	var words []string
	for _, word := range sortedKeys(count) {
		words = append(words, fmt.Sprintf("%d of %d %s", count[word], len(runs), word))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// arrivals returns a table with a line for each arrival, by contender.
func arrivals(s *Session) table {
	columns := []struct {
		heading string
		of      func(Arrival) (float64, bool)
		digits  int
	}{
		{"pods bound before", func(a Arrival) (float64, bool) { return float64(a.Before), true }, 0},
		{"first bind, s", func(a Arrival) (float64, bool) { return a.First, a.First > 0 || a.whole() }, 2},
		{"last bind, s", func(a Arrival) (float64, bool) { return a.Last, a.whole() }, 2},
		{"pods bound after", func(a Arrival) (float64, bool) { return float64(a.After), a.whole() }, 0},
	}
	t := table{headings: []string{"contender", "what came"}}
	for _, c := range columns {
		t.headings = append(t.headings, c.heading)
	}
	for _, name := range s.Contenders() {
		came := map[string][]Arrival{}
		var order []string
		for _, f := range s.all(name) {
			for _, a := range f.Arrivals {
				if came[a.Name] == nil {
					order = append(order, a.Name)
				}
				came[a.Name] = append(came[a.Name], a)
			}
		}
		for _, what := range order {
			line := []string{name, what}
			for _, c := range columns {
				var values []float64
				for _, a := range came[what] {
					if v, ok := c.of(a); ok {
						values = append(values, v)
					}
				}
				line = append(line, cell(values, c.digits))
			}
			t.rows = append(t.rows, line)
		}
	}
	return t
}

// counted returns a table with a line for each kind of request, and a column for each contender.
func counted(s *Session, heading string, of func(Figures) map[string]float64, digits int) table {
	kinds := map[string]bool{}
	for _, r := range s.Results {
		for kind := range of(r.Figures) {
			kinds[kind] = true
		}
	}
	t := table{headings: append([]string{heading}, s.Contenders()...)}
	for _, kind := range sortedKeys(kinds) {
		line := []string{kind}
		for _, name := range s.Contenders() {
			var values []float64
			for _, f := range s.all(name) {
				values = append(values, of(f)[kind])
			}
			line = append(line, cell(values, digits))
		}
		t.rows = append(t.rows, line)
	}
	return t
}
