package interpod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

func TestSlotsAreVerifiedLowestDomainFirst(t *testing.T) {
	nodes := []*nodeWith{
		aNode("a0", objects.InZone("a")).with(objects.Pod("old", objects.OfApp("x"))), aNode("a1", objects.InZone("a")),
		aNode("b0", objects.InZone("b")), aNode("b1", objects.InZone("b")), aNode("c0", objects.InZone("c")), aNode("d0"),
	}
	overZones, overNodes := objects.SpreadOver(objects.ZoneKey, "x", 1), objects.SpreadOver(corev1.LabelHostname, "x", 1)
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
			s := constraintsOn(t, nodes, nil, asShape(len(tc.slots), append([]func(*corev1.Pod){objects.OfApp("x")}, tc.edit...)...))
			var slots []Target
			for _, n := range tc.slots {
				slots = append(slots, Target{Node: n})
			}
			if got := s.Order(slots); !slices.Equal(got, tc.want) {
				t.Errorf("order %v, want %v", got, tc.want)
			}
		})
	}
}
