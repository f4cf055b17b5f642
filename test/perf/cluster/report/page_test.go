package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what comes to testdata")

// full returns a session with everything that a table can show.
func full() []Result {
	b := &book{}
	b.session("gangs", 1, 5)
	b.bracket(0, 800)
	b.run("native", 1, 150).but(func(f *Figures) {
		f.CPU = map[string]float64{"scheduler": 7.5, "apiserver": 6.5, "etcd": 1.5, "kcm": 0.8, "kwok": 0.01, "bench": 0.2}
		f.Gangs = &Gangs{Count: 500, P50: 0.04, P99: 0.13, Worst: 0.2}
		f.Peak = map[string]int64{"scheduler": 161e6}
		f.Writes = map[string]float64{"POST pods/binding": 1, "POST events.events.k8s.io": 1, "PUT leases.coordination.k8s.io": 0.05}
		f.Dispatched = map[string]float64{"kube-scheduler/workload-high": 8123}
		f.Arrivals = []Arrival{{Name: "urgent-8", Pods: 8, Before: 1000, After: 1100, First: 1.5, Last: 1.75}}
	})
	b.run("fluence", 1, 300).but(func(f *Figures) {
		f.Outcome, f.Why, f.Bound, f.PodsPerSecond, f.Quiet = Ended, "scheduler ended (exit status 1)", 2100, 0, 0
		f.TooMany, f.Rejected = 412, map[string]float64{"service-accounts": 412}
		f.Dispatched = map[string]float64{"service-accounts/workload-low": 3120}
	})
	b.bracket(1, 1100).but(func(f *Figures) {
		f.CPU = map[string]float64{"binder": 0.4, "apiserver": 1.25, "etcd": 0.3, "kcm": 0.2, "kwok": 0.01, "bench": 0.2}
	})
	b.run("fluence", 2, 300).but(func(f *Figures) { f.Gangs = &Gangs{Count: 500, P50: 0.02, P99: 2.5, Worst: 30, Halves: 12} })
	for i := range b.results {
		b.results[i].Dirty = true
		b.results[i].Parameters.Args = map[string]any{"maxBinds": 64}
	}
	return b.results
}

// A gang has no time if none or only some of its pods were bound.
func TestArrivals(t *testing.T) {
	b := &book{}
	b.session("a", 1, 3).run("x", 1, 1)
	b.run("x", 2, 1).but(func(f *Figures) {
		f.Arrivals = []Arrival{{Name: "b", Before: 10, After: 20, First: 1, Last: 2}, {Name: "a", Before: 30, First: 3}}
	})
	b.run("x", 3, 1).but(func(f *Figures) { f.Arrivals = []Arrival{{Name: "b", Before: 10}, {Name: "a", Before: 30}} })
	want := [][]string{{"x", "b", "10", "1.00", "2.00", "20"}, {"x", "a", "30", "3.00", "-", "-"}}
	if diff := cmp.Diff(want, arrivals(b.only()).rows); diff != "" {
		t.Errorf("arrivals() (-want +got):\n%s", diff)
	}
}

func fullRow() Row {
	return Row{Name: "gangs", Against: []string{"native", "ceiling", "stock"}, Goals: []Goal{
		{Text: "pods/s", Contender: "native", Limit: 100, Value: func(v View) (float64, bool) { return v.Value(Speed, "native", v.Repetition) }},
		{Text: "pods/s", Contender: "fluence", Limit: 100, Value: func(v View) (float64, bool) { return v.Value(Speed, "fluence", v.Repetition) }},
	}}
}

// golden compares a text with a file of testdata, which -rewrite writes.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -rewrite writes it. Got:\n%s", path, got)
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	if err := fullRow().Print(&out, sessions(full())[0], nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "full.txt", out.String())
}

func TestPage(t *testing.T) {
	empty := "before\n" + begin + "\nold\n" + end + "\nafter\n"
	page, err := Page(empty, []Row{{Name: "other"}, fullRow()}, full())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "full.md", page)
	again, err := Page(page, []Row{{Name: "other"}, fullRow()}, full())
	if err != nil || again != page {
		t.Errorf("the page that was made is made otherwise again (error %v):\n%s", err, again)
	}
}

func TestPagesThatAreNotMade(t *testing.T) {
	cases := map[string]struct {
		page    string
		rows    []Row
		results []Result
		want    string
	}{
		"no first mark":         {page: end + "\n", want: begin},
		"no last mark":          {page: begin + "\n", want: end},
		"marks in wrong order":  {page: end + "\n" + begin + "\n", want: end},
		"a row that is unknown": {page: begin + "\n" + end + "\n", rows: []Row{{Name: "other"}}, results: full(), want: `"gangs"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Page(tc.page, tc.rows, tc.results); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Page() = %v, want it to name %s", err, tc.want)
			}
		})
	}
}

func TestCells(t *testing.T) {
	cases := map[string]struct {
		values []float64
		digits int
		want   string
	}{
		"none":                       {want: "-"},
		"one":                        {values: []float64{1.234}, digits: 2, want: "1.23"},
		"several":                    {values: []float64{3, 1, 2}, digits: 1, want: "2.0 (1.0-3.0)"},
		"two have no middle":         {values: []float64{1, 2}, digits: 1, want: "1.5 (1.0-2.0)"},
		"the same as far as it goes": {values: []float64{1.001, 1.002}, digits: 2, want: "1.00"},
		"thousands":                  {values: []float64{999.4, 1234567.5}, want: "617,783 (999-1,234,568)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cell(tc.values, tc.digits); got != tc.want {
				t.Errorf("cell() = %q, want %q", got, tc.want)
			}
		})
	}
}
