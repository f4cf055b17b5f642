package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/perf/cluster/trial"
)

func TestRowsCanBeRun(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		t.Run(r.Name, func(t *testing.T) {
			if seen[r.Name] {
				t.Error("there are two of this name")
			}
			seen[r.Name] = true
			if _, err := r.with(changes{}); err != nil {
				t.Error(err)
			}
			run := []string{r.bracket.Name}
			for _, e := range r.contenders {
				if slices.Contains(run, e.Name) {
					t.Errorf("there are two contenders %s", e.Name)
				}
				run = append(run, e.Name)
			}
			for _, name := range r.Against {
				if !slices.Contains(run, name) {
					t.Errorf("speed is compared with %s, which does not run", name)
				}
			}
			for _, p := range r.Beyond {
				if !slices.Contains(run, p.Contender) || !slices.Contains(run, p.Against) {
					t.Errorf("%s is compared by process with %s; one of them does not run", p.Contender, p.Against)
				}
			}
			for _, e := range r.contenders {
				if e.rateOf != "" && (!r.inOrder || !slices.Contains(run[:slices.Index(run, e.Name)], e.rateOf)) {
					t.Errorf("%s needs the rate of %s, which does not run before it", e.Name, e.rateOf)
				}
			}
			for _, g := range r.Goals {
				for _, name := range []string{g.Contender, g.Against} {
					if name != "" && !slices.Contains(run, name) {
						t.Errorf("%s: %s does not run", g.Text, name)
					}
				}
				if g.Row == "" {
					continue
				}
				if other, err := find(g.Row); err != nil || !other.recorded {
					t.Errorf("%s: row %s is compared with, recorded: %t, %v", g.Text, g.Row, other.recorded, err)
				}
			}
		})
	}
}

func TestContendersTakeTurns(t *testing.T) {
	r := row{
		repetitions: 3, bracket: contender.Ceiling(32),
		contenders: []entry{{Spec: contender.Stock()}, {Spec: contender.Native(), repetitions: 1}, {Spec: contender.Fluence()}},
	}
	var got []string
	for _, turn := range r.turns() {
		got = append(got, fmt.Sprint(turn.repetition, " ", turn.Name, " ", turn.bracket))
	}
	want := []string{
		"0 ceiling true",
		"1 stock false", "1 native false", "1 fluence false", "1 ceiling true",
		"2 fluence false", "2 stock false", "2 ceiling true",
		"3 fluence false", "3 stock false", "3 ceiling true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("turns() (-want +got):\n%s", diff)
	}
}

func TestContendersInOrderDoNotTakeTurns(t *testing.T) {
	r := row{
		repetitions: 2, bracket: contender.Ceiling(32), inOrder: true,
		contenders: []entry{{Spec: contender.Native()}, {Spec: contender.Fluence(), rateOf: "native"}},
	}
	var got []string
	for _, turn := range r.turns() {
		got = append(got, fmt.Sprint(turn.repetition, " ", turn.Name, turn.rateOf))
	}
	want := []string{"0 ceiling", "1 native", "1 fluencenative", "1 ceiling", "2 native", "2 fluencenative", "2 ceiling"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("turns() (-want +got):\n%s", diff)
	}
}

func TestPlans(t *testing.T) {
	cases := map[string]struct {
		row, contender string
		changes        changes
		want           string // pods, room, how long gangs come, the contender that has the rate, and rack
	}{
		"a backlog":                  {row: "gangs-8", contender: "fluence", want: `4000 0 0s "" false`},
		"all that wait":              {row: "waiting", contender: "fluence-50000", want: `50000 4000 0s "" false`},
		"fewer wait":                 {row: "waiting", contender: "fluence-4000", want: `4000 4000 0s "" false`},
		"fewer of fewer":             {row: "waiting", changes: changes{pods: 1000}, contender: "fluence-4000", want: `80 80 0s "" false`},
		"a bracket does not wait":    {row: "waiting", contender: "ceiling-like", want: `4000 0 0s "" false`},
		"a stream":                   {row: "stream", contender: "fluence", want: `4000 0 2m0s "" false`},
		"a stream at another's rate": {row: "stream", changes: changes{seconds: 20}, contender: "fluence-as-native", want: `4000 0 20s "native" false`},
		"a bracket has a backlog":    {row: "stream", contender: "ceiling-like", want: `4000 0 0s "" false`},
		"a short bracket":            {row: "memory", contender: "ceiling-like", want: `4000 0 0s "" false`},
		"racks":                      {row: "rack", contender: "native", want: `4000 0 0s "" true`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := find(tc.row)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = r.with(tc.changes); err != nil {
				t.Fatal(err)
			}
			for _, turn := range r.turns() {
				if turn.Name != tc.contender {
					continue
				}
				p := r.plan(turn)
				var stream trial.Stream
				if p.Stream != nil {
					stream = *p.Stream
				}
				got := fmt.Sprintf("%d %d %v %q %t", p.Pods, p.Room, stream.For, stream.RateOf, p.Rack)
				if got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
			}
		})
	}
}

