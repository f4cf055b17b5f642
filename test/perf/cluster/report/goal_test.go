package report

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	speed := func(v View) (float64, bool) { return v.Value(Speed, "fluence", v.Repetition) }
	cases := map[string]struct {
		goal Goal
		want string
	}{
		"the median is enough":       {goal: Goal{Value: speed, Limit: 20}, want: "PASS  x: 20.00 (10.00-30.00), want at least 20.00"},
		"the median is too little":   {goal: Goal{Value: speed, Limit: 21}, want: "FAIL  x: 20.00 (10.00-30.00), want at least 21.00"},
		"one is too little":          {goal: Goal{Value: speed, Limit: 20, Always: true}, want: "FAIL  x: 20.00 (10.00-30.00), want at least 20.00"},
		"the median is not too much": {goal: Goal{Value: speed, Limit: 20, AtMost: true}, want: "PASS  x: 20.00 (10.00-30.00), want at most 20.00"},
		"one is too much":            {goal: Goal{Value: speed, Limit: 20, AtMost: true, Always: true}, want: "FAIL  x: 20.00 (10.00-30.00), want at most 20.00"},
	}
	b := &book{}
	s := b.session("a", 1, 3).run("fluence", 1, 10).run("fluence", 2, 20).run("fluence", 3, 30).only()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.goal.Text, tc.goal.Contender = "x", "fluence"
			v := Judge([]Goal{tc.goal}, s, nil)[0]
			if v.String() != tc.want {
				t.Errorf("%q, want %q", v, tc.want)
			}
		})
	}
	t.Run("one that did not bind all reaches nothing", func(t *testing.T) {
		s := (&book{}).session("a", 1, 2).run("fluence", 1, 10).run("fluence", 2, 20).but(func(f *Figures) { f.Outcome = Late }).only()
		v := Judge([]Goal{{Text: "x", Contender: "fluence", Value: speed, Limit: 1}}, s, nil)[0]
		if want := "FAIL  x: fluence: out of time, want at least 1.00"; v.String() != want {
			t.Errorf("%q, want %q", v, want)
		}
	})
}

// A measure without a value is neither reached nor missed.
func TestOpen(t *testing.T) {
	unbound := func(f *Figures) { f.Outcome = Ended }
	restless := func(f *Figures) { f.Quiet = 0 }
	// native takes part in two of three repetitions.
	full := func(b *book, change func(*Figures)) *Session {
		b.session("a", 1, 9).bracket(0, 100)
		b.run("native", 1, 10).run("fluence", 1, 20).bracket(1, 100)
		b.run("native", 2, 10).but(change).run("fluence", 2, 20).bracket(2, 100)
		return b.run("fluence", 3, 20).bracket(3, 100).only()
	}
	ratio := func(m Measure) Goal {
		return Goal{Text: "x", Contender: "fluence", Against: "native", Limit: 2, Value: func(v View) (float64, bool) {
			return v.Ratio(m, "fluence", "native", v.Repetition)
		}}
	}
	cpu := func(f Figures) (float64, bool) {
		_, ok := CPU("scheduler")(f)
		return f.PodsPerSecond, ok
	}
	alone := ratio(Speed)
	alone.Against, alone.Value = "", func(v View) (float64, bool) { return v.Value(Speed, "fluence", v.Repetition) }
	nothing := func(*Figures) {}
	cases := map[string]struct {
		goal    Goal
		session *Session
		want    string
	}{
		"native takes part in fewer":    {ratio(Speed), full(&book{}, nothing), "PASS  x: 2.00"},
		"native ended by itself in one": {ratio(Speed), full(&book{}, unbound), "OPEN  x: 2.00; no figure in repetition 2"},
		"Fluence alone is looked at":    {alone, full(&book{}, unbound), "PASS  x: 20.00"},
		"nothing was measured":          {ratio(cpu), full(&book{}, nothing), "OPEN  x: no figure in repetition 1; no figure in repetition 2"},
		"interrupted":                   {alone, (&book{}).session("a", 1, 4).bracket(0, 100).run("fluence", 1, 20).only(), "OPEN  x: 20.00; not all runs were made"},
		"native does not run":           {ratio(Speed), (&book{}).session("a", 1, 1).run("fluence", 1, 20).only(), "OPEN  x: no figure"},
		"noisy":                         {alone, (&book{}).session("a", 1, 3).bracket(0, 100).run("fluence", 1, 20).bracket(1, 50).only(), "PASS  x: 20.00; all repetitions were noisy"},
		"noisy once of twice": {alone,
			(&book{}).session("a", 1, 5).bracket(0, 100).run("fluence", 1, 1).bracket(1, 50).run("fluence", 2, 20).bracket(2, 50).only(),
			"PASS  x: 20.00; without repetition 1, which was noisy"},
		"noisy both times": {alone,
			(&book{}).session("a", 1, 5).bracket(0, 100).run("fluence", 1, 18).bracket(1, 50).run("fluence", 2, 20).bracket(2, 100).only(),
			"PASS  x: 19.00 (18.00-20.00); all repetitions were noisy"},
		"noisy where native is not": {ratio(Speed),
			(&book{}).session("a", 1, 6).bracket(0, 100).run("native", 1, 10).run("fluence", 1, 20).bracket(1, 100).run("fluence", 2, 20).bracket(2, 50).only(),
			"PASS  x: 2.00"},
		"noisy, and made again": {alone,
			(&book{}).session("a", 1, 6).bracket(0, 100).run("fluence", 1, 1).bracket(1, 50).bracket(1, 100).run("fluence", 1, 20).bracket(1, 100).only(),
			"PASS  x: 20.00"},
		"a bracket that says nothing": {alone, (&book{}).session("a", 1, 3).bracket(0, 100).run("fluence", 1, 20).bracket(1, 0).only(), "PASS  x: 20.00; all repetitions were noisy"},
		"the first time ended by itself": {alone,
			(&book{}).session("a", 1, 6).bracket(0, 100).run("fluence", 1, 1).but(unbound).bracket(1, 50).bracket(1, 100).run("fluence", 1, 20).bracket(1, 100).only(),
			"FAIL  x: fluence: ended by itself"},
		"one that never became quiet": {ratio(cpu), withCPU(full(&book{}, restless)), "OPEN  x: 2.00; no figure in repetition 2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want += ", want at least 2.00"
			if v := Judge([]Goal{tc.goal}, tc.session, nil)[0]; v.String() != tc.want {
				t.Errorf("%q, want %q", v, tc.want)
			}
		})
	}
}

