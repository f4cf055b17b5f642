package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// plan draws a plan, and fails if that is not possible.
func plan(t *testing.T, cfg Config) Plan {
	t.Helper()
	p, err := NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPlanIsAFunctionOfItsSeed(t *testing.T) {
	const events = 2000
	first := plan(t, Config{Seed: 7, Events: events}).String()
	if again := plan(t, Config{Seed: 7, Events: events}).String(); again != first {
		t.Error("the same seed gave another plan")
	}
	if other := plan(t, Config{Seed: 8, Events: events}).String(); other == first {
		t.Error("another seed gave the same plan")
	}
	if longer := plan(t, Config{Seed: 7, Events: 2 * events}).String(); !strings.HasPrefix(longer, first) {
		t.Error("a longer plan begins otherwise")
	}
}

// A seed from before the kind overload existed draws the same events as then.
func TestLaterKindsLeaveTheOthersInTheirOrder(t *testing.T) {
	const events = 3000
	without := map[string]int{}
	for _, k := range kinds[firstKinds:] {
		without[k.name] = 0
	}
	var all []string
	for _, e := range plan(t, Config{Seed: 7, Events: 2 * events}) {
		if _, later := without[e.Kind]; !later {
			all = append(all, fmt.Sprint(e.Kind, " ", e.Do))
		}
	}
	for i, e := range plan(t, Config{Seed: 7, Events: events, Weights: without}) {
		if got := fmt.Sprint(e.Kind, " ", e.Do); got != all[i] {
			t.Fatalf("event %d is %q among all kinds, and %q among the first", i+1, all[i], got)
		}
	}
}

// Among as many events as the sum of the weights, each kind happens as often as its weight.
func TestAPlanHasEveryKind(t *testing.T) {
	cfg, err := Config{Promises: 3, Queues: true}.complete()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Weights {
		cfg.Events += w
	}
	cfg.Events -= 500 // the default
	got := map[string]int{}
	for _, e := range plan(t, cfg) {
		got[e.Kind]++
	}
	if !maps.Equal(got, cfg.Weights) {
		t.Errorf("kinds of %d events: %v, want %v", cfg.Events, got, cfg.Weights)
	}
	for kind, n := range got {
		if n == 0 {
			t.Errorf("%s has no weight", kind)
		}
	}
}

func TestAPlanKillsEverySetOfProcessesAtEveryStep(t *testing.T) {
	killed, cuts, frozen := map[string]bool{}, map[Cut]bool{}, map[string]bool{}
	for _, e := range plan(t, Config{Seed: 1, Events: 50_000}) {
		switch do := e.Do.(type) {
		case kill:
			killed[strings.Join(do.Processes, "+")+" "+string(do.Step)] = true
		case outage:
			cuts[do.Cut] = true
		case freeze:
			frozen[fmt.Sprint(do.Process, do.Turn > 0)] = true
		}
	}
	if want := 7 * 5; len(killed) != want {
		t.Errorf("%d sets of processes and steps, want %d: %v", len(killed), want, slices.Sorted(maps.Keys(killed)))
	}
	for _, cut := range []Cut{Stopped, Restarted, Away, EtcdStopped} {
		if !cuts[cut] {
			t.Errorf("the API server is never %s", cut)
		}
	}
	if len(frozen) != 4 {
		t.Errorf("stopped processes %v, want each of three, and one by turns", frozen)
	}
}

func TestAPlanIsReadable(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(plan(t, Config{Seed: 3, Events: 3000}).String(), "\n"), "\n")
	if len(lines) != 3000 {
		t.Fatalf("%d lines for 3000 events", len(lines))
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprintf("%d ", i+1)) || strings.Contains(line, "%!") || strings.Contains(line, "0xc0") {
			t.Errorf("line %d: %q", i+1, line)
		}
	}
}

func TestWeightsChooseWhatHappens(t *testing.T) {
	weights := map[string]int{}
	for _, k := range kinds {
		weights[k.name] = 0
	}
	weights["kill"], weights["create-job"] = 1, 3
	got := map[string]int{}
	for _, e := range plan(t, Config{Events: 400, Weights: weights}) {
		got[e.Kind]++
	}
	if want := map[string]int{"kill": 100, "create-job": 300}; !maps.Equal(got, want) {
		t.Errorf("kinds %v, want %v", got, want)
	}
}

