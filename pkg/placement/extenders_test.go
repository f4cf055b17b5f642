package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/test/objects"
)

func TestExtendersNarrowTheMatch(t *testing.T) {
	busy := func() *objects.Extender {
		return &objects.Extender{Failed: extenderv1.FailedNodesMap{"n1": "busy"}, Never: extenderv1.FailedNodesMap{"n2": "wrong kind"}}
	}
	broken := errors.New("connection refused")
	cases := map[string]struct {
		all        []*objects.Extender
		late       bool
		never, now []string
		why        map[string]int
		refused    string
		// asked are the nodes that the last extender was asked about. It is nil if it
		// was not asked.
		asked []string
	}{
		"its words are taken over": {
			all: []*objects.Extender{busy()}, never: []string{"n0", "n2"}, now: []string{"n1"}, asked: []string{"n1", "n2", "n3"},
			why: map[string]int{"extender ext: busy": 1, "extender ext: wrong kind": 1},
		},
		"the next is asked about what is left": {
			all: []*objects.Extender{busy(), {}}, never: []string{"n0", "n2"}, now: []string{"n1"}, asked: []string{"n3"},
			why: map[string]int{"extender ext: busy": 1, "extender ext: wrong kind": 1},
		},
		"one that does not care is not asked":  {all: []*objects.Extender{{Indifferent: true}}, never: []string{"n0"}, why: map[string]int{}},
		"after the time of a match none is":    {all: []*objects.Extender{busy()}, late: true, never: []string{"n0"}, why: map[string]int{}},
		"an error that may be ignored is":      {all: []*objects.Extender{{Err: broken, Ignorable: true}}, never: []string{"n0"}, why: map[string]int{}, asked: []string{"n1", "n2", "n3"}},
		"an error that may not is told":        {all: []*objects.Extender{{Err: broken}}, never: []string{"n0"}, why: map[string]int{}, asked: []string{"n1", "n2", "n3"}, refused: "pod p: extender ext: connection refused"},
		"without extenders nothing is changed": {never: []string{"n0"}, why: map[string]int{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var nodes []fwk.NodeInfo
			for i := range 4 {
				nodes = append(nodes, infoOf(objects.ReadyNode(fmt.Sprint("n", i), 1)))
			}
			at := time.Unix(100, 0)
			e := extenders{now: func() time.Time { return at }, deadline: at.Add(time.Second)}
			if tc.late {
				e.deadline = at.Add(-time.Second)
			}
			for _, x := range tc.all {
				e.all = append(e.all, x)
			}
			out := filterResult{unresolvable: []string{"n0"}, nodesByMessage: map[string]int{}}
			out.filters = out.filters.Union(nil)
			refused := e.filter(objects.Pod("p"), nodes, &out)
			if got := ""; refused != nil {
				if got = refused.Message; got != tc.refused {
					t.Errorf("refused: %q, want %q", got, tc.refused)
				}
			} else if tc.refused != "" {
				t.Errorf("not refused, want %q", tc.refused)
			}
			if !slices.Equal(out.unresolvable, tc.never) || !slices.Equal(out.unschedulable, tc.now) || !maps.Equal(out.nodesByMessage, tc.why) {
				t.Errorf("never %v, now %v, why %v; want %v, %v, %v", out.unresolvable, out.unschedulable, out.nodesByMessage, tc.never, tc.now, tc.why)
			}
			if len(tc.all) > 0 {
				var asked []string
				for _, names := range tc.all[len(tc.all)-1].Asked {
					asked = append(asked, names...)
				}
				if !slices.Equal(asked, tc.asked) {
					t.Errorf("asked about %v, want %v", asked, tc.asked)
				}
			}
		})
	}
}
