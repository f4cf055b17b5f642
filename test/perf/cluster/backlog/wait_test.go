package backlog

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestRefused(t *testing.T) {
	group := func(conditions ...metav1.Condition) scheduling.PodGroup {
		var g scheduling.PodGroup
		g.Status.Conditions = conditions
		return g
	}
	of := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	cases := map[string]struct {
		groups []scheduling.PodGroup
		want   int
	}{
		"none":                    {},
		"nobody looked for nodes": {groups: []scheduling.PodGroup{group()}},
		"two have no room": {want: 2, groups: []scheduling.PodGroup{
			group(of("Scheduled", metav1.ConditionFalse, "NoRoom")),
			group(of("Valid", metav1.ConditionTrue, "Valid"), of("Scheduled", metav1.ConditionFalse, "NoRoom")),
		}},
		"its pods do not all exist": {groups: []scheduling.PodGroup{group(of("Scheduled", metav1.ConditionFalse, "Gathering"))}},
		"it is placed":              {groups: []scheduling.PodGroup{group(of("Scheduled", metav1.ConditionTrue, "Placed"))}},
		"another condition":         {groups: []scheduling.PodGroup{group(of("Valid", metav1.ConditionFalse, "NoRoom"))}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := refused(tc.groups); got != tc.want {
				t.Errorf("refused() = %d, want %d", got, tc.want)
			}
		})
	}
}
