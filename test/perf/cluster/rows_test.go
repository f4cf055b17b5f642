package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
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
		"nothing":                     {row: "quick", want: func(*row) {}},
		"numbers":                     {row: "quick", changes: changes{nodes: 10, pods: 80, repetitions: 1}, want: func(r *row) { r.nodes, r.pods, r.repetitions = 10, 80, 1 }},
		"a gang as large as all":      {row: "lone", changes: changes{pods: 60}, want: func(r *row) { r.pods, r.size = 60, 60 }},
		"fewer contenders":            {row: "quick", changes: changes{only: []string{"fluence", "stock"}}, want: func(r *row) { r.contenders = []entry{r.contenders[2], r.contenders[0]} }},
		"no whole gangs":              {row: "quick", changes: changes{pods: 81}, wantErr: "-pods: 81"},
		"no room":                     {row: "quick", changes: changes{nodes: 10}, wantErr: "-pods: 4000"},
		"no room for those that come": {row: "urgent", changes: changes{nodes: 10, pods: 80}, wantErr: "-pods: 152"},
		"room for small pods":         {row: "backlog-20000", changes: changes{nodes: 2, pods: 40}, want: func(r *row) { r.nodes, r.pods = 2, 40 }},
		"no room for small pods":      {row: "backlog-20000", changes: changes{nodes: 2, pods: 48}, wantErr: "-pods: 48"},
		"a negative number":           {row: "quick", changes: changes{repetitions: -1}, wantErr: "-repetitions: -1"},
		"an unknown contender":        {row: "quick", changes: changes{only: []string{"volcano"}}, wantErr: `-only: row quick has no contender "volcano"; it has stock, native, fluence`},
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
	return fmt.Sprint(r.nodes, r.pods, r.size, r.repetitions, r.names())
}
