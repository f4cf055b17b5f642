package podgroup

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestPhaseOf(t *testing.T) {
	complete := job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now))
	failed := job(4, condition(batchv1.JobFailed, corev1.ConditionTrue, now))
	cases := map[string]struct {
		before scheduling.PodGroupPhase
		pods   []*corev1.Pod
		job    *batchv1.Job
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
		"a Job that is complete":                    {job: complete, pods: pods(1, in(corev1.PodSucceeded)), want: scheduling.PodGroupFinished},
		"a Job that has failed":                     {job: failed, pods: pods(4, in(corev1.PodRunning)), want: scheduling.PodGroupFailed},
		"a Job with more completions to come":       {job: job(4), pods: pods(4, in(corev1.PodSucceeded)), want: scheduling.PodGroupRunning},
		"a Job that retries a failed pod":           {job: job(4), pods: join(pods(1, in(corev1.PodFailed)), pods(3, in(corev1.PodRunning))), want: scheduling.PodGroupScheduling},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := phaseOf(tc.before, countOf(tc.pods), 4, tc.job); got != tc.want {
				t.Errorf("phaseOf(%q, %+v) = %q, want %q", tc.before, countOf(tc.pods), got, tc.want)
			}
		})
	}
}
