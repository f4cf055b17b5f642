package report

import "testing"

func TestJudge(t *testing.T) {
	speed := func(v View) (float64, bool) { return v.Value(Speed, "fluence", v.Repetition) }
	share := func(v View) (float64, bool) {
		other := v.Rows["other"]
		if other == nil {
			return 0, false
		}
		is, okIs := v.Value(Speed, "fluence", v.Repetition)
		was, okWas := other.Value(Speed, "fluence", 1)
		return is / was, okIs && okWas
	}
	cases := map[string]struct {
		goal Goal
		want string
	}{
		"the median is enough":       {goal: Goal{Value: speed, Limit: 20}, want: "PASS  x: 20.00 (10.00-30.00), want at least 20.00"},
		"the median is too little":   {goal: Goal{Value: speed, Limit: 21}, want: "FAIL  x: 20.00 (10.00-30.00), want at least 21.00"},
		"one is too little":          {goal: Goal{Value: speed, Limit: 20, Always: true}, want: "FAIL  x: 20.00 (10.00-30.00), want at least 20.00"},
		"the median is not too much": {goal: Goal{Value: speed, Limit: 20, AtMost: true}, want: "PASS  x: 20.00 (10.00-30.00), want at most 20.00"},
		"one is too much":            {goal: Goal{Value: speed, Limit: 20, AtMost: true, Always: true}, want: "FAIL  x: 20.00 (10.00-30.00), want at most 20.00"},
		"no row to compare with":     {goal: Goal{Value: share, Limit: 1}, want: "OPEN  x: no figure, want at least 1.00"},
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
	t.Run("another row", func(t *testing.T) {
		other := (&book{}).session("other", 1, 1).run("fluence", 1, 40).only()
		goal := Goal{Text: "x", Contender: "fluence", Value: share, Limit: 0.5}
		if v := Judge([]Goal{goal}, s, map[string]*Session{"other": other})[0]; v.Word != Pass {
			t.Error(v)
		}
	})
	t.Run("one that did not bind all reaches nothing", func(t *testing.T) {
		s := (&book{}).session("a", 1, 2).run("fluence", 1, 10).run("fluence", 2, 20).but(func(f *Figures) { f.Outcome = Late }).only()
		v := Judge([]Goal{{Text: "x", Contender: "fluence", Value: speed, Limit: 1}}, s, nil)[0]
		if want := "FAIL  x: fluence: out of time, want at least 1.00"; v.String() != want {
			t.Errorf("%q, want %q", v, want)
		}
	})
}

func TestMeasures(t *testing.T) {
	f := Figures{
		Outcome: AllBound, Bound: 10, FirstBind: 1, LastBind: 2,
		CPU:        map[string]float64{"scheduler": 1, "sidecar": 0.5, "etcd": 7},
		Writes:     map[string]float64{"POST pods/binding": 1, "PUT leases.coordination.k8s.io": 3, "POST events.events.k8s.io": 0.5},
		Peak:       map[string]int64{"scheduler": 2e6, "sidecar": 1e6},
		Dispatched: map[string]float64{"a/workload-low": 2, "b/workload-low": 3, "c/workload-high": 50},
		Arrivals:   []Arrival{{First: 1}, {First: 3}, {First: 2}},
	}
	late := f
	late.Outcome = Late
	first := func(a Arrival) float64 { return a.First }
	cases := map[string]struct {
		measure Measure
		figures Figures
		want    float64
		wantNot bool
	}{
		"CPU of two processes":          {measure: CPU("scheduler", "sidecar"), figures: f, want: 1.5},
		"CPU of those that there are":   {measure: CPU("scheduler", "binder"), figures: f, want: 1},
		"CPU of one that there is not":  {measure: CPU("binder"), figures: f, wantNot: true},
		"writes without leases":         {measure: Writes, figures: f, want: 1.5},
		"memory in MB":                  {measure: PeakMemory, figures: f, want: 3},
		"requests at a level":           {measure: DispatchedAt("workload-low"), figures: f, want: 5},
		"no speed":                      {measure: Speed, figures: f, wantNot: true},
		"last bind":                     {measure: LastBind, figures: f, want: 2},
		"last bind of a late contender": {measure: LastBind, figures: late, wantNot: true},
		"first bind of one":             {measure: FirstBind, figures: late, want: 1},
		"first bind without any":        {measure: FirstBind, figures: Figures{}, wantNot: true},
		"gangs where there are none":    {measure: GangP99, figures: f, wantNot: true},
		"the slowest arrival":           {measure: SlowestArrival(first), figures: f, want: 3},
		"an arrival that was not bound": {measure: SlowestArrival(first), figures: late, wantNot: true},
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
