package podgroup_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/objects"
)

// A Job fails after its duration, and a pod without a Job is evicted. Pods whose duration is longer stay, and so do
// pods that have no node yet, and those of a job that has its time limit from a queue. The annotation of the PodGroup goes before the annotations of its pods.
func TestPodsAreEndedAfterTheirDuration(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *podgroup.Config) {
		c.EnforceDuration = true
		c.Admitted = func(_ context.Context, key types.NamespacedName) bool { return strings.Contains(key.Name, "-queued-") }
	})
	lasts := func(d string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: d}
			j.Spec.BackoffLimit = new(int32(6))
		}
	}
	short, long, waits := e.job("short", 2, "", lasts("2s")), e.job("long", 2, "", lasts("1h")), e.job("waits", 2, "", lasts("1s"))
	queued := e.job("queued", 2, "", lasts("1s"))
	alone := e.pod("alone", map[string]string{group.Label: "crew", group.SizeLabel: "1"})
	e.patch(alone, `{"metadata":{"annotations":{%q:"2s"}}}`, group.DurationAnnotation)
	e.bind(slices.Concat(e.podsOf(short, 2), e.podsOf(long, 2), e.podsOf(queued, 2), []*corev1.Pod{alone})...)

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
	for _, job := range []*batchv1.Job{long, waits, queued} {
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

// What nothing else ends is deleted half a minute after its duration: a pod whose eviction is refused for ever by a
// PodDisruptionBudget, and the pod of a Job that no Job controller manages.
func TestPodsThatNobodyEndsAreDeletedAfterTheirDuration(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *podgroup.Config) { c.EnforceDuration = true })
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: selector("kept")},
	}
	e.create(budget)
	// It has a finalizer: it is seen how long it is given.
	slow := objects.Pod("slow", objects.In(e.ns), objects.Asking(), func(p *corev1.Pod) {
		p.Annotations = map[string]string{group.DurationAnnotation: "1s"}
		p.Spec.SchedulerName, p.Spec.TerminationGracePeriodSeconds = e.ns, new(int64(5))
		p.Finalizers = []string{"example.com/slow"}
	})
	e.create(slow)
	e.bind(slow)
	if err := e.client.Delete(e.ctx, slow, client.GracePeriodSeconds(86400)); err != nil {
		t.Fatal(err)
	}
	foreign := e.job("foreign", 1, "", func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/other") })
	lasting := func(name string, edit func(*corev1.Pod)) *corev1.Pod {
		pod := objects.Pod(name, objects.In(e.ns), objects.Asking(), func(p *corev1.Pod) {
			p.Labels = selector("kept").MatchLabels
			p.Spec.SchedulerName, p.Spec.RestartPolicy = e.ns, corev1.RestartPolicyNever
			edit(p)
		})
		e.create(pod)
		return pod
	}
	pods := []*corev1.Pod{
		lasting("kept", func(*corev1.Pod) {}),
		lasting("owned", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(foreign, batchv1.SchemeGroupVersion.WithKind("Job"))}
		}),
	}
	e.bind(pods...)
	eventually.True(e.ctx, t, "the budget counts the pods, which run", func(ctx context.Context) (bool, string) {
		err := e.client.Get(ctx, client.ObjectKeyFromObject(budget), budget)
		return err == nil && budget.Status.CurrentHealthy == 2, fmt.Sprintf("%v, %+v", err, budget.Status)
	})
	for _, pod := range pods {
		e.patch(pod, `{"metadata":{"annotations":{%q:"1s"}}}`, group.DurationAnnotation)
	}
	for _, pod := range pods {
		if got := e.event("Pod", pod.Name, reason.DurationExceeded); !strings.Contains(got, "deleted, because it still ran 30s later: pods hold their nodes for 1s at most") {
			t.Errorf("the event of pod %s says %q", pod.Name, got)
		}
		eventually.True(e.ctx, t, "pod "+pod.Name+" is deleted", func(ctx context.Context) (bool, string) {
			var now corev1.Pod
			err := e.client.Get(ctx, client.ObjectKeyFromObject(pod), &now)
			return err != nil && client.IgnoreNotFound(err) == nil || err == nil && now.DeletionTimestamp != nil, fmt.Sprint(err)
		})
	}
	eventually.True(e.ctx, t, "a pod that is given a day to stop has its usual time", func(ctx context.Context) (bool, string) {
		err := e.client.Get(ctx, client.ObjectKeyFromObject(slow), slow)
		return err == nil && *slow.DeletionGracePeriodSeconds <= 5, fmt.Sprintf("%v, %d seconds", err, slow.DeletionGracePeriodSeconds)
	})
	e.patch(slow, `{"metadata":{"finalizers":null}}`)
}

// A Job whose pods are long over when the controller sees them first is ended as a Job: its pods are not deleted, which it would
// make again.
func TestAJobThatIsLongOverIsEndedAsAJob(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *podgroup.Config) { c.EnforceDuration = true })
	job := e.job("old", 1, "", func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(6)) })
	pods := e.podsOf(job, 1)
	e.bind(pods...)
	bound := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":%q}]}}`, bound)
	if err := e.client.Status().Patch(e.ctx, pods[0], client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	pg := e.until(nameFor("batch/v1", "Job", job), "it exists", func(pg *scheduling.PodGroup) bool { return pg != nil })
	e.patch(pg, `{"metadata":{"annotations":{%q:"10m"}}}`, group.DurationAnnotation)
	eventually.True(e.ctx, t, "the Job gets a deadline", func(ctx context.Context) (bool, string) {
		err := e.client.Get(ctx, client.ObjectKeyFromObject(job), job)
		return err == nil && job.Spec.ActiveDeadlineSeconds != nil, fmt.Sprint(err)
	})
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
