package trial

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

// halfway is how long a gang may take from its first bind to its last before it counts in Halves.
const halfway = 2 * time.Second

// measured is what was measured in one run.
type measured struct {
	plan     Plan
	outcome  report.Outcome
	why      string
	arrivals []report.Arrival

	// start is the contender's start. end is when the run was done or given up.
	start, end time.Time
	binds      map[string]time.Time // by the pod's name
	reopened   int                  // how often the watch of binds was broken off

	// contender and others are the processes whose CPU time counts.
	contender, others map[string]gauge.Process
	// before is the reading of others at the contender's
	// start. after is the reading of all processes at the end.
	before, after gauge.Reading
	// quiet reports whether all processes were quiet from after on.
	quiet    bool
	peaks    map[string]int64
	requests gauge.Requests
}

func (m *measured) figures() report.Figures {
	f := report.Figures{
		Outcome: m.outcome, Why: m.why, Arrivals: m.arrivals, Bound: len(m.binds), Reopened: m.reopened,
		CPU: map[string]float64{}, Peak: m.peaks,
		Writes: map[string]float64{}, Rejected: m.requests.Rejected, Dispatched: m.requests.Dispatched, TooMany: m.requests.TooMany,
	}
	if m.plan.size() > 1 {
		f.Gangs = m.gangs()
	}
	if f.Bound == 0 {
		return f
	}
	order := slices.SortedFunc(maps.Values(m.binds), time.Time.Compare)
	first, last := order[0], order[len(order)-1]
	f.FirstBind, f.LastBind = first.Sub(m.start).Seconds(), last.Sub(m.start).Seconds()
	f.PodsPerSecondAll = rate(order, 1, len(order))
	f.PodsPerSecond = rate(order, (m.plan.total()+9)/10, m.plan.total()*9/10)
	if m.quiet {
		f.Quiet = max(0, m.after.At.Sub(last).Seconds())
	}
	for name, used := range m.after.CPU {
		f.CPU[name] = float64(used-m.before.CPU[name]) / float64(time.Millisecond) / float64(f.Bound)
	}
	for name, n := range m.requests.Writes {
		f.Writes[name] = n / float64(f.Bound)
	}
	return f
}

// rate returns the binds in a second between two binds, which are given by their
// numbers, from 1. It returns 0 if there are no two such binds at different times.
func rate(order []time.Time, from, to int) float64 {
	if from < 1 || to <= from || to > len(order) {
		return 0
	}
	took := order[to-1].Sub(order[from-1]).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(to-from) / took
}

// gangs returns how long gangs took from their first bind to their last, arrivals included.
func (m *measured) gangs() *report.Gangs {
	var took []time.Duration
	g := &report.Gangs{}
	all := m.plan.gangs()
	for _, a := range m.plan.Arrivals {
		if a.Pods > 1 {
			all = append(all, m.plan.gang(a))
		}
	}
	for _, gang := range all {
		first, last, n := span(m.binds, gang.Pods)
		if n == 0 {
			continue
		}
		if n < len(gang.Pods) {
			last = m.end
		}
		took = append(took, last.Sub(first))
		if last.Sub(first) > halfway {
			g.Halves++
		}
	}
	slices.Sort(took)
	g.Count = len(took)
	g.P50, g.P99, g.Worst = rank(took, 0.5), rank(took, 0.99), rank(took, 1)
	return g
}

// rank returns a percentile of sorted values, in seconds.
func rank(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[max(0, i)].Seconds()
}
