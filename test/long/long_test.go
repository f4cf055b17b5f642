package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// runAll runs parts with the seed 7, and returns the output without the times.
func runAll(ctx context.Context, t *testing.T, dir string, parts ...part) (string, error) {
	t.Helper()
	var out strings.Builder
	r := runner{out: &out, root: t.TempDir(), dir: dir, seed: func() uint64 { return 7 }}
	err := r.run(ctx, parts)
	return regexp.MustCompile(`, \d+s, `).ReplaceAllString(out.String(), ", TIME, "), err
}

func TestAPartThatFailsIsNamedAndTheOthersRun(t *testing.T) {
	dir := t.TempDir()
	got, err := runAll(t.Context(), t, dir,
		part{"good", 3, "trials", "test COUNT=SEED = 3=7"},
		part{"bad", 2, "events", "echo it broke; exit 3"},
		part{"missing", 1, "run", "no-such-program"},
		part{"last", 1, "run", "true"},
	)
	want := "[1/4] good: 3 trials, seed 7, TIME, ok\n" +
		"[2/4] bad: 2 events, TIME, FAILED (exit status 3): " + filepath.Join(dir, "bad.log") + "\n" +
		"[3/4] missing: 1 run, TIME, FAILED (exit status 127): " + filepath.Join(dir, "missing.log") + "\n" +
		"[4/4] last: 1 run, TIME, ok\n"
	if got != want {
		t.Errorf("it printed\n%swant\n%s", got, want)
	}
	if want := "2 of 4 parts did not pass: bad, missing"; err == nil || err.Error() != want {
		t.Errorf("run() = %v, want %q", err, want)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "bad.log")); err != nil || string(text) != "$ echo it broke; exit 3\nit broke\n" {
		t.Errorf("the output of the part that failed: %q, %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%d files are kept, %v; want those of the two that failed", len(left), err)
	}
}

func TestAllPartsMayPass(t *testing.T) {
	if got, err := runAll(t.Context(), t, t.TempDir(), part{"good", 1, "run", "true"}); err != nil {
		t.Errorf("run() = %v:\n%s", err, got)
	}
}

func TestARowOfTheBenchmarkKeepsItsOutput(t *testing.T) {
	dir := t.TempDir()
	p := row("gangs-8")
	p.command = "echo \"" + p.command + "\""
	if got, err := runAll(t.Context(), t, dir, p); err != nil {
		t.Errorf("run() = %v:\n%s", err, got)
	}
	want := "\nmake bench-cluster BENCH=gangs-8 BENCHFLAGS='-strict -out=" + filepath.Join(dir, "bench.jsonl") + "'\n"
	if text, err := os.ReadFile(filepath.Join(dir, "gangs-8.log")); err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("the output that is kept: %q, %v, want it to end with %q", text, err, want)
	}
}

func TestAnInterruptEndsThePartAndNamesWhatDidNotRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		if _, err := os.ReadFile(begun); err != nil { // waits for the part to write
			t.Error(err)
		}
	}()
	_, err := runAll(ctx, t, dir, part{"endless", 1, "run", "echo > " + begun + "; sleep 1000 & wait"}, part{"next", 1, "run", "true"})
	if want := "2 of 2 parts did not pass: endless, next"; err == nil || err.Error() != want {
		t.Errorf("run() = %v, want %q", err, want)
	}
}

func TestPartsAreChosenByName(t *testing.T) {
	all := []part{{name: "a"}, {name: "b"}, {name: "c"}}
	cases := map[string]struct {
		names     []string
		want, err string
	}{
		"none is all":               {want: "a b c"},
		"one":                       {names: []string{"b"}, want: "b"},
		"several, in the old order": {names: []string{"c", "a"}, want: "a c"},
		"an unknown one":            {names: []string{"a", "x"}, err: `no part is called "x"; there are a, b, c`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := choose(all, tc.names)
			if strings.Join(namesOf(got), " ") != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("choose() = %q, %v; want %q, %q", namesOf(got), err, tc.want, tc.err)
			}
		})
	}
}

// go test passes if a test does not exist.
func TestEveryPartRunsTestsThatThereAre(t *testing.T) {
	root, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	test := regexp.MustCompile(`^go test .* \./(\S+) -(?:run|fuzz)='\^\(?([\w|]+)\)?\$' `)
	for _, p := range parts() {
		if seen[p.name] {
			t.Errorf("two parts are called %s", p.name)
		}
		seen[p.name] = true
		m := test.FindStringSubmatch(p.command)
		if m == nil {
			if strings.HasPrefix(p.command, "go test") {
				t.Errorf("%s: %s: names no package and test", p.name, p.command)
			}
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, m[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
		for name := range strings.SplitSeq(m[2], "|") {
			kind := "(t *testing.T) {"
			if strings.Contains(p.command, " -fuzz=") {
				kind = "(f *testing.F) {"
			}
			if !strings.Contains(code.String(), "\nfunc "+name+kind) {
				t.Errorf("%s: there is no %s in %s", p.name, name, m[1])
			}
		}
	}
}

func TestWhatGroupsMayCostIsFuzzedForAnHour(t *testing.T) {
	for _, target := range []string{"./pkg/engine -fuzz='^FuzzWork$'", "./pkg/fluence -fuzz='^FuzzAttempt$'"} {
		if !slices.ContainsFunc(parts(), func(p part) bool {
			return strings.Contains(p.filledIn(7, ""), "-fuzztime=60m ") && strings.Contains(p.command, target)
		}) {
			t.Errorf("no part fuzzes %s for an hour", target)
		}
	}
}
