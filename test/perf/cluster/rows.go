package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/perf/cluster/trial"
)

// These are the limits of one run: on two cores native gangs need less.
const (
	usual = 4 * time.Minute
	large = 18 * time.Minute
	// huge is for 50,000 pods, without native gangs. streaming is for a search and a stream.
	huge      = 12 * time.Minute
	streaming = 12 * time.Minute
	// resting is for 50,000 pods that wait. The reason is written to each, to 50 a second.
	resting = 30 * time.Minute
)

// rows returns all benchmarks, in the order of the page.
func rows() []row {
	like, likeEvents := contender.CeilingLike(contender.Workers, false), contender.CeilingLike(contender.Workers, true)
	againstLikes, againstLike := []string{"native", "ceiling-like", "ceiling-like-events"}, []string{"native", "ceiling-like"}
	gangs := []entry{{Spec: likeEvents}, {Spec: contender.Native()}, {Spec: contender.Fluence()}}
	// It has no likeEvents, because native gangs may take 18 of the 25 minutes of a row.
	manyGangs := []entry{{Spec: contender.Native()}, {Spec: contender.Fluence()}}
	// It has no native gangs: large gangs are compared with the ceilings only.
	largeGangs := []entry{{Spec: likeEvents}, {Spec: contender.Fluence()}, {Spec: contender.FluenceEvents()}}
	likes := []string{"ceiling-like", "ceiling-like-events"}
	beyondLikes := []report.Pair{
		{Contender: "fluence", Against: "ceiling-like"},
		{Contender: "fluence-events", Against: "ceiling-like-events"},
	}
	return []row{
		{
			Row:   report.Row{Name: "quick", Against: []string{"native", "ceiling"}, Goals: join(againstNative(), notInHalves(), governed())},
			what:  "all that matters in ten minutes",
			nodes: 1000, pods: 4000, size: 8, cpu: "1", repetitions: 3, limit: usual,
			bracket:    contender.Ceiling(contender.Workers),
			contenders: []entry{{Spec: contender.Stock()}, {Spec: contender.Native()}, {Spec: contender.Fluence()}},
		},
		{
			Row:   report.Row{Name: "gangs-8", Against: againstLikes, Goals: join(againstNative(), notInHalves(), governed())},
			what:  "gangs of 8",
			nodes: 1000, pods: 4000, size: 8, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket: like, contenders: gangs,
		},
		{
			Row: report.Row{
				Name: "native-groups", Against: againstLike,
				Goals: join(withNativeGroups(), notInHalvesOf("fluence-native"), governedAs("fluence-native")),
			},
			what:  "gangs of 8 with PodGroups of scheduling.k8s.io, also for Fluence",
			nodes: 1000, pods: 4000, size: 8, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket: like, contenders: []entry{{Spec: contender.Native()}, {Spec: contender.FluenceNative()}},
		},
		{
			Row: report.Row{
				Name: "gangs-64", Against: likes, Beyond: beyondLikes,
				Goals: join(nearCeilings(), governed(), governedAs("fluence-events")),
			},
			what:  "gangs of 64",
			nodes: 1000, pods: 4096, size: 64, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket: like, contenders: largeGangs,
		},
		{
			Row: report.Row{
				Name: "gangs-250", Against: againstLikes, Beyond: beyondLikes,
				Goals: join(nearCeilings(), wholeBySpeed(250), governed(), governedAs("fluence-events")),
			},
			what:  "gangs of 250",
			nodes: 1000, pods: 4000, size: 250, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket: like, contenders: append(slices.Clone(gangs), entry{Spec: contender.FluenceEvents()}),
		},
		{
			Row: report.Row{
				Name: "gangs-512", Against: likes, Beyond: beyondLikes,
				Goals: join(nearCeilings(), wholeBySpeed(512), governed(), governedAs("fluence-events")),
			},
			what:  "gangs of 512",
			nodes: 1000, pods: 4096, size: 512, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket: like, contenders: largeGangs,
		},
		{
			Row:   report.Row{Name: "alone", Against: []string{"stock", "ceiling-like", "ceiling-like-events"}, Goals: join(asStock(), governed())},
			what:  "pods on their own",
			nodes: 1000, pods: 4000, size: 1, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket:    like,
			contenders: []entry{{Spec: likeEvents}, {Spec: contender.Stock()}, {Spec: contender.FluenceAlone()}},
		},
		{
			Row: report.Row{
				Name: "rack", Against: againstLike,
				Goals: join([]report.Goal{atLeast("pods/s, to native's", report.Speed, "fluence", "native", 5)}, governed()),
			},
			what:  "gangs of 8, each in one rack",
			nodes: 1000, pods: 4000, size: 8, cpu: "1", repetitions: 3, limit: 2 * usual, recorded: true,
			rack: true, args: map[string]any{"topologyLevels": []any{backlog.RackLabel}},
			bracket: like, contenders: []entry{{Spec: contender.Native()}, {Spec: contender.Fluence()}},
		},
		{
			Row:   report.Row{Name: "backlog-20000", Against: againstLike, Goals: join(notInHalves(), governed())},
			what:  "a backlog five times as long",
			nodes: 1000, pods: 20000, size: 8, cpu: "400m", repetitions: 1, limit: large, recorded: true,
			bracket: like, contenders: manyGangs,
		},
		{
			Row:   report.Row{Name: "nodes-5000", Against: againstLike, Goals: join(notInHalves(), asAtFewerNodes("backlog-20000"), governed())},
			what:  "the same on five times as many nodes",
			nodes: 5000, pods: 20000, size: 8, cpu: "400m", repetitions: 1, limit: large, recorded: true,
			bracket: like, contenders: manyGangs,
		},
		{
			Row: report.Row{
				Name: "memory", Against: []string{"stock"},
				Goals: join([]report.Goal{atMost("memory of Fluence's scheduler and sidecar, to kube-scheduler's with single pods",
					report.Memory("scheduler", "sidecar"), "fluence", "stock", 1.2)}, governed()),
			},
			what:  "50,000 pods: memory in gangs of 8, against single pods with kube-scheduler",
			nodes: 5000, pods: 50000, size: 8, cpu: "400m", repetitions: 1, limit: huge, recorded: true,
			bracket: like, bracketPart: 0.08,
			contenders: []entry{{Spec: contender.Stock()}, {Spec: contender.Fluence()}},
		},
		{
			Row: report.Row{
				Name: "waiting", Against: []string{"ceiling-like"},
				Beyond: []report.Pair{{Contender: "fluence-50000", Against: "fluence-4000"}},
				Goals:  join(asFewWait("fluence-50000", "fluence-4000"), governedAs("fluence-50000")),
			},
			what:  "gangs of 8 wait on full nodes, and then there is room for 4,000 pods",
			nodes: 1000, pods: 50000, size: 8, cpu: "1", repetitions: 3, limit: resting, patience: 18 * time.Minute, recorded: true,
			room: 0.08, bracket: like, bracketPart: 0.08,
			contenders: []entry{{Spec: contender.Fluence().As("fluence-4000"), part: 0.08}, {Spec: contender.Fluence().As("fluence-50000")}},
		},
		{
			Row:   report.Row{Name: "stream", Goals: join(prompt(), notInHalves(), governed())},
			what:  "gangs of 8 come for two minutes, at 80 % of the highest rate that is kept up with",
			nodes: 1000, pods: 4000, size: 8, cpu: "1", repetitions: 3, limit: streaming, recorded: true,
			seconds: 120, bracket: like, inOrder: true,
			contenders: []entry{
				{Spec: contender.Native()}, {Spec: contender.Fluence()},
				{Spec: contender.Fluence().As("fluence-as-native"), rateOf: "native"},
			},
		},
		{
			Row:   report.Row{Name: "evict-100", Goals: join(evicts(), governed())},
			what:  "a gang of 100 evicts 1,000 pods",
			nodes: 100, pods: 100, size: 100, cpu: "7940m", low: 10, repetitions: 3, limit: usual, recorded: true,
			contenders: []entry{{Spec: contender.Native()}, {Spec: contender.Fluence()}},
		},
		{
			Row:   report.Row{Name: "evict-10", Goals: join(evicts(), governed())},
			what:  "ten gangs of 10 evict 100 pods each",
			nodes: 100, pods: 100, size: 10, cpu: "7940m", low: 10, repetitions: 3, limit: usual, recorded: true,
			contenders: []entry{{Spec: contender.Native()}, {Spec: contender.Fluence()}},
		},
		{
			Row:   report.Row{Name: "ceiling", Against: []string{"ceiling"}},
			what:  "how fast clients bind that do nothing else",
			nodes: 1000, pods: 4000, size: 8, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket: contender.Ceiling(contender.Workers),
			contenders: []entry{
				{Spec: contender.Ceiling(8)}, {Spec: contender.Ceiling(16)}, {Spec: contender.Ceiling(64)},
				{Spec: contender.Ceiling(128)}, {Spec: contender.Ceiling(256)}, {Spec: like}, {Spec: likeEvents},
			},
		},
		{
			Row:   report.Row{Name: "urgent", Against: []string{"native", "ceiling"}, Goals: join(soon("urgent gang", 1.5), notInHalves(), governed())},
			what:  "an urgent gang of 8 and then one of 64 come in the middle of gangs of 8",
			nodes: 1000, pods: 4000, size: 8, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket:    contender.Ceiling(contender.Workers),
			contenders: []entry{{Spec: contender.Native(), repetitions: 1}, {Spec: contender.Fluence()}},
			arrivals: []trial.Arrival{
				{Name: "urgent-8", Pods: 8, Urgent: true, After: 0.25},
				{Name: "urgent-64", Pods: 64, Urgent: true, After: 0.5},
			},
		},
		{
			Row:   report.Row{Name: "lone", Against: []string{"ceiling"}, Goals: join(soon("lone pod", 1), governed())},
			what:  "five lone pods come one after the other while a gang of 5,000 binds",
			nodes: 1000, pods: 5000, size: 5000, cpu: "1", repetitions: 3, limit: usual, recorded: true,
			bracket:    contender.Ceiling(contender.Workers),
			contenders: []entry{{Spec: contender.Fluence()}},
			arrivals:   lonePods(5),
		},
	}
}

// lonePods returns lone pods that come one after the
// other, the first when a tenth of the backlog is bound.
func lonePods(n int) []trial.Arrival {
	var out []trial.Arrival
	for i := range n {
		out = append(out, trial.Arrival{Name: fmt.Sprintf("lone-%d", i+1), Pods: 1, After: 0.1 + 0.15*float64(i)})
	}
	return out
}

// find returns the row of a name. If there is none, the error lists all.
func find(name string) (row, error) {
	var list strings.Builder
	for _, r := range rows() {
		if r.Name == name {
			return r, nil
		}
		fmt.Fprintf(&list, "\n  %-14s %s", r.Name, r.what)
	}
	return row{}, fmt.Errorf("-row: there is no row %q; there are:%s", name, list.String())
}
