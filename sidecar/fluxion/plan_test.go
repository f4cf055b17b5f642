package fluxion_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A request that the embedded engine plans causes no load either, as long as it fits on the nodes that
// the library knows.
func TestAPlanKeepsToTheNodesOfTheGraph(t *testing.T) {
	oneRack := jobspec.SlotAttributes{Topology: &jobspec.Topology{Required: "rack"}}
	cases := map[string]struct {
		jobspec *jobspec.Jobspec
		near    []string
		waits   bool
	}{
		"limits":                                {jobspec: matchtest.Constrain(cores(4), "w", boundByNode(2))},
		"near a node that has changed":          {jobspec: cores(2), near: []string{"m00"}},
		"a topology":                            {jobspec: matchtest.Constrain(cores(8), "w", oneRack)},
		"a topology that needs the changed one": {jobspec: matchtest.Constrain(cores(13), "w", oneRack), waits: true},
		"shapes with a range": {jobspec: matchtest.Jobspec(
			matchtest.Slot("l", jobspec.Exactly(1), matchtest.Cores(1)), matchtest.Slot("w", jobspec.Between(1, 3), matchtest.Cores(1)),
		)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := func(i int, n int64) *resource.Graph {
					return matchtest.Node(fmt.Sprintf("m%02d", i), [][2]string{{"rack", fmt.Sprint("r", i/3)}}, matchtest.Cores(n))
				}
				var nodes []*resource.Graph
				for i := range 6 {
					nodes = append(nodes, node(i, 4))
				}
				r := slowRig(t, nodes...)
				r.begin(t)
				r.put(t, node(0, 5)) // Now the library does not know it as it is.
				req := r.ask(1, tc.jobspec)
				req.Near = tc.near
				a, err := r.Match(t.Context(), req)
				if err != nil {
					t.Fatalf("Match() = %v", err)
				}
				onChanged := slices.ContainsFunc(a.Slots, func(s match.Slot) bool { return s.Node == "m00" })
				if onChanged != tc.waits {
					t.Errorf("a slot is on the node that has changed: %v, want %v", onChanged, tc.waits)
				}
				r.loads(t, map[bool]int{false: 1, true: 2}[tc.waits])
			})
		})
	}
}
