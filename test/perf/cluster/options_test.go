package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		args    []string
		want    options
		wantErr string
	}{
		"nothing": {want: options{row: "quick"}},
		"arguments of the plugin, of any name and kind": {
			args: []string{"-arg", "maxBinds=64", "-arg", "podEvents=always", "-arg", "topologyLevels=[a, b]", "-arg", "none="},
			want: options{row: "quick", args: map[string]any{"maxBinds": 64.0, "podEvents": "always", "topologyLevels": []any{"a", "b"}, "none": nil}},
		},
		"a changed row": {
			args: []string{"-row", "urgent", "-nodes=20", "-pods=80", "-repetitions=2", "-only=native,fluence", "-out=x.jsonl", "-strict"},
			want: options{row: "urgent", changes: changes{nodes: 20, pods: 80, repetitions: 2, only: []string{"native", "fluence"}}, out: "x.jsonl", strict: true},
		},
		"a stream with profiles": {
			args: []string{"-row=stream", "-seconds=20", "-profile=dir"},
			want: options{row: "stream", changes: changes{seconds: 20}, profiles: "dir"},
		},
		"an argument without a value": {args: []string{"-arg", "maxBinds"}, wantErr: `"maxBinds" is not KEY=VALUE`},
		"an argument without a name":  {args: []string{"-arg", "=1"}, wantErr: `"=1" is not KEY=VALUE`},
		"a value that is no YAML":     {args: []string{"-arg", "a=[1"}, wantErr: "the value of a"},
		"a word that is no flag":      {args: []string{"quick"}, wantErr: `"quick" is no flag`},
		"a number that is none":       {args: []string{"-pods=many"}, wantErr: "-pods"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.args)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("parse() = %v, want it to say %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.want.args == nil {
				tc.want.args = map[string]any{}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(options{}, changes{})); diff != "" {
				t.Errorf("parse() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhereResultsAreKept(t *testing.T) {
	cases := map[string]struct {
		row  string
		args []string
		want string
	}{
		"a row as it is":                    {row: "gangs-8", want: "/repo/" + resultsFile},
		"quick":                             {row: "quick"},
		"a row with fewer pods":             {row: "gangs-8", args: []string{"-pods=80"}},
		"a row with another argument":       {row: "gangs-8", args: []string{"-arg", "maxBinds=64"}},
		"a row with profiles":               {row: "gangs-8", args: []string{"-profile=dir"}},
		"a shorter stream":                  {row: "stream", args: []string{"-seconds=20"}},
		"a changed row with a file for it":  {row: "gangs-8", args: []string{"-pods=80", "-out=x"}, want: "x"},
		"a row as it is, with another file": {row: "gangs-8", args: []string{"-out=x"}, want: "x"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := find(tc.row)
			if err != nil {
				t.Fatal(err)
			}
			o, err := parse(tc.args)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.kept("/repo", r); got != tc.want {
				t.Errorf("kept() = %q, want %q", got, tc.want)
			}
		})
	}
}
