package perf

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestWhatAGroupIsToBeTold checks the benchmark's arithmetic against results by hand.
func TestWhatAGroupIsToBeTold(t *testing.T) {
	name := func(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }
	held := map[string]*holding{
		"a": {size: 10, all: 1, daemons: 1},
		"b": {size: 10, all: 10, daemons: 1, byPod: map[types.NamespacedName]int64{name("x"): 7, name("y"): 2}},
		"c": {size: 40, all: 41, daemons: 1, byPod: map[types.NamespacedName]int64{name("z"): 40}},
	}
	cases := map[int64][]string{
		4: {
			"NoRoom",
			"needs 8 pods with cpu 4; room for 2: cpu is short on 2 of 3 nodes (none free)",
			"needs 8 pods with cpu 4; room for 2: cpu is short on 2 of 3 nodes (none free); room for 6 more if pod ns/z ends",
			"needs 8 pods with cpu 4; room for 2: cpu is short on 2 of 3 nodes (none free); room for 1 more if pod ns/x ends",
		},
		40: {"NeverFits", "no node is large enough: cpu 40 wanted, largest node has 39"},
	}
	for cpus, want := range cases {
		reason, messages := expected(held, cpus)
		if got := append([]string{reason}, messages...); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("pods of %d CPUs are to be told\n%q, want\n%q", cpus, got, want)
		}
	}
}
