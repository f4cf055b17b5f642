package backlog

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestHowThePodsOfAGangNameTheirPodGroup(t *testing.T) {
	cases := map[string]struct {
		by            Scheduler
		native        bool
		label, inSpec string
	}{
		"for kube-scheduler":                  {by: Default, inSpec: "g"},
		"for Fluence":                         {by: Fluence, label: "g"},
		"for Fluence, with native PodGroups":  {by: Fluence, native: true, inSpec: "g"},
		"for kube-scheduler, whatever is set": {by: Default, native: true, inSpec: "g"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pod(tc.by, resource.MustParse("1"), Gang{Name: "g", Group: true, Native: tc.native}, "g-0")
			inSpec := ""
			if g := p.Spec.SchedulingGroup; g != nil {
				inSpec = *g.PodGroupName
			}
			if label := p.Labels[scheduling.PodGroupLabel]; label != tc.label || inSpec != tc.inSpec {
				t.Errorf("the label names %q and the spec %q, want %q and %q", label, inSpec, tc.label, tc.inSpec)
			}
		})
	}
}