func withCPU(s *Session) *Session {
	for i := range s.Results {
		s.Results[i].CPU = map[string]float64{"scheduler": 1}
	}
	return s
}

func TestAnotherRow(t *testing.T) {
	share := Goal{Text: "x", Contender: "fluence", Row: "other", Limit: 0.5, Value: func(v View) (float64, bool) {
		is, okIs := v.Value(Speed, "fluence", v.Repetition)
		was, okWas := v.Other.Value(Speed, "fluence", 1)
		return is / was, okIs && okWas
	}}
	s := (&book{}).session("a", 1, 1).run("fluence", 1, 20).only()
	cases := map[string]struct {
		change func(*Result) // of the other row; nil if there is none
		want   string
	}{
		"none":           {want: "OPEN  x: row other has not been run"},
		"of this commit": {change: func(*Result) {}, want: "PASS  x: 0.50"},
		"of another one": {change: func(r *Result) { r.Commit = "ba9876543210" }, want: "PASS  x: 0.50; commit 0123456789ab, row other of ba9876543210"},
		"with changes":   {change: func(r *Result) { r.Dirty = true }, want: "OPEN  x: 0.50; row other was run with changes beside its commit"},
		"on other cores": {change: func(r *Result) { r.Cores = 4 }, want: "OPEN  x: 0.50; row other was run on 4 cores"},
		"without a figure": {change: func(r *Result) {
			if !r.Bracket {
				r.PodsPerSecond = 0
			}
		}, want: "OPEN  x: no figure in repetition 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rows := map[string]*Session{}
			if tc.change != nil {
				other := (&book{}).session("other", 1, 3).bracket(0, 100).run("fluence", 1, 40).bracket(1, 100).only()
				for i := range other.Results {
					tc.change(&other.Results[i])
				}
				rows["other"] = other
			}
			tc.want += ", want at least 0.50"
			if v := Judge([]Goal{share}, s, rows)[0]; v.String() != tc.want {
				t.Errorf("%q, want %q", v, tc.want)
			}
		})
	}
	t.Run("noisy", func(t *testing.T) {
		other := (&book{}).session("other", 1, 3).bracket(0, 100).run("fluence", 1, 40).bracket(1, 50).only()
		if v := Judge([]Goal{share}, s, map[string]*Session{"other": other})[0]; v.Word == Open || !strings.Contains(v.String(), "row other was noisy") {
			t.Error(v)
		}
	})
}

