package main

import (
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

func join(goals ...[]report.Goal) []report.Goal { return slices.Concat(goals...) }

// These are the CPU times of a scheduler, its sidecar
// included, and of all programs that take its place.
var (
	scheduling = report.CPU("scheduler", "sidecar")
	programs   = report.CPU("scheduler", "sidecar", "controller")
)

// asFewWait returns goals for what a bound pod costs while many wait, which may be little more than
// while few wait. The first goal also counts the messages that waiting pods get after the binds. They
// may last so long that it has no value. So the second goal counts until the last bind only.
func asFewWait(many, few string) []report.Goal {
	const most = 1.3
	return []report.Goal{
		atMost("CPU a bound pod of scheduler, sidecar and controller with many waiting, to that with few", programs, many, few, most),
		atMost("the same until the last bind", report.BindingCPU("scheduler", "sidecar", "controller"), many, few, most),
	}
}

// lead is a factor by which Fluence is to do better than native gangs.
type lead struct {
	text  string
	limit float64
	of    func(s *report.Session, repetition int) (float64, bool)
}

// leads returns the leads that are required with gangs of 8 on 1,000 nodes.
func leads() []lead {
	more := func(m report.Measure) func(*report.Session, int) (float64, bool) {
		return func(s *report.Session, n int) (float64, bool) { return s.Ratio(m, "fluence", "native", n) }
	}
	less := func(m report.Measure) func(*report.Session, int) (float64, bool) {
		return func(s *report.Session, n int) (float64, bool) { return s.Ratio(m, "native", "fluence", n) }
	}
	return []lead{
		{"pods/s, to native's", 2.5, more(report.Speed)},
		{"CPU a pod of kube-scheduler for native gangs, to Fluence's scheduler and sidecar", 6, less(scheduling)},
		{"CPU a pod of kube-scheduler for native gangs, to Fluence's scheduler, sidecar and controller", 4, less(programs)},
		{"native's time to the first bind, to Fluence's", 20, less(report.FirstBind)},
		{"native's time to the last bind, to Fluence's", 3, less(report.LastBind)},
	}
}

// againstNative returns a goal for each lead.
func againstNative() []report.Goal {
	var out []report.Goal
	for _, l := range leads() {
		out = append(out, report.Goal{Text: l.text, Contender: "fluence", Against: "native", Limit: l.limit, Value: func(v report.View) (float64, bool) {
			return l.of(v.Session, v.Repetition)
		}})
	}
	return out
}

// asAtFewerNodes returns goals to keep nine tenths of
// each lead that another row has in its first repetition.
func asAtFewerNodes(row string) []report.Goal {
	var out []report.Goal
	for _, l := range leads() {
		out = append(out, report.Goal{Text: l.text + ", as a share of that in " + row, Contender: "fluence", Against: "native", Row: row, Limit: 0.9, Value: func(v report.View) (float64, bool) {
			was, okWas := l.of(v.Other, 1)
			is, okIs := l.of(v.Session, v.Repetition)
			return is / was, okWas && okIs
		}})
	}
	return out
}

// always returns a goal for a measure of Fluence that every repetition has to reach.
func always(text string, m report.Measure, limit float64) report.Goal {
	return alwaysOf("fluence", text, m, limit)
}

// alwaysOf returns the same goal for a contender of
// any name, which its text names unless it is fluence.
func alwaysOf(contender, text string, m report.Measure, limit float64) report.Goal {
	if contender != "fluence" {
		text = contender + ": " + text
	}
	return report.Goal{Text: text, Contender: contender, Limit: limit, AtMost: true, Always: true, Value: func(v report.View) (float64, bool) {
		return v.Value(m, contender, v.Repetition)
	}}
}

// withNativeGroups returns goals for Fluence with native PodGroups,
// against kube-scheduler with the same PodGroups.
func withNativeGroups() []report.Goal {
	return []report.Goal{
		atLeast("pods/s, to native's", report.Speed, "fluence-native", "native", 2.5),
		atMost("CPU a pod of scheduler, sidecar and controller, to kube-scheduler's", programs, "fluence-native", "native", 1.0/3),
	}
}

// notInHalves returns goals that bound the seconds from a gang's first bind to its last.
func notInHalves() []report.Goal { return notInHalvesOf("fluence") }

// notInHalvesOf returns the same goals for a contender of any name.
func notInHalvesOf(contender string) []report.Goal {
	return []report.Goal{
		alwaysOf(contender, "seconds from a gang's first bind to its last, 99 of 100", report.GangP99, 0.3),
		alwaysOf(contender, "seconds from a gang's first bind to its last, the worst", report.GangWorst, 1),
	}
}

// wholeBySpeed returns a goal that bounds the same for large
// gangs, relative to the rate at which pods are bound.
func wholeBySpeed(size int) []report.Goal {
	return []report.Goal{always(
		fmt.Sprintf("the slowest gang, to what %d pods take at Fluence's own speed", size),
		func(f report.Figures) (float64, bool) {
			worst, okWorst := report.GangWorst(f)
			speed, okSpeed := report.Speed(f)
			return worst * speed / float64(size), okWorst && okSpeed
		}, 1.5)}
}

// soon returns a goal that bounds the seconds until an arrival is bound.
func soon(who string, seconds float64) []report.Goal {
	return []report.Goal{always(
		"seconds to the first bind of the slowest "+who,
		report.SlowestArrival(func(a report.Arrival) float64 { return a.First }), seconds)}
}

// atLeast returns a goal for the ratio of a contender's measure to another one's.
func atLeast(text string, m report.Measure, contender, against string, limit float64) report.Goal {
	return report.Goal{Text: text, Contender: contender, Against: against, Limit: limit, Value: func(v report.View) (float64, bool) {
		return v.Ratio(m, contender, against, v.Repetition)
	}}
}

// atMost returns a goal for the same ratio, which may not be greater than the limit.
func atMost(text string, m report.Measure, contender, against string, limit float64) report.Goal {
	g := atLeast(text, m, contender, against, limit)
	g.AtMost = true
	return g
}

// nearCeilings returns goals for the speed, as shares of what the
// API server can do beside two watches of all pods.
func nearCeilings() []report.Goal {
	return []report.Goal{
		atLeast("pods/s, to ceiling-like's", report.Speed, "fluence", "ceiling-like", 0.75),
		atLeast("pods/s with podEvents: always, to ceiling-like-events'", report.Speed, "fluence-events", "ceiling-like-events", 0.8),
	}
}

// asStock returns goals for single pods: to be no slower and no dearer than kube-scheduler.
func asStock() []report.Goal {
	return []report.Goal{
		atLeast("pods/s, to stock's", report.Speed, "fluence", "stock", 1),
		atMost("CPU a pod of Fluence's scheduler and sidecar, to kube-scheduler's", scheduling, "fluence", "stock", 1),
	}
}

// prompt returns goals for gangs that come in a stream.
func prompt() []report.Goal {
	return []report.Goal{
		always("seconds from the creation of a gang's last pod to its last bind, half of the gangs", report.StreamP50, 0.1),
		always("the same, 99 of 100", report.StreamP99, 1),
		atLeast("CPU a pod of kube-scheduler for native gangs, to Fluence's scheduler and sidecar when the same gangs come",
			scheduling, "native", "fluence-as-native", 1),
	}
}

// evicts returns goals for gangs that evict other pods, against native gangs.
func evicts() []report.Goal {
	return []report.Goal{
		atMost("evicted pods, to native's", report.Victims, "fluence", "native", 1),
		atMost("seconds from the creation of the first gang's last pod to the first end of an evicted pod, to native's", report.FirstVictim, "fluence", "native", 0.5),
		atMost("the same to the last end", report.LastVictim, "fluence", "native", 1.1),
	}
}

// governed returns the goals that the API server refuses no request, that Fluence's requests have
// the priority levels of its FlowSchemas, and that none has the level of all service accounts.
func governed() []report.Goal { return governedAs("fluence") }

// governedAs returns the same goals for a contender of any name.
func governedAs(contender string) []report.Goal {
	return []report.Goal{
		alwaysOf(contender, "requests answered 429", report.TooMany, 0),
		alwaysOf(contender, "requests let through at workload-low", report.DispatchedAt("workload-low"), 0),
		letThrough(contender, "fluence/workload-high"),
		letThrough(contender, "fluence-leader-election/leader-election"),
	}
}

// letThrough returns a goal that every repetition has requests by a flow schema at its level.
func letThrough(contender, by string) report.Goal {
	g := alwaysOf(contender, "requests let through by "+by, report.DispatchedAt(by), 1)
	g.AtMost = false
	return g
}
