package stack

import (
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	const text = `# HELP jobs_total Jobs.
# TYPE jobs_total counter
jobs_total{kind="a b"} 2
jobs_total{kind="c"} 3
jobs_total_created 9
nodes 1.5e+01
`
	cases := map[string]struct {
		name string
		want float64
	}{
		"labels are added up, longer names left out": {name: "jobs_total", want: 5},
		"a name without labels":                      {name: "nodes", want: 15},
		"one sample by all its labels":               {name: `jobs_total{kind="c"}`, want: 3},
		"a name that is not there":                   {name: "pods", want: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := sum(strings.NewReader(text), tc.name)
			if err != nil || got != tc.want {
				t.Errorf("sum(%q) = %v, %v; want %v", tc.name, got, err, tc.want)
			}
		})
	}
	if _, err := sum(strings.NewReader("nodes many\n"), "nodes"); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("error %v of a value that is no number does not name the metric", err)
	}
}
