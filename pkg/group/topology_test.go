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
		said TopologySaid
		want *jobspec.Topology
		// wantErr are parts of the error's text.
		wantErr []string
	}{
		"nothing":                     {},
		"a level by its type":         {said: TopologySaid{Required: "rack"}, want: &jobspec.Topology{Required: "rack"}},
		"a level by its key":          {said: TopologySaid{Required: "example.com/rack"}, want: &jobspec.Topology{Required: "rack"}},
		"the nodes need no level":     {said: TopologySaid{Balanced: "node"}, want: &jobspec.Topology{Balanced: "node"}},
		"the nodes by their label":    {said: TopologySaid{Required: corev1.LabelHostname}, want: &jobspec.Topology{Required: "node"}},
		"several levels":              {said: TopologySaid{Preferred: "topology.kubernetes.io/zone, rack"}, want: &jobspec.Topology{Preferred: []string{"zone", "rack"}}},
		"required and preferred":      {said: TopologySaid{Required: "zone", Preferred: "rack"}, want: &jobspec.Topology{Required: "zone", Preferred: []string{"rack"}}},
		"required and balanced":       {said: TopologySaid{Required: "zone", Balanced: "node"}, want: &jobspec.Topology{Required: "zone", Balanced: "node"}},
		"preferred and balanced":      {said: TopologySaid{Preferred: "rack", Balanced: "zone"}, wantErr: []string{TopologyPreferredAnnotation, TopologyBalancedAnnotation, `"rack"`, `"zone"`}},
		"whole nodes are no topology": {said: TopologySaid{Exclusive: "true"}},
		"an unknown level":            {said: TopologySaid{Required: "row"}, wantErr: []string{TopologyRequiredAnnotation, `"row"`, `["node" "zone" "rack"]`}},
		"an unknown one among others": {said: TopologySaid{Preferred: "zone,row"}, wantErr: []string{TopologyPreferredAnnotation, `"row"`, `["node" "zone" "rack"]`}},
		"an unknown one to balance":   {said: TopologySaid{Balanced: "Rack"}, wantErr: []string{TopologyBalancedAnnotation, `"Rack"`}},
		"a level twice":               {said: TopologySaid{Preferred: "rack,example.com/rack"}, wantErr: []string{TopologyPreferredAnnotation, "rack is named twice"}},
		"a level without a name":      {said: TopologySaid{Preferred: "rack,"}, wantErr: []string{TopologyPreferredAnnotation, `"rack,"`, "without a name"}},
		"neither true nor false":      {said: TopologySaid{Exclusive: "yes"}, wantErr: []string{ExclusiveAnnotation, `"yes"`, `"true" or "false"`}},
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