func TestRacks(t *testing.T) {
	r, err := find("rack")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.parameters(map[string]any{"maxBinds": 64}).Args; len(got) != 2 || !cmp.Equal(got["topologyLevels"], []any{backlog.RackLabel}) {
		t.Errorf("arguments of the plugin: %v, want the level of racks and the other one", got)
	}
	in := map[string]int{}
	for i := range 2 * rackNodes {
		in[r.labels(i)[backlog.RackLabel]]++
	}
	if diff := cmp.Diff(map[string]int{"r000": rackNodes, "r001": rackNodes}, in); diff != "" {
		t.Errorf("nodes in racks (-want +got):\n%s", diff)
	}
	if other, err := find("gangs-8"); err != nil || other.labels(0) != nil {
		t.Errorf("labels of gangs-8: %v, %v, want none", other.labels(0), err)
	}
}

func TestGoalsOnFlowControl(t *testing.T) {
	ours := map[string]float64{"fluence/workload-high": 4000, "fluence-leader-election/leader-election": 3, "exempt/exempt": 9}
	with := func(name string, n float64) map[string]float64 {
		out := maps.Clone(ours)
		out[name] = n
		return out
	}
	cases := map[string]struct {
		dispatched map[string]float64
		tooMany    float64
		want       string
	}{
		"as it has to be":        {ours, 0, "PASS PASS PASS PASS"},
		"answered 429":           {ours, 1, "FAIL PASS PASS PASS"},
		"with service accounts":  {with("service-accounts/workload-low", 5), 0, "PASS FAIL PASS PASS"},
		"binds are elsewhere":    {with("fluence/workload-high", 0), 0, "PASS PASS FAIL PASS"},
		"the lease is elsewhere": {with("fluence-leader-election/leader-election", 0), 0, "PASS PASS PASS FAIL"},
		"nobody counted":         {nil, 0, "OPEN OPEN OPEN OPEN"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &report.Session{Row: "a", Results: []report.Result{{Runs: 1, Contender: "fluence", Repetition: 1, Figures: report.Figures{
				Outcome: report.AllBound, Dispatched: tc.dispatched, TooMany: tc.tooMany,
			}}}}
			var got []string
			for _, v := range report.Judge(governed(), s, nil) {
				got = append(got, string(v.Word))
			}
			if got := strings.Join(got, " "); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestNobodyArrivesForClientsThatOnlyBind(t *testing.T) {
	r, err := find("urgent")
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range r.turns() {
		if got, want := len(r.plan(turn).Arrivals) > 0, turn.Name == "native" || turn.Name == "fluence"; got != want {
			t.Errorf("%s: arrivals: %t, want %t", turn.Name, got, want)
		}
	}
}

func TestAnUnknownRowListsAll(t *testing.T) {
	_, err := find("slow")
	if err == nil || !strings.HasPrefix(err.Error(), `-row: there is no row "slow"`) {
		t.Fatalf("find() = %v", err)
	}
	for _, r := range rows() {
		if !strings.Contains(err.Error(), "\n  "+r.Name+" ") {
			t.Errorf("find() = %v, want it to list %s", err, r.Name)
		}
	}
}

func TestChanges(t *testing.T) {
	cases := map[string]struct {
		row     string
		changes changes
		want    func(*row)
		wantErr string
	}{
		"nothing":                      {row: "quick", want: func(*row) {}},
		"numbers":                      {row: "quick", changes: changes{nodes: 10, pods: 80, repetitions: 1}, want: func(r *row) { r.nodes, r.pods, r.repetitions = 10, 80, 1 }},
		"a gang as large as all":       {row: "lone", changes: changes{pods: 60}, want: func(r *row) { r.pods, r.size = 60, 60 }},
		"fewer contenders":             {row: "quick", changes: changes{only: []string{"fluence", "stock"}}, want: func(r *row) { r.contenders = []entry{r.contenders[2], r.contenders[0]} }},
		"no whole gangs":               {row: "quick", changes: changes{pods: 81}, wantErr: "-pods: 81"},
		"no room":                      {row: "quick", changes: changes{nodes: 10}, wantErr: "-pods: 4000"},
		"no room for those that come":  {row: "urgent", changes: changes{nodes: 10, pods: 80}, wantErr: "-pods: 152"},
		"room for small pods":          {row: "backlog-20000", changes: changes{nodes: 2, pods: 40}, want: func(r *row) { r.nodes, r.pods = 2, 40 }},
		"no room for small pods":       {row: "backlog-20000", changes: changes{nodes: 2, pods: 48}, wantErr: "-pods: 48"},
		"a negative number":            {row: "quick", changes: changes{repetitions: -1}, wantErr: "-repetitions: -1"},
		"a shorter stream":             {row: "stream", changes: changes{seconds: 20}, want: func(r *row) { r.seconds = 20 }},
		"no stream":                    {row: "quick", changes: changes{seconds: 20}, wantErr: "-seconds: row quick has no stream"},
		"more wait than there is room": {row: "waiting", changes: changes{nodes: 10}, want: func(r *row) { r.nodes = 10 }},
		"a part has no whole gangs":    {row: "waiting", changes: changes{pods: 408}, wantErr: "-pods: 33 is no multiple of 8"},
		"an unknown contender":         {row: "quick", changes: changes{only: []string{"volcano"}}, wantErr: `-only: row quick has no contender "volcano"; it has stock, native, fluence`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := find(tc.row)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.with(tc.changes)
			if tc.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.wantErr) {
					t.Errorf("with() = %v, want %q...", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tc.want(&r)
			if diff := cmp.Diff(summary(r), summary(got)); diff != "" {
				t.Errorf("with() (-want +got):\n%s", diff)
			}
		})
	}
}

func summary(r row) string {
	return fmt.Sprint(r.nodes, r.pods, r.size, r.repetitions, r.seconds, r.names())
}
