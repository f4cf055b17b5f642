package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

func TestRepetitionsWithoutTimeAreLeftOut(t *testing.T) {
	cases := map[string]struct {
		takes time.Duration // the time of each run
		want  string
	}{
		"there is time for all":         {takes: 2 * time.Minute, want: "0[] 1stock 1fluence 1[] 2fluence 2stock 2[] 3stock 3fluence 3[]"},
		"none for the third":            {takes: 3 * time.Minute, want: "0[] 1stock 1fluence 1[] 2fluence 2stock 2[]"},
		"none for the second":           {takes: 5 * time.Minute, want: "0[] 1stock 1fluence 1[]"},
		"the first is made in any case": {takes: time.Hour, want: "0[] 1stock 1fluence 1[]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := row{repetitions: 3, bracket: contender.Ceiling(32), contenders: []entry{{Spec: contender.Stock()}, {Spec: contender.Fluence()}}}
				var got []string
				var log strings.Builder
				s := &report.Session{}
				var kept []report.Result
				err := r.take(s, report.Result{Session: time.Now()}, &log, func(turn turn) (report.Figures, error) {
					time.Sleep(tc.takes)
					name := turn.Name
					if turn.bracket {
						name = "[]"
					}
					got = append(got, fmt.Sprint(turn.repetition, name))
					return report.Figures{Outcome: report.AllBound, PodsPerSecond: 10}, nil
				}, func(r report.Result) error {
					kept = append(kept, r)
					return nil
				})
				if err != nil || !s.Complete() {
					t.Errorf("take() = %v; complete: %t", err, s.Complete())
				}
				if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
					t.Errorf("runs (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(s.Results, kept); diff != "" {
					t.Errorf("what was kept (-session +kept):\n%s", diff)
				}
				if left := s.Repetitions() < r.repetitions; left != strings.Contains(log.String(), "There is no time for more than") {
					t.Errorf("repetitions are left out: %t; the log is %s", left, &log)
				}
			})
		})
	}
}

func TestStrict(t *testing.T) {
	goal := func(limit float64) []report.Goal {
		return []report.Goal{always("pods/s", report.Speed, limit)}
	}
	other := []report.Goal{{Text: "x", Contender: "fluence", Row: "other", Value: func(v report.View) (float64, bool) {
		return v.Other.Value(report.Speed, "fluence", 1)
	}}}
	line := report.Result{
		Row: "a", Session: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Runs: 1, Contender: "fluence", Repetition: 1,
		Figures: report.Figures{Outcome: report.AllBound, PodsPerSecond: 10},
	}
	file := filepath.Join(t.TempDir(), "others.jsonl")
	there := line
	there.Row = "other"
	if err := report.Append(file, there); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		goals []report.Goal
		file  string
		want  string
	}{
		"reached":                       {goals: goal(10)},
		"missed":                        {goals: goal(9), want: "-strict: 1 of 1 goals were not reached, or are open"},
		"another row, in the same file": {goals: other, file: file},
		"another row that there is not": {goals: other, want: "-strict: 1 of 1 goals were not reached, or are open"},
		"one of two is open":            {goals: join(goal(10), other), want: "-strict: 1 of 2 goals were not reached, or are open"},
		"nothing is asked for":          {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := row{Row: report.Row{Name: "a", Goals: tc.goals}}
			s := &report.Session{Row: "a", Results: []report.Result{line}}
			for _, strict := range []bool{true, false} {
				want := tc.want
				if !strict {
					want = ""
				}
				var got string
				if err := r.judge(io.Discard, s, tc.file, strict); err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("judge(strict: %t) = %q, want %q", strict, got, want)
				}
			}
		})
	}
}