func TestMeasures(t *testing.T) {
	f := Figures{
		Outcome: AllBound, Bound: 10, FirstBind: 1, LastBind: 2, Quiet: 0.001,
		CPU:        map[string]float64{"scheduler": 1, "sidecar": 0.5, "etcd": 7},
		Writes:     map[string]float64{"POST pods/binding": 1, "PUT leases.coordination.k8s.io": 3, "POST events.events.k8s.io": 0.5},
		Peak:       map[string]int64{"scheduler": 2e6, "sidecar": 1e6},
		Dispatched: map[string]float64{"a/workload-low": 2, "b/workload-low": 3, "c/workload-high": 50},
		Arrivals:   []Arrival{{First: 1}, {First: 3}, {First: 2}},
		BindingCPU: map[string]float64{"scheduler": 0.25},
		Stream:     &Stream{P50: 0.05, P99: 0.75},
	}
	late := f
	late.Outcome, late.Quiet = Late, 0
	first := func(a Arrival) float64 { return a.First }
	cases := map[string]struct {
		measure Measure
		figures Figures
		want    float64
		wantNot bool
	}{
		"CPU of two processes":            {measure: CPU("scheduler", "sidecar"), figures: f, want: 1.5},
		"CPU of those that there are":     {measure: CPU("scheduler", "binder"), figures: f, want: 1},
		"CPU of one that there is not":    {measure: CPU("binder"), figures: f, wantNot: true},
		"writes without leases":           {measure: Writes, figures: f, want: 1.5},
		"CPU until the last bind":         {measure: BindingCPU("scheduler", "binder"), figures: f, want: 0.25},
		"the same of a late contender":    {measure: BindingCPU("scheduler"), figures: late, wantNot: true},
		"the same, not measured":          {measure: BindingCPU("sidecar"), figures: f, wantNot: true},
		"memory of one process":           {measure: Memory("sidecar"), figures: f, want: 1},
		"memory of those that there are":  {measure: Memory("scheduler", "binder"), figures: f, want: 2},
		"memory of one that there is not": {measure: Memory("binder"), figures: f, wantNot: true},
		"half of the gangs of a stream":   {measure: StreamP50, figures: f, want: 0.05},
		"99 of 100 gangs of a stream":     {measure: StreamP99, figures: f, want: 0.75},
		"a stream that was not bound":     {measure: StreamP99, figures: late, wantNot: true},
		"no stream":                       {measure: StreamP99, figures: Figures{Outcome: AllBound}, wantNot: true},
		"memory in MB":                    {measure: PeakMemory, figures: f, want: 3},
		"requests at a level":             {measure: DispatchedAt("workload-low"), figures: f, want: 5},
		"no speed":                        {measure: Speed, figures: f, wantNot: true},
		"last bind":                       {measure: LastBind, figures: f, want: 2},
		"last bind of a late contender":   {measure: LastBind, figures: late, wantNot: true},
		"CPU where one was never quiet":   {measure: CPU("scheduler"), figures: late, wantNot: true},
		"requests by a flow schema":       {measure: DispatchedAt("a/workload-low"), figures: f, want: 2},
		"requests by one without any":     {measure: DispatchedAt("/workload-low"), figures: f},
		"requests that nobody counted":    {measure: DispatchedAt("workload-low"), figures: Figures{Outcome: AllBound}, wantNot: true},
		"429 where nobody counted":        {measure: TooMany, figures: Figures{Outcome: AllBound}, wantNot: true},
		"no 429":                          {measure: TooMany, figures: f},
		"first bind":                      {measure: FirstBind, figures: f, want: 1},
		"first bind of a late one":        {measure: FirstBind, figures: late, wantNot: true},
		"gangs where there are none":      {measure: GangP99, figures: f, wantNot: true},
		"the slowest arrival":             {measure: SlowestArrival(first), figures: f, want: 3},
		"an arrival that was not bound":   {measure: SlowestArrival(first), figures: late, wantNot: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := tc.measure(tc.figures)
			if ok == tc.wantNot || ok && got != tc.want {
				t.Errorf("%v, %t, want %v", got, ok, tc.want)
			}
		})
	}
}
