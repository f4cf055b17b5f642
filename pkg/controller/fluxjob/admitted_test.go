package fluxjob

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// If the room of a job has an end, the duration that its pods say does not count. A Job that ran before it came into the queue has
// room without an end, and then that duration counts: nothing else ends these pods.
func TestOnlyAKnownEndReplacesTheDurationOfPods(t *testing.T) {
	until := &v1alpha1.JobAllocation{Attempt: 1, End: &metav1.Time{Time: epoch.Add(time.Hour)}}
	cases := map[string]struct {
		allocation *v1alpha1.JobAllocation
		other      string
		unserved   bool
		want       bool
	}{
		"room until a time":         {allocation: until, want: true},
		"room without an end":       {allocation: &v1alpha1.JobAllocation{Attempt: 1}},
		"no room":                   {},
		"the room of another job":   {allocation: until, other: "other"},
		"queues are not served now": {allocation: until, unserved: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := queuesOf(t, &v1alpha1.FluxJob{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "solver" + tc.other}, Status: v1alpha1.FluxJobStatus{Allocation: tc.allocation},
			})
			q.served.Store(!tc.unserved)
			if got := q.Admitted(t.Context(), types.NamespacedName{Namespace: "ns", Name: "solver"}); got != tc.want {
				t.Errorf("Admitted() = %v, want %v", got, tc.want)
			}
		})
	}
}
