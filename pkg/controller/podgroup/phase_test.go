package podgroup

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestPhaseOf(t *testing.T) {
	cases := map[string]struct {
		before scheduling.PodGroupPhase
		pods   []*corev1.Pod
		by     ownerVerdict
		want   scheduling.PodGroupPhase
	}{
		"no pods yet":                               {want: scheduling.PodGroupPending},
		"pods without nodes":                        {pods: pods(4), want: scheduling.PodGroupPending},
		"the first pod has a node":                  {pods: join(pods(1, bound), pods(3)), want: scheduling.PodGroupScheduling},
		"all have nodes and none runs":              {pods: pods(4, bound), want: scheduling.PodGroupScheduling},
		"all but one run":                           {pods: join(pods(3, in(corev1.PodRunning)), pods(1, bound)), want: scheduling.PodGroupScheduling},
		"minMember run":                             {pods: join(pods(4, in(corev1.PodRunning)), pods(2)), want: scheduling.PodGroupRunning},
		"some have succeeded and the rest run":      {pods: join(pods(1, in(corev1.PodSucceeded)), pods(3, in(corev1.PodRunning))), want: scheduling.PodGroupRunning},
		"all have succeeded":                        {pods: pods(4, in(corev1.PodSucceeded)), want: scheduling.PodGroupFinished},
		"minMember have succeeded, more run":        {pods: join(pods(4, in(corev1.PodSucceeded)), pods(2, in(corev1.PodRunning))), want: scheduling.PodGroupRunning},
		"one has failed and nobody takes its place": {pods: join(pods(1, in(corev1.PodFailed)), pods(3, in(corev1.PodRunning))), want: scheduling.PodGroupFailed},
		"one has failed and was replaced":           {pods: join(pods(1, in(corev1.PodFailed)), pods(4, in(corev1.PodRunning))), want: scheduling.PodGroupRunning},
		"a running group loses a pod's node":        {before: scheduling.PodGroupRunning, pods: join(pods(3, in(corev1.PodRunning)), pods(1)), want: scheduling.PodGroupUnknown},
		"and gets it back":                          {before: scheduling.PodGroupUnknown, pods: join(pods(3, in(corev1.PodRunning)), pods(1, bound)), want: scheduling.PodGroupScheduling},
		"a running group loses all":                 {before: scheduling.PodGroupRunning, want: scheduling.PodGroupPending},
		"a finished group's pods are removed":       {before: scheduling.PodGroupFinished, want: scheduling.PodGroupFinished},
		"a failed group starts again":               {before: scheduling.PodGroupFailed, pods: pods(4), want: scheduling.PodGroupPending},
		"a Job that is complete":                    {by: finished, pods: pods(1, in(corev1.PodSucceeded)), want: scheduling.PodGroupFinished},
		"a Job that has failed":                     {by: failed, pods: pods(4, in(corev1.PodRunning)), want: scheduling.PodGroupFailed},
		"a Job with more completions to come":       {by: notEnded, pods: pods(4, in(corev1.PodSucceeded)), want: scheduling.PodGroupRunning},
		"a Job that retries a failed pod":           {by: notEnded, pods: join(pods(1, in(corev1.PodFailed)), pods(3, in(corev1.PodRunning))), want: scheduling.PodGroupScheduling},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := phaseOf(tc.before, countOf(each(tc.pods)), 4, tc.by); got != tc.want {
				t.Errorf("phaseOf(%q, %+v) = %q, want %q", tc.before, countOf(each(tc.pods)), got, tc.want)
			}
		})
	}
}

func TestOutcome(t *testing.T) {
	complete := condition(batchv1.JobComplete, corev1.ConditionTrue, now)
	failing := condition(batchv1.JobFailed, corev1.ConditionTrue, now)
	second := func(j *batchv1.Job) { j.Name, j.UID = "eval", "other-uid" }
	other := func(kind string, s ownerState) observation {
		return observation{topOwners: []topOwner{{topOwnerRef: topOwnerRefFrom(metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, UID: "1"}), state: s}}}
	}
	cases := map[string]struct {
		o    observation
		want ownerVerdict
	}{
		"nobody's pods":                      {observation{}, decidedByPods},
		"a Job":                              {of(job(4)), notEnded},
		"a Job that is complete":             {of(job(4, complete)), finished},
		"a Job that has failed":              {of(job(4, failing)), failed},
		"two Jobs, one complete":             {of(job(4, complete), job(4, second)), notEnded},
		"two Jobs, both complete":            {of(job(4, complete), job(4, second, complete)), finished},
		"two Jobs, one complete, one failed": {of(job(4, complete), job(4, second, failing)), failed},
		"a Job that is complete, a bare pod": {of(job(4, complete)).with(nil, pods(1)), decidedByPods},
		"a StatefulSet":                      {of(statefulSet(4, "")), notEnded},
		"a DaemonSet":                        {other("DaemonSet", unsized), notEnded},
		"a kind that is not known":           {other("Crew", unsized), decidedByPods},
		"a Deployment that cannot be read":   {other("Deployment", unreadable), notEnded},
		"a Deployment that has gone":         {other("Deployment", missing), decidedByPods},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.o.ownerVerdict(); got != tc.want {
				t.Errorf("ownerVerdict() = %v, want %v", got, tc.want)
			}
		})
	}
}
