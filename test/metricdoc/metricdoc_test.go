package metricdoc

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

const text = `## Scheduler
| metric | type | labels | tells | worry |
|---|---|---|---|---|
| ` + "`fluence_a_total` | counter | `b`, `a`" + ` | what | when |
| ` + "`fluence_gone` | gauge | " + ` | what | never |
`

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"a cell too few":  {"| `fluence_a` | counter | | what |\n", "fluence_a has the cells"},
		"an empty cell":   {"| `fluence_a` | counter | | what | |\n", "fluence_a has the cells"},
		"a name two rows": {"| `fluence_a` | gauge | | x | y |\n| `fluence_a` | gauge | | x | y |\n", "fluence_a has two rows"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("parse: %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestDifferences(t *testing.T) {
	rows, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	gauge := func(name string, labels ...string) prometheus.Collector {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name}, labels)
		v.WithLabelValues(labels...).Set(1)
		return v
	}
	counter := func(labels ...string) prometheus.Collector {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fluence_a_total"}, labels)
		v.WithLabelValues(labels...).Inc()
		return v
	}
	cases := map[string]struct {
		served []prometheus.Collector
		want   []string
	}{
		"all is as it says": {[]prometheus.Collector{counter("a", "b"), gauge("fluence_gone"), gauge("other")}, nil},
		"no row":            {[]prometheus.Collector{counter("a", "b"), gauge("fluence_gone"), gauge("fluence_new")}, []string{"fluence_new is served and has no row"}},
		"not served":        {[]prometheus.Collector{counter("a", "b")}, []string{"fluence_gone has a row and is not served"}},
		"another type":      {[]prometheus.Collector{gauge("fluence_a_total", "a", "b"), gauge("fluence_gone")}, []string{"fluence_a_total is a gauge, and its row says counter"}},
		"a label too few":   {[]prometheus.Collector{counter("a"), gauge("fluence_gone")}, []string{`fluence_a_total has the labels ["a"], and its row says ["a" "b"]`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := prometheus.NewRegistry()
			r.MustRegister(tc.served...)
			served, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			if got := Differences(rows[Scheduler], served); !slices.Equal(got, tc.want) {
				t.Errorf("differences: %q, want %q", got, tc.want)
			}
		})
	}
}
