package group

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

func TestTopologyIsReadFromAnnotations(t *testing.T) {
	levels := []Level{{Type: "zone", Key: "topology.kubernetes.io/zone"}, {Type: "rack", Key: "example.com/rack"}}
	cases := map[string]struct {
		said TopologyAnnotations
		want *jobspec.Topology
		// wantErr lists parts of the error's text.
		wantErr []string
	}{
		"nothing":                       {},
		"a level by its type":           {said: TopologyAnnotations{Required: "rack"}, want: &jobspec.Topology{Required: "rack"}},
		"a level by its key":            {said: TopologyAnnotations{Required: "example.com/rack"}, want: &jobspec.Topology{Required: "rack"}},
		"the nodes need no level":       {said: TopologyAnnotations{Balanced: "node"}, want: &jobspec.Topology{Balanced: "node"}},
		"the nodes by their label":      {said: TopologyAnnotations{Required: corev1.LabelHostname}, want: &jobspec.Topology{Required: "node"}},
		"several levels":                {said: TopologyAnnotations{Preferred: "topology.kubernetes.io/zone, rack"}, want: &jobspec.Topology{Preferred: []string{"zone", "rack"}}},
		"required and preferred":        {said: TopologyAnnotations{Required: "zone", Preferred: "rack"}, want: &jobspec.Topology{Required: "zone", Preferred: []string{"rack"}}},
		"required and balanced":         {said: TopologyAnnotations{Required: "zone", Balanced: "node"}, want: &jobspec.Topology{Required: "zone", Balanced: "node"}},
		"preferred and balanced":        {said: TopologyAnnotations{Preferred: "rack", Balanced: "zone"}, wantErr: []string{TopologyPreferredAnnotation, TopologyBalancedAnnotation, `"rack"`, `"zone"`}},
		"whole nodes are no topology":   {said: TopologyAnnotations{Exclusive: "true"}},
		"an unknown level":              {said: TopologyAnnotations{Required: "row"}, wantErr: []string{TopologyRequiredAnnotation, `"row"`, `the levels are node, zone, rack `}},
		"an unknown one among others":   {said: TopologyAnnotations{Preferred: "zone,row"}, wantErr: []string{TopologyPreferredAnnotation, `"row"`, `the levels are node, zone, rack `}},
		"an unknown one to balance":     {said: TopologyAnnotations{Balanced: "Rack"}, wantErr: []string{TopologyBalancedAnnotation, `"Rack"`}},
		"a level twice":                 {said: TopologyAnnotations{Preferred: "rack,example.com/rack"}, wantErr: []string{TopologyPreferredAnnotation, "rack is named twice"}},
		"a level without a name":        {said: TopologyAnnotations{Preferred: "rack,"}, wantErr: []string{TopologyPreferredAnnotation, `"rack,"`, "has no name"}},
		"pods per node are no topology": {said: TopologyAnnotations{PodsPerNode: "2"}},
		"no pod per node":               {said: TopologyAnnotations{PodsPerNode: "0"}, wantErr: []string{PodsPerNodeAnnotation, `"0"`, "a whole number from 1 to 100000"}},
		"half a pod per node":           {said: TopologyAnnotations{PodsPerNode: "0.5", Required: "rack"}, wantErr: []string{PodsPerNodeAnnotation, `"0.5"`}},
		"neither true nor false":        {said: TopologyAnnotations{Exclusive: "yes"}, wantErr: []string{ExclusiveAnnotation, `"yes"`, `"true" or "false"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.said.Parse(levels)
			if !reflect.DeepEqual(got, tc.want) || (err == nil) != (tc.wantErr == nil) {
				t.Errorf("parse = %+v, %v; want %+v", got, err, tc.want)
			}
			for _, part := range tc.wantErr {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v, want it to name %s", err, part)
				}
			}
		})
	}
}
