package fluence

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// Labels in which the pods of a group differ by design make shapes of them only as far
// as pods of the group tell each other apart by them.
func TestPodsAreAlikeThatTheirSiblingsDoNotTellApart(t *testing.T) {
	notBesideTheFirst := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}},
			}},
		}}
	}
	eachByItself := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: zoneKey, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{batchv1.JobCompletionIndexAnnotation},
		}}
	}
	cases := map[string]struct {
		edit func(*corev1.Pod)
		want int
	}{
		"nobody asks":                     {edit: func(*corev1.Pod) {}, want: 1},
		"the first and all others":        {edit: notBesideTheFirst, want: 2},
		"each is to be counted by itself": {edit: eachByItself, want: 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var plan group.Plan
			for i := range 8 {
				plan.Required = append(plan.Required, aPod(fmt.Sprint(i), func(p *corev1.Pod) {
					p.Labels = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i)}
				}, tc.edit))
			}
			if got := len(shapesOf(plan)); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}
