package placement

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// Other namespaces have the share in the cost of the filters that their terms have.
func TestForeignShare(t *testing.T) {
	everywhere := func(p *corev1.Pod) {
		terms := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		for i := range terms {
			terms[i].NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		}
	}
	for name, tc := range map[string]struct {
		own, others func(*corev1.Pod)
		want        float64
	}{
		"none":                               {nil, nil, 0},
		"its own alone":                      {objects.ShunningIn(1, 0), nil, 0},
		"those of others alone":              {nil, objects.ShunningIn(1, 0, objects.Namespace), 1},
		"as many":                            {objects.ShunningIn(1, 0), objects.ShunningIn(1, 0, objects.Namespace), 0.5},
		"more labels in its own":             {objects.ShunningIn(1, 6), objects.ShunningIn(1, 0, objects.Namespace), 0.2},
		"the same term again and again":      {objects.ShunningIn(9, 0), objects.ShunningIn(1, 0, objects.Namespace), 0.1},
		"those of others do not go for it":   {objects.ShunningIn(1, 7), objects.ShunningIn(1, 99, "third"), 0.1},
		"those of others may, by its labels": {objects.ShunningIn(1, 0), func(p *corev1.Pod) { objects.ShunningIn(1, 4)(p); everywhere(p) }, 7. / 9},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			if tc.own != nil {
				pods = append(pods, objects.Pod("own", objects.OnNode("n1"), tc.own))
			}
			if tc.others != nil {
				pods = append(pods, objects.Pod("theirs", objects.Elsewhere, objects.OnNode("n1"), tc.others))
			}
			inProfile(t, []*corev1.Node{objects.ReadyNode("n1", 8)}, pods, func(p *profile) {
				if got := p.foreignShare(objects.Namespace); math.Abs(got-tc.want) > 1e-9 {
					t.Errorf("their share is %v, want %v", got, tc.want)
				}
			})
		})
	}
}
