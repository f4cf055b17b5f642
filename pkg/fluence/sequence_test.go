package fluence

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSlotsAreVerifiedLowestDomainFirst(t *testing.T) {
	nodes := []*nodeWith{
		aNode("a0", inZone("a")).with(aPod("old", ofApp("x"))), aNode("a1", inZone("a")),
		aNode("b0", inZone("b")), aNode("b1", inZone("b")), aNode("c0", inZone("c")), aNode("d0"),
	}
	overZones, overNodes := spreadOver(zoneKey, "x", 1), spreadOver(corev1.LabelHostname, "x", 1)
	cases := map[string]struct {
		edit  []func(*corev1.Pod)
		slots []string
		want  []int
	}{
		"as they come where nothing is spread": {slots: []string{"a0", "a0", "b0"}, want: []int{0, 1, 2}},
		"the lowest zone first":                {edit: []func(*corev1.Pod){overZones}, slots: []string{"a1", "a1", "b0", "b0", "c0"}, want: []int{2, 4, 0, 3, 1}},
		"in a zone the lowest node":            {edit: []func(*corev1.Pod){overNodes, overZones}, slots: []string{"b0", "b0", "b1", "c0"}, want: []int{0, 3, 2, 1}},
		"a node of no zone is as low as one":   {edit: []func(*corev1.Pod){overZones}, slots: []string{"b0", "d0", "b0"}, want: []int{0, 1, 2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := siblingsAmong(t, nodes, nil, asShape(len(tc.slots), append([]func(*corev1.Pod){ofApp("x")}, tc.edit...)...))
			var slots []target
			for _, n := range tc.slots {
				slots = append(slots, target{node: n})
			}
			if got := s.sequence(slots); !slices.Equal(got, tc.want) {
				t.Errorf("order %v, want %v", got, tc.want)
			}
		})
	}
}

// Hundreds of pods over three zones are one round of the filters, not hundreds.
func TestAWideSpreadIsVerifiedInOneRound(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		const pods = 400
		for i := range pods {
			r.node(fmt.Sprintf("n%03d", i), 1, inZone(string(rune('a'+3*i/pods))))
		}
		r.pass(settleTime)
		r.gang(pods, pods, ofApp("x"), spreadOver(zoneKey, "x", 1))
		r.schedule()
		r.pass(settleTime)
		if got := len(r.assigned()); got != pods {
			t.Errorf("%d pods have nodes, want all %d: %s", got, pods, r.message())
		}
	})
}
