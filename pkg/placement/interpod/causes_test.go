package interpod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// A cause is lasting if it holds for an empty cluster too.
func TestLastingCauses(t *testing.T) {
	nodes := func(full ...int) []*nodeWith {
		all := []*nodeWith{aNode("n0"), aNode("n1"), aNode("n2")}
		for _, i := range full {
			all[i].with(objects.Pod("full", objects.CPU("8")))
		}
		return all
	}
	minDomains := func(c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32(4)) }
	cases := map[string]struct {
		nodes []*nodeWith
		shape *Shape
		want  Cause
	}{
		"more pods than nodes":            {nodes(0), asShape(4, objects.OfApp("x"), objects.AwayFrom("x")), Cause{"at most one to a node (podAntiAffinity on kubernetes.io/hostname), 3 nodes", 3, true}},
		"more pods than nodes with room":  {nodes(0), asShape(3, objects.OfApp("x"), objects.AwayFrom("x")), Cause{"at most one to a node (podAntiAffinity on kubernetes.io/hostname), room on 2 of 3 nodes", 2, false}},
		"too few domains":                 {nodes(0), asShape(4, objects.OfApp("x"), objects.SpreadOver(corev1.LabelHostname, "x", 1, minDomains)), Cause{"spread over nodes, maxSkew 1, minDomains 4: there are 3, so at most 1 in each", 2, true}},
		"too few domains, and all full":   {nodes(0, 1, 2), asShape(4, objects.OfApp("x"), objects.SpreadOver(corev1.LabelHostname, "x", 1, minDomains)), Cause{"spread over nodes, maxSkew 1, minDomains 4: there are 3, so at most 1 in each", 0, true}},
		"domains enough if they had room": {nodes(0), asShape(3, objects.OfApp("x"), objects.SpreadOver(corev1.LabelHostname, "x", 1, minDomains)), Cause{"spread over nodes, maxSkew 1, minDomains 4: there are 3, so at most 1 in each", 2, false}},
		"a domain without room":           {nodes(0), asShape(4, objects.OfApp("x"), objects.SpreadOver(corev1.LabelHostname, "x", 1)), Cause{"spread over nodes, maxSkew 1: n0 has room for 0, so at most 1 in each of the 3", 2, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			none := []map[string]bool{nil}
			got := Causes(constraintsOn(t, tc.nodes, nil, tc.shape), none, none)
			if len(got) != 1 || got[0] != tc.want {
				t.Errorf("causes %+v, want %+v", got, tc.want)
			}
		})
	}
}
