package report

import "strings"

// Speed returns the pods bound in a second, from a tenth of them to nine tenths.
func Speed(f Figures) (float64, bool) { return f.PodsPerSecond, f.PodsPerSecond > 0 }

// SpeedOverAll returns the pods bound in a second, from the first bind to the last.
func SpeedOverAll(f Figures) (float64, bool) { return f.PodsPerSecondAll, f.PodsPerSecondAll > 0 }

// FirstBind returns the seconds from the contender's start to its first bind.
func FirstBind(f Figures) (float64, bool) { return f.FirstBind, f.Outcome == AllBound }

// LastBind returns the seconds from the contender's start until all pods are bound.
func LastBind(f Figures) (float64, bool) { return f.LastBind, f.Outcome == AllBound }

// CPU returns a measure of the milliseconds of CPU for each pod that some processes
// used together. Processes without a figure do not count. There is no value unless all
// processes became quiet, because otherwise some of the work was still to be done.
func CPU(processes ...string) Measure {
	return func(f Figures) (float64, bool) {
		sum, found := sumOf(f.CPU, processes)
		return sum, found && f.Quiet > 0
	}
}

// BindingCPU returns a measure of the same milliseconds until the last
// bind. There is no value unless all pods were bound.
func BindingCPU(processes ...string) Measure {
	return func(f Figures) (float64, bool) {
		sum, found := sumOf(f.BindingCPU, processes)
		return sum, found && f.Outcome == AllBound
	}
}

// sumOf adds up the values of processes. found is false if none of them has a value.
func sumOf[V int64 | float64](values map[string]V, processes []string) (sum V, found bool) {
	for _, p := range processes {
		if v, ok := values[p]; ok {
			sum, found = sum+v, true
		}
	}
	return sum, found
}

// gang returns a measure of gangs. There is no value if a run has no gangs.
func gang(of func(Gangs) float64) Measure {
	return func(f Figures) (float64, bool) {
		if f.Gangs == nil {
			return 0, false
		}
		return of(*f.Gangs), true
	}
}

// GangP50 returns the median of the seconds from a gang's first bind to its last.
func GangP50(f Figures) (float64, bool) { return gang(func(g Gangs) float64 { return g.P50 })(f) }

// GangP99 returns the same seconds at the 99th percentile.
func GangP99(f Figures) (float64, bool) { return gang(func(g Gangs) float64 { return g.P99 })(f) }

// GangWorst returns the same seconds for the slowest gang.
func GangWorst(f Figures) (float64, bool) { return gang(func(g Gangs) float64 { return g.Worst })(f) }

// Halves returns the number of gangs that were half bound for more than two seconds.
func Halves(f Figures) (float64, bool) {
	return gang(func(g Gangs) float64 { return float64(g.Halves) })(f)
}

// Writes returns the requests that changed something for each
// bound pod, without leases, which are renewed in any case.
func Writes(f Figures) (float64, bool) {
	sum := 0.0
	for name, n := range f.Writes {
		if !strings.HasSuffix(name, " leases.coordination.k8s.io") {
			sum += n
		}
	}
	return sum, f.Bound > 0
}

// TooMany returns the number of requests answered 429.
func TooMany(f Figures) (float64, bool) { return f.TooMany, metered(f) }

// DispatchedAt returns a measure of the requests that flow control let
// through at a priority level. With a flow schema's name and a slash
// before the level, it counts only the requests of that flow schema.
func DispatchedAt(level string) Measure {
	return func(f Figures) (float64, bool) {
		sum := 0.0
		for name, n := range f.Dispatched {
			if strings.HasSuffix("/"+name, "/"+level) {
				sum += n
			}
		}
		return sum, metered(f)
	}
}

// metered reports whether requests were counted. Reading the
// counters makes requests too, so there are always some.
func metered(f Figures) bool { return len(f.Dispatched) > 0 }

// PeakMemory returns the sum of the largest resident sets of the contender's processes, in MB.
func PeakMemory(f Figures) (float64, bool) {
	sum := 0.0
	for _, bytes := range f.Peak {
		sum += float64(bytes) / 1e6
	}
	return sum, len(f.Peak) > 0
}

// Memory returns a measure of the largest resident sets of some processes, added up, in MB.
func Memory(processes ...string) Measure {
	return func(f Figures) (float64, bool) {
		bytes, found := sumOf(f.Peak, processes)
		return float64(bytes) / 1e6, found
	}
}

// stream returns a measure of a stream. There is no value
// if a run has no stream, or not all its pods were bound.
func stream(of func(Stream) float64) Measure {
	return func(f Figures) (float64, bool) {
		if f.Stream == nil || f.Outcome != AllBound {
			return 0, false
		}
		return of(*f.Stream), true
	}
}

// StreamP50 returns the median of the seconds from the creation
// of a gang's last pod to its last bind, in a stream.
func StreamP50(f Figures) (float64, bool) {
	return stream(func(s Stream) float64 { return s.P50 })(f)
}

// StreamP99 returns the same seconds at the 99th percentile.
func StreamP99(f Figures) (float64, bool) {
	return stream(func(s Stream) float64 { return s.P99 })(f)
}

// SlowestArrival returns a measure of the largest value of
// the arrivals. There is no value unless all pods were bound.
func SlowestArrival(of func(Arrival) float64) Measure {
	return func(f Figures) (float64, bool) {
		slowest := 0.0
		for _, a := range f.Arrivals {
			slowest = max(slowest, of(a))
		}
		return slowest, len(f.Arrivals) > 0 && f.Outcome == AllBound
	}
}

// preemption returns a measure of evictions. There is no value if a run
// has none, or not all pods of its gangs were bound.
func preemption(of func(Preemption) float64) Measure {
	return func(f Figures) (float64, bool) {
		if f.Preemption == nil || f.Outcome != AllBound {
			return 0, false
		}
		return of(*f.Preemption), true
	}
}

// Victims returns the number of pods that gangs evicted.
func Victims(f Figures) (float64, bool) {
	return preemption(func(p Preemption) float64 { return float64(p.Victims) })(f)
}

// FirstVictim returns the seconds from the creation of the first gang's last pod to the first end of an evicted pod.
func FirstVictim(f Figures) (float64, bool) {
	return preemption(func(p Preemption) float64 { return p.First })(f)
}

// LastVictim returns the same seconds to the last end of an evicted pod.
func LastVictim(f Figures) (float64, bool) {
	return preemption(func(p Preemption) float64 { return p.Last })(f)
}
