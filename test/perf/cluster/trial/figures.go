package trial

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
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

	// gangs holds the gangs of the backlog and the arrivals. total is the number of pods to be bound.
	gangs []backlog.Gang
	total int
	// stream has the gangs of a stream, in place of a backlog, and nil
	// before it begins. highest is the rate that its own is a share of.
	stream  *phase
	highest float64
	// preempting is what was measured of evictions.
	preempting preempting

	// start is the contender's start, or when the room is
	// made or the stream begins. end is when the run was done or given up.
	start, end time.Time
	binds      map[string]time.Time // by the pod's name
	// reopened is how often the watch of binds was broken off
	// since start, and reopenedBefore how often before it.
	reopened, reopenedBefore int

	// contender and others are the processes whose CPU time counts.
	contender, others map[string]gauge.Process
	// before is the reading of the processes at start. atEnd
	// is the reading at end, and after the one when all are quiet.
	before, atEnd, after gauge.Reading
	// quiet reports whether all processes were quiet from after on.
	quiet bool
	peaks map[string]int64
	// requestsBefore are the requests until start, and requests those after it.
	requestsBefore, requests gauge.Requests
}

func newMeasured(plan Plan, others map[string]gauge.Process) *measured {
	m := &measured{plan: plan, others: others, total: plan.total()}
	if plan.Stream == nil {
		m.gangs = plan.gangs()
	}
	for _, a := range plan.Arrivals {
		m.gangs = append(m.gangs, plan.gang(a))
	}
	return m
}

// counted returns the binds that count: those of the stream if
// there is one, without those of the search before it.
func (m *measured) counted(all map[string]time.Time) map[string]time.Time {
	if m.plan.Stream == nil {
		return all
	}
	m.gangs, m.total = nil, 0
	out := map[string]time.Time{}
	if m.stream == nil {
		return out
	}
	for _, c := range m.stream.gangs {
		m.gangs = append(m.gangs, c.Gang)
		m.total += len(c.Pods)
		for _, pod := range c.Pods {
			if t, ok := all[pod]; ok {
				out[pod] = t
			}
		}
	}
	return out
}

func (m *measured) figures() report.Figures {
	f := report.Figures{
		Outcome: m.outcome, Why: m.why, Arrivals: m.arrivals, Bound: len(m.binds), Reopened: m.reopened,
		CPU: map[string]float64{}, Peak: m.peaks,
		Writes: map[string]float64{}, Rejected: m.requests.Rejected, Dispatched: m.requests.Dispatched, TooMany: m.requests.TooMany,
	}
	if m.plan.size() > 1 {
		f.Gangs = m.spread()
	}
	f.Stream, f.Preemption = m.latency(), m.preemption()
	if f.Bound == 0 {
		return f
	}
	order := slices.SortedFunc(maps.Values(m.binds), time.Time.Compare)
	first, last := order[0], order[len(order)-1]
	f.FirstBind, f.LastBind = first.Sub(m.start).Seconds(), last.Sub(m.start).Seconds()
	f.PodsPerSecondAll = rate(order, 1, len(order))
	f.PodsPerSecond = rate(order, (m.total+9)/10, m.total*9/10)
	if m.quiet {
		f.Quiet = max(0, m.after.At.Sub(last).Seconds())
	}
	f.CPU, f.BindingCPU = m.perPod(m.after, f.Bound), m.perPod(m.atEnd, f.Bound)
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

// perPod returns the milliseconds of CPU time up to a reading for each of a number of pods.
func (m *measured) perPod(to gauge.Reading, pods int) map[string]float64 {
	out := map[string]float64{}
	for name, used := range to.CPU {
		out[name] = float64(used-m.before.CPU[name]) / float64(time.Millisecond) / float64(pods)
	}
	return out
}

// latency returns how long the gangs of a stream took from the creation
// of their last pods to their last binds. It returns nil without a stream.
func (m *measured) latency() *report.Stream {
	if m.stream == nil {
		return nil
	}
	var took []time.Duration
	for _, c := range m.stream.gangs {
		if !c.bound.IsZero() {
			// A watch may deliver the bind before the pod's creation is answered.
			took = append(took, max(0, c.bound.Sub(c.made)))
		}
	}
	slices.Sort(took)
	return &report.Stream{
		Highest: m.highest, Rate: m.stream.rate, Gangs: len(took),
		P50: rank(took, 0.5), P99: rank(took, 0.99), Worst: rank(took, 1),
	}
}

// spread returns how long gangs took from their first bind to their last. Lone pods do not count.
func (m *measured) spread() *report.Gangs {
	var took []time.Duration
	g := &report.Gangs{}
	for _, gang := range m.gangs {
		if len(gang.Pods) == 1 {
			continue
		}
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
