package main

import (
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

func join(goals ...[]report.Goal) []report.Goal { return slices.Concat(goals...) }

// scheduling is the CPU time of a scheduler, its sidecar included.
var scheduling = report.CPU("scheduler", "sidecar")

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
		{"pods/s, to native's", 1.7, more(report.Speed)},
		{"CPU a pod of kube-scheduler for native gangs, to Fluence's scheduler and sidecar", 4, less(scheduling)},
		{"native's time to the first bind, to Fluence's", 15, less(report.FirstBind)},
		{"native's time to the last bind, to Fluence's", 2.4, less(report.LastBind)},
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
	return report.Goal{Text: text, Contender: "fluence", Limit: limit, AtMost: true, Always: true, Value: func(v report.View) (float64, bool) {
		return v.Value(m, "fluence", v.Repetition)
	}}
}

// notInHalves returns goals that bound the seconds from a gang's first bind to its last.
func notInHalves() []report.Goal {
	return []report.Goal{
		always("seconds from a gang's first bind to its last, 99 of 100", report.GangP99, 0.3),
		always("seconds from a gang's first bind to its last, the worst", report.GangWorst, 1),
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

// governed returns the goals that the API server refuses no request, that Fluence's requests have
// the priority levels of its FlowSchemas, and that none has the level of all service accounts.
func governed() []report.Goal {
	return []report.Goal{
		always("requests answered 429", report.TooMany, 0),
		always("requests let through at workload-low", report.DispatchedAt("workload-low"), 0),
		letThrough("fluence/workload-high"),
		letThrough("fluence-leader-election/leader-election"),
	}
}

// letThrough returns a goal that every repetition has requests by a flow schema at its level.
func letThrough(by string) report.Goal {
	g := always("requests let through by "+by, report.DispatchedAt(by), 1)
	g.AtMost = false
	return g
}