func TestConfigRefuses(t *testing.T) {
	none := map[string]int{}
	for _, k := range kinds {
		none[k.name] = 0
	}
	cases := map[string]struct {
		cfg  Config
		want string
	}{
		"fewer than no events":        {Config{Events: -1}, "events: -1"},
		"fewer than no nodes":         {Config{Nodes: -2}, "nodes: -2"},
		"a negative rate":             {Config{Rate: -1}, "rate: -1"},
		"promises of less than none":  {Config{Promises: -1}, "promises: -1"},
		"a negative lease":            {Config{Lease: -1}, "lease: -1ns"},
		"a kind that there is not":    {Config{Weights: map[string]int{"meteor": 1}}, `"meteor"`},
		"a negative weight":           {Config{Weights: map[string]int{"kill": -3}}, "kill: -3"},
		"nothing that could happen":   {Config{Weights: none}, "nothing can happen"},
		"a lease of part of a second": {Config{Lease: 1_500_000_000}, "lease: 1.5s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := NewPlan(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("NewPlan() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestAThirdOfTheGroupsSaysHowTheirMembersStand(t *testing.T) {
	groups, stand, alone, said := 0, 0, 0, map[string]int{}
	look := func(w Workload) {
		groups++
		if len(w.Stand.names()) > 0 {
			stand++
		}
		if w.Stand.Unknown && w.Size() == 1 {
			alone++
		}
		for _, name := range w.Stand.names() {
			said[name]++
		}
	}
	for _, e := range plan(t, Config{Seed: 1, Events: 10_000}) {
		switch do := e.Do.(type) {
		case create:
			look(do.Workload)
		case kill:
			look(do.Group)
			if do.Group.Stand.Unknown {
				t.Errorf("event %v: a group that never starts comes to no step", e)
			}
		}
	}
	if share := 100 * stand / groups; share < 28 || share > 38 {
		t.Errorf("%d of %d groups say how their members stand, want a third", stand, groups)
	}
	for _, name := range []string{"apart", "port", "spread", "together", "required", "preferred", "balanced", "exclusive", "unknown", "two-shapes", "some-tolerate"} {
		if said[name] < groups/200 {
			t.Errorf("%d of %d groups say %s", said[name], groups, name)
		}
	}
	if alone > 0 {
		t.Errorf("%d groups of one pod name no level, and have no PodGroup that could say so", alone)
	}
}

// With preemption a seed draws the same events, and most groups have a priority.
func TestAPlanWithPreemptionDiffersInThePrioritiesOnly(t *testing.T) {
	const events = 2000
	with, without := plan(t, Config{Seed: 7, Events: events, Preemption: true}), plan(t, Config{Seed: 7, Events: events})
	groups, urgent := 0, 0
	for i := range with {
		c, ok := with[i].Do.(create)
		if !ok {
			continue
		}
		groups++
		if c.Priority != 0 {
			urgent++
		}
		c.Priority = without[i].Do.(create).Priority
		if got, want := c.String(), fmt.Sprint(without[i].Do); got != want {
			t.Fatalf("event %d is %q with preemption, and %q without", i+1, got, want)
		}
	}
	if 2*urgent < groups {
		t.Errorf("%d of %d groups have a priority, want most", urgent, groups)
	}
}

// With promises a seed draws the same events and later ones among them, and most groups have an end.
func TestAPlanWithPromisesDiffersInTheEndsOnly(t *testing.T) {
	const events = 2000
	without := plan(t, Config{Seed: 7, Events: events})
	next, edits, groups, ended, makers := 0, 0, 0, 0, map[string]int{}
	for _, e := range plan(t, Config{Seed: 7, Events: events, Promises: 3}) {
		if e.Kind == editDuration {
			edits++
			continue
		}
		do := e.Do
		switch of := do.(type) {
		case create:
			groups++
			if of.Duration+of.Deadline+of.JobDeadline > 0 {
				ended++
			}
			for name, d := range map[string]time.Duration{"duration": of.Duration, "deadline": of.Deadline, "job-deadline": of.JobDeadline} {
				if d > 0 {
					makers[name+" "+string(of.Maker)]++
				}
			}
			of.Duration, of.Deadline, of.JobDeadline = 0, 0, 0
			do = of
		case kill:
			of.Group.Duration, of.Group.Deadline, of.Group.JobDeadline = 0, 0, 0
			do = of
		case overload: // of several groups
			next++
			continue
		}
		if got, want := fmt.Sprint(do), fmt.Sprint(without[next].Do); got != want {
			t.Fatalf("event %d is %q with promises, and %q without", next+1, got, want)
		}
		next++
	}
	if edits == 0 || 4*ended < 3*groups || makers["deadline job"] == 0 || makers["job-deadline job"] == 0 || makers["deadline statefulset"]+makers["deadline deployment"] > 0 {
		t.Errorf("%d of %d groups have an end, want most; %d edits; %v", ended, groups, edits, makers)
	}
}

// With queues a seed draws the same events and later ones among them, and many Jobs and lone pods are in queues.
func TestAPlanWithQueuesDiffersInTheQueuesOnly(t *testing.T) {
	const events = 3000
	without := plan(t, Config{Seed: 7, Events: events})
	next, groups, endless, edits, in := 0, 0, 0, map[string]int{}, map[string]int{}
	for _, e := range plan(t, Config{Seed: 7, Events: events, Queues: true}) {
		if e.Kind == holdJob || e.Kind == editTimeLimit || e.Kind == editQueue {
			edits[e.Kind]++
			continue
		}
		do := e.Do
		switch of := do.(type) {
		case create:
			if of.Maker == Job || of.Maker == LonePod {
				groups++
				in[of.Queue]++
			}
			if of.Queue == "" {
				break
			}
			if of.RunFor == 0 {
				endless++
			}
			was := without[next].Do.(create)
			of.Queue, of.RunFor, of.Fails, of.Duration, of.Deadline, of.JobDeadline = "", was.RunFor, was.Fails, was.Duration, was.Deadline, was.JobDeadline
			do = of
		case kill, overload:
			next++
			continue
		}
		if got, want := fmt.Sprint(do), fmt.Sprint(without[next].Do); got != want {
			t.Fatalf("event %d is %q with queues, and %q without", next+1, got, want)
		}
		next++
	}
	if len(edits) != 3 || 4*in[""] > 3*groups || in[easyQueue] == 0 || in[strictQueue] == 0 || endless == 0 {
		t.Errorf("of %d Jobs and lone pods %v are in queues, %d of them without an end of their own; edits %v", groups, in, endless, edits)
	}
}
