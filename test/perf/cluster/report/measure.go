package report

import "strings"

// Speed is how many pods were bound in a second, from a tenth of them to nine tenths.
func Speed(f Figures) (float64, bool) { return f.PodsPerSecond, f.PodsPerSecond > 0 }

// SpeedOverAll is the same from the first bind to the last.
func SpeedOverAll(f Figures) (float64, bool) { return f.PodsPerSecondAll, f.PodsPerSecondAll > 0 }

// FirstBind is seconds from the contender's start to its first bind.
func FirstBind(f Figures) (float64, bool) { return f.FirstBind, f.Outcome == AllBound }

// LastBind is seconds from the contender's start until all pods were bound.
func LastBind(f Figures) (float64, bool) { return f.LastBind, f.Outcome == AllBound }

// CPU is milliseconds of CPU a pod of some processes together, of those that there are. It
// is not there unless all became quiet: otherwise some of the work was still to be done.
func CPU(processes ...string) Measure {
	return func(f Figures) (float64, bool) {
		if f.Quiet == 0 {
			return 0, false
		}
		sum, found := 0.0, false
		for _, p := range processes {
			if v, ok := f.CPU[p]; ok {
				sum, found = sum+v, true
			}
		}
		return sum, found
	}
}

// gang measures gangs, where there are any.
func gang(of func(Gangs) float64) Measure {
	return func(f Figures) (float64, bool) {
		if f.Gangs == nil {
			return 0, false
		}
		return of(*f.Gangs), true
	}
}

// GangP50 is the seconds from a gang's first bind to its last, of the middle one.
func GangP50(f Figures) (float64, bool) { return gang(func(g Gangs) float64 { return g.P50 })(f) }

// GangP99 is the same of the slowest of 99 in 100.
func GangP99(f Figures) (float64, bool) { return gang(func(g Gangs) float64 { return g.P99 })(f) }

// GangWorst is the same of the slowest of all.
func GangWorst(f Figures) (float64, bool) { return gang(func(g Gangs) float64 { return g.Worst })(f) }

// Halves is how many gangs stood in halves for more than two seconds.
func Halves(f Figures) (float64, bool) {
	return gang(func(g Gangs) float64 { return float64(g.Halves) })(f)
}

// Writes is how many requests changed something for each pod bound, leases left out: these
// are renewed whatever happens.
func Writes(f Figures) (float64, bool) {
	sum := 0.0
	for name, n := range f.Writes {
		if !strings.HasSuffix(name, " leases.coordination.k8s.io") {
			sum += n
		}
	}
	return sum, f.Bound > 0
}

// TooMany is how many requests were answered 429.
func TooMany(f Figures) (float64, bool) { return f.TooMany, metered(f) }

// DispatchedAt is how many requests flow control let through at a priority level, or, with
// its name and a slash ahead, by one flow schema of that level.
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

// metered reports whether requests were counted: who reads their numbers makes some.
func metered(f Figures) bool { return len(f.Dispatched) > 0 }

// PeakMemory is the largest resident sets of the contender's processes together, in MB.
func PeakMemory(f Figures) (float64, bool) {
	sum := 0.0
	for _, bytes := range f.Peak {
		sum += float64(bytes) / 1e6
	}
	return sum, len(f.Peak) > 0
}

// SlowestArrival takes the largest of what of says of the arrivals. It is not there unless
// all of them were bound.
func SlowestArrival(of func(Arrival) float64) Measure {
	return func(f Figures) (float64, bool) {
		slowest := 0.0
		for _, a := range f.Arrivals {
			slowest = max(slowest, of(a))
		}
		return slowest, len(f.Arrivals) > 0 && f.Outcome == AllBound
	}
}
