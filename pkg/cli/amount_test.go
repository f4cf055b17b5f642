package cli

import (
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/resource"
)

func TestAmountsAreWrittenAsUsersWriteThem(t *testing.T) {
	cases := map[string]struct {
		of   string
		n    int64
		want string
	}{
		"no core":                       {"core", 0, "0"},
		"whole cores":                   {"core", 8000, "8"},
		"half a core":                   {"core", 500, "0.5"},
		"a thousandth of a core":        {"core", 1, "0.001"},
		"no memory":                     {"memory", 0, "0"},
		"bytes":                         {"memory", 1023, "1023"},
		"one kibibyte":                  {"memory", 1 << 10, "1Ki"},
		"less than 1Gi is no 1Gi":       {"memory", 1<<30 - 1, "1023.9Mi"},
		"gibibytes":                     {"memory", 251 << 30, "251Gi"},
		"a part of one":                 {"memory", 3<<29 + 1<<20, "1.5Gi"},
		"the most that there can be":    {"memory", math.MaxInt64, "8191.9Pi"},
		"ephemeral storage is bytes":    {"ephemeral-storage", 1 << 20, "1Mi"},
		"huge pages are bytes":          {"hugepages-2Mi", 4 << 20, "4Mi"},
		"what is counted":               {"nvidia.com/gpu", 4096, "4096"},
		"pods are counted, not weighed": {"pods", 1 << 20, "1048576"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := amount(tc.of, tc.n); got != tc.want {
				t.Errorf("amount(%s, %d) = %s, want %s", tc.of, tc.n, got, tc.want)
			}
		})
	}
}

func TestTheGraphIsReadBack(t *testing.T) {
	out, errOut, code := call{args: "graph -o jgf" + levels, objects: cluster()}.run(t)
	if code != ExitYes {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	g, err := resource.ReadJGF([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	nodes, used := 0, 0
	for _, v := range g.Vertices {
		if v.Type == resource.TypeNode {
			nodes++
		}
		if v.Type == "core" && v.Properties[usedProperty] == "6000" {
			used++
		}
	}
	if nodes != 8 || used != 4 {
		t.Errorf("%d nodes, of 4 of which 6 cores are used: %d; want 8, 4", nodes, used)
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	for name, tc := range map[string]struct {
		args     string
		terminal bool
		want     bool
	}{
		"no terminal":                 {"graph", false, false},
		"a terminal":                  {"graph", true, true},
		"a terminal that wants none":  {"graph --color never", true, false},
		"no terminal, but wanted":     {"graph --color always", false, true},
		"a terminal with json":        {"graph -o json", true, false},
		"a terminal with yaml output": {"nodes -o yaml", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, _ := call{args: tc.args, objects: cluster(), terminal: tc.terminal}.run(t)
			if got := strings.Contains(out, "\x1b["); got != tc.want {
				t.Errorf("colours: %v, want %v:\n%s", got, tc.want, out)
			}
		})
	}
}

func TestCompletionOffersNoWordThatAShellExpands(t *testing.T) {
	for name, want := range map[string]bool{
		"training": true, "web-0.a_b": true, "$(touch x)": false, "`touch x`": false, "a b": false, "a;b": false, "a\nb": false,
	} {
		pg := podGroup(job("training"), 1, 0, "Pending")
		pg.OwnerReferences[0].Name = name
		out, errOut, code := call{args: "__complete why --kubeconfig KUBECONFIG job", objects: []runtime.Object{pg}, completes: true}.run(t)
		if offers := strings.Contains(out, "job/"); code != ExitYes || offers != want || !strings.Contains(out, pg.Name) {
			t.Errorf("owner %q is offered: %v, want %v; exit code %d, output:\n%s%s", name, offers, want, code, out, errOut)
		}
	}
}

func TestCompletion(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"groups":             {"__complete why --kubeconfig KUBECONFIG job-", "job-training-d95379c6be"},
		"owners of groups":   {"__complete why --kubeconfig KUBECONFIG job/", "job/solver\njob/training\n:4"},
		"nodes":              {"__complete nodes --kubeconfig KUBECONFIG node-1", "node-1\n:4"},
		"nodes of groups":    {"__complete groups --kubeconfig KUBECONFIG --node node-1", "node-1\n:4"},
		"domains":            {"__complete graph --kubeconfig KUBECONFIG --topology-levels example.com/rack rack/r1", "rack/r1\n:4"},
		"namespaces":         {"__complete groups --kubeconfig KUBECONFIG -n l", "lab\n:4"},
		"levels":             {"__complete graph --kubeconfig KUBECONFIG --topology-levels example.com/rack --depth ", "node\nrack\n:4"},
		"label keys":         {"__complete graph --kubeconfig KUBECONFIG --topology-levels a/b,example", "a/b,example.com/rack\n:4"},
		"outputs":            {"__complete graph -o ", "jgf"},
		"commands":           {"__complete sim", "simulate"},
		"nothing after name": {"__complete why --kubeconfig KUBECONFIG job-x ", ":4"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := call{args: tc.args, objects: append(cluster(), lab()), completes: true}.run(t)
			if code != ExitYes || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d, want %q in:\n%s%s", code, tc.want, out, errOut)
			}
		})
	}
}
