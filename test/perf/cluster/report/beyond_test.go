package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// On two cores, 4,000 pods in 8 s take 4 ms of all cores each.
func TestBeyond(t *testing.T) {
	takes := func(seconds float64, ms map[string]float64) func(*Figures) {
		return func(f *Figures) { f.LastBind, f.BindingCPU = seconds, ms }
	}
	ours := map[string]float64{"scheduler": 1, "sidecar": 0.25, "apiserver": 1.5}
	b := &book{}
	b.session("a", 1, 7)
	b.bracket(0, 1000).but(takes(2, map[string]float64{"binder": 0.25, "apiserver": 0.5}))
	b.run("fluence", 1, 500).but(takes(8, ours)).run("late", 1, 1).but(func(f *Figures) { f.Outcome = Late })
	b.bracket(1, 1000).but(takes(4, map[string]float64{"binder": 0.25, "apiserver": 1}))
	b.run("fluence", 2, 500).but(takes(10, ours)).run("old", 2, 500)
	b.bracket(2, 1000).but(takes(4, map[string]float64{"binder": 0.25, "apiserver": 1}))
	r := Row{Beyond: []Pair{
		{Contender: "fluence", Against: "ceiling"}, {Contender: "late", Against: "ceiling"},
		{Contender: "old", Against: "ceiling"}, {Contender: "fluence", Against: "stock"},
	}}
	got := r.beyond(b.only())
	want := [][]string{{
		"fluence, beyond ceiling", "2.75 (2.50-3.00)",
		"0.75", "0.25", "0.00", "0.62 (0.50-0.75)", "0.00", "0.00", "0.00", "0.00", "1.12 (0.75-1.50)",
	}}
	if diff := cmp.Diff(want, got.rows); diff != "" {
		t.Errorf("beyond() (-want +got):\n%s", diff)
	}
	if len(got.headings) != len(want[0]) {
		t.Errorf("%d headings for %d cells", len(got.headings), len(want[0]))
	}
	if got := (Row{}).beyond(b.only()); len(got.rows) > 0 {
		t.Errorf("beyond() of no pairs = %v", got.rows)
	}
}

func TestStreams(t *testing.T) {
	b := &book{}
	b.session("a", 1, 4).bracket(0, 100)
	b.run("native", 1, 10).but(func(f *Figures) {
		f.Stream = &Stream{Highest: 20, Rate: 16, Gangs: 1920, P50: 0.05, P99: 0.5, Worst: 0.75}
	})
	b.run("fluence", 1, 10).but(func(f *Figures) { f.Outcome, f.Stream = Late, &Stream{Rate: 16} }).bracket(1, 100)
	want := [][]string{{"native", "20.0", "16.0", "1,920", "0.050", "0.500", "0.750"}}
	if diff := cmp.Diff(want, streams(b.only()).rows); diff != "" {
		t.Errorf("streams() (-want +got):\n%s", diff)
	}
}

func TestWhatIsToBeBound(t *testing.T) {
	gangs := Parameters{Pods: 4000, Size: 8, CPU: "1"}
	rack, stream := gangs, gangs
	rack.Rack, stream.Seconds = true, 120
	cases := map[string]struct {
		parameters Parameters
		want       string
	}{
		"single pods": {Parameters{Pods: 4000, Size: 1, CPU: "400m"}, "4,000 pods of 400m CPU"},
		"gangs":       {gangs, "4,000 pods of 1 CPU in gangs of 8"},
		"racks":       {rack, "4,000 pods of 1 CPU in gangs of 8, each in one rack,"},
		"a stream":    {stream, "gangs of 8 pods of 1 CPU that come for 120 s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.parameters.what(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
