package podgroup_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/eventually"
)

// A Job fails after its duration, and a pod without a Job is evicted. Pods whose duration is longer stay, and so do
// pods without a node, whose time has not begun. The duration of a PodGroup counts instead of that of its pods.
func TestPodsAreEndedAfterTheirDuration(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *podgroup.Config) { c.EnforceDuration = true })
	lasts := func(d string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: d}
			j.Spec.BackoffLimit = new(int32(6))
		}
	}
	short, long, waits := e.job("short", 2, "", lasts("2s")), e.job("long", 2, "", lasts("1h")), e.job("waits", 2, "", lasts("1s"))
	alone := e.pod("alone", map[string]string{group.Label: "crew", group.SizeLabel: "1"})
	e.patch(alone, `{"metadata":{"annotations":{%q:"2s"}}}`, group.DurationAnnotation)
	e.bind(slices.Concat(e.podsOf(short, 2), e.podsOf(long, 2), []*corev1.Pod{alone})...)

	failed := func(job *batchv1.Job) (bool, string) {
		var now batchv1.Job
		if err := e.client.Get(e.ctx, client.ObjectKeyFromObject(job), &now); err != nil {
			return false, err.Error()
		}
		for _, c := range now.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				return c.Reason == batchv1.JobReasonDeadlineExceeded, c.Reason
			}
		}
		return false, fmt.Sprint(now.Status.Conditions)
	}
	ends := func(job *batchv1.Job) {
		t.Helper()
		eventually.True(e.ctx, t, "Job "+job.Name+" fails by its deadline", func(context.Context) (bool, string) { return failed(job) })
	}
	ends(short)
	eventually.True(e.ctx, t, "the pod is evicted", func(ctx context.Context) (bool, string) {
		var now corev1.Pod
		err := e.client.Get(ctx, client.ObjectKeyFromObject(alone), &now)
		return err != nil && client.IgnoreNotFound(err) == nil || err == nil && now.DeletionTimestamp != nil, fmt.Sprint(err)
	})
	if got := e.event("Job", "short", reason.DurationExceeded); !strings.Contains(got, "hold their nodes for 2s at most") {
		t.Errorf("the event says %q", got)
	}
	for _, job := range []*batchv1.Job{long, waits} {
		if is, _ := failed(job); is {
			t.Errorf("Job %s is ended", job.Name)
		}
	}
	// Its duration becomes shorter while it runs.
	name := nameFor("batch/v1", "Job", long)
	pg := e.until(name, "it exists", func(pg *scheduling.PodGroup) bool { return pg != nil })
	e.patch(pg, `{"metadata":{"annotations":{%q:"1s"}}}`, group.DurationAnnotation)
	ends(long)
}

// Without the setting, a duration is a wish.
func TestADurationIsAWish(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("short", 1, "", func(j *batchv1.Job) {
		j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "100ms"}
	})
	e.bind(e.podsOf(job, 1)...)
	e.untilPhase(nameFor("batch/v1", "Job", job), scheduling.PodGroupRunning)
	var now batchv1.Job
	if err := e.client.Get(e.ctx, client.ObjectKeyFromObject(job), &now); err != nil || now.Spec.ActiveDeadlineSeconds != nil {
		t.Errorf("the Job has a deadline of %v, error %v", now.Spec.ActiveDeadlineSeconds, err)
	}
}
