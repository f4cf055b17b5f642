package cli

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// aQueue is a Queue without jobs.
func aQueue(name string, change ...func(*v1alpha1.Queue)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		Policy: v1alpha1.EASY, NamespaceSelector: &metav1.LabelSelector{}, Defaults: v1alpha1.QueueDefaults{Duration: "1h"},
	}}
	q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: "jobs of the queue may start"}}
	for _, c := range change {
		c(q)
	}
	return q
}

// inQueue makes a Job of pods that ask for this cpu wait in the queue batch, suspended, since a time before noon. It returns the
// Job and its FluxJob.
func inQueue(j *batchv1.Job, pods int32, cpu string, since time.Duration, change ...func(*v1alpha1.FluxJob)) (*batchv1.Job, *v1alpha1.FluxJob) {
	j.Labels = map[string]string{v1alpha1.QueueLabel: "batch"}
	j.Annotations = map[string]string{v1alpha1.QueuedAnnotation: noon.Add(-since).Format(time.RFC3339Nano)}
	j.CreationTimestamp = ago(since)
	j.Spec.Suspend, j.Spec.Parallelism, j.Spec.Completions = new(true), &pods, &pods
	j.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.QueueLabel: "batch"}}, Spec: corev1.PodSpec{
		SchedulerName: "fluence", RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}}}},
	}}
	return j, fluxJob("Job", j.Name, since, append([]func(*v1alpha1.FluxJob){func(fj *v1alpha1.FluxJob) { fj.Spec.Pods = pods }}, change...)...)
}

// fluxJob is the FluxJob of a Job or a pod of namespace lab that waits in the queue batch since a time before noon.
func fluxJob(kind, name string, since time.Duration, change ...func(*v1alpha1.FluxJob)) *v1alpha1.FluxJob {
	o, version := group.Owner{Group: "batch", Kind: kind, Name: name, UID: types.UID("uid-" + name)}, "batch/v1"
	if kind == "Pod" {
		o.Group, version = "", "v1"
	}
	fj := &v1alpha1.FluxJob{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: o.PodGroupName(), UID: "job-" + o.UID, CreationTimestamp: ago(since)}}
	fj.Spec.Queue, fj.Spec.Pods = "batch", 1
	fj.Spec.Workload = v1alpha1.WorkloadReference{APIVersion: version, Kind: kind, Name: name, UID: o.UID}
	fj.Status.Phase = v1alpha1.Waiting
	fj.Status.CreationTime = new(metav1.NewMicroTime(noon.Add(-since)))
	for _, c := range change {
		c(fj)
	}
	return fj
}

// because says why a job waits.
func because(why, message string) func(*v1alpha1.FluxJob) {
	return func(fj *v1alpha1.FluxJob) {
		fj.Status.Conditions = append(fj.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: why, Message: message, LastTransitionTime: ago(time.Minute)})
	}
}

// started gives a job room on nodes, one pod on each, from a time before noon until a time after it.
func started(hosts string, since, until time.Duration) func(*v1alpha1.FluxJob) {
	return func(fj *v1alpha1.FluxJob) {
		fj.Status.Phase, fj.Status.Started = v1alpha1.Running, new(ago(since))
		fj.Status.Allocation = &v1alpha1.JobAllocation{Attempt: 1, At: metav1.NewMicroTime(noon.Add(-since)), End: new(ago(-until)), Seats: []v1alpha1.Seats{{Hosts: hosts, Each: 1}}}
	}
}

// finished ends a job at a time before noon.
func finished(result v1alpha1.JobResult, at time.Duration) func(*v1alpha1.FluxJob) {
	return func(fj *v1alpha1.FluxJob) {
		fj.Status.Phase, fj.Status.Result, fj.Status.Started, fj.Status.Ended = v1alpha1.Finished, result, new(ago(2*time.Hour)), new(ago(at))
		fj.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue, Reason: string(result), Message: "the Job has completed"}}
	}
}

// lasting sets the time limit of a job.
func lasting(duration string) func(*v1alpha1.FluxJob) {
	return func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = duration }
}

// batch has four nodes and a queue. One job runs on two of the nodes for another hour. The first that waits needs all four, and
// is promised them. Another needs two for three hours, and one that is short has just started on a third node.
func batch() []runtime.Object {
	var all []runtime.Object
	add := func(j *batchv1.Job, fj *v1alpha1.FluxJob) *batchv1.Job {
		all = append(all, j, fj)
		return j
	}
	for i := range 4 {
		all = append(all, node(fmt.Sprintf("node-%d", i), "a", "r0"))
	}
	runs := func(j *batchv1.Job, seconds int64, on ...string) {
		j.Spec.Suspend, j.Annotations = nil, nil
		j.Spec.ActiveDeadlineSeconds, j.Status.StartTime = &seconds, new(ago(4*time.Minute))
		all = append(all, podGroup(j, int32(len(on)), int32(len(on)), "Running", scheduled(metav1.ConditionTrue, "Placed", "all pods have nodes")))
		for i, host := range on {
			all = append(all, pod(fmt.Sprintf("%s-%d", j.Name, i), host, "6", ofJob(j)))
		}
	}
	runs(add(inQueue(job("solver"), 2, "6", 10*time.Minute, lasting("64m"), started("node-[0-1]", 4*time.Minute, time.Hour+30*time.Second))), 64*60, "node-0", "node-1")
	add(inQueue(job("training"), 4, "6", 8*time.Minute, because(v1alpha1.ReasonPromised, "promised 4 nodes from 13:00:30Z; needs 4 pods with cpu 6; room for 1"), func(fj *v1alpha1.FluxJob) {
		fj.Status.Promise = &v1alpha1.JobPromise{At: ago(-time.Hour - 30*time.Second), Nodes: 4, Since: ago(4 * time.Minute)}
	}))
	add(inQueue(job("sweep"), 2, "6", 6*time.Minute, lasting("3h"), because(v1alpha1.ReasonNoRoom, "needs 2 pods with cpu 6; room for 1; 4 nodes are promised to lab/job-training from 13:00:30Z")))
	runs(add(inQueue(job("short"), 1, "6", 5*time.Minute, lasting("30m"), started("node-2", 4*time.Minute, 26*time.Minute+30*time.Second))), 30*60, "node-2")
	add(inQueue(job("kept"), 1, "1", 3*time.Minute, func(fj *v1alpha1.FluxJob) { fj.Spec.Held = true }, because(v1alpha1.ReasonHeld, "spec.held is true: it waits until somebody releases it")))
	add(inQueue(job("vast"), 5, "8", 2*time.Minute, because(v1alpha1.ReasonNeverFits, "needs 5 pods with cpu 8: does not fit even when other pods end: only 4 nodes are large enough")))
	long, fj := inQueue(job("long"), 1, "1", time.Minute, lasting("2d"), func(fj *v1alpha1.FluxJob) {
		fj.Status.Phase = v1alpha1.Requested
		fj.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionValid, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDurationOverLimit, Message: "duration 2d: a job of Queue batch may take at most 24h", LastTransitionTime: ago(time.Minute)}}
	})
	add(long, fj)
	single := pod("single", "", "1", func(p *corev1.Pod) {
		p.Labels = map[string]string{v1alpha1.QueueLabel: "batch"}
		p.Annotations = map[string]string{v1alpha1.QueuedAnnotation: noon.Format(time.RFC3339Nano)}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.QueueGate}}
	})
	all = append(all, single, fluxJob("Pod", "single", time.Second, lasting("10m"), func(fj *v1alpha1.FluxJob) { fj.Spec.Priority, fj.Status.Phase = 10, v1alpha1.Requested }))
	past, fj := inQueue(job("past"), 2, "1", 3*time.Hour, finished(v1alpha1.Succeeded, time.Hour))
	past.Spec.Suspend, past.Annotations = nil, nil
	past.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}}
	add(past, fj)
	free := job("free")
	free.Spec.Suspend = new(true)
	return append(all, free, queues()[0])
}

// asksForMore has jobs that run and ask for longer than they get, one that had started and waits again, and a pod of which the
// kubelet knows the old time limit.
func asksForMore() []runtime.Object {
	delayed := func(fj *v1alpha1.FluxJob) {
		fj.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionValid, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWouldDelay, Message: "lab/job-training is promised its nodes from 13:00:30Z"}}
	}
	all := queues()[:1]
	for i, asks := range []func(*v1alpha1.FluxJob){lasting("inf"), lasting("40h"), func(fj *v1alpha1.FluxJob) { lasting("3h")(fj); delayed(fj) }} {
		j, fj := inQueue(job([]string{"endless", "over", "delayed"}[i]), 1, "1", time.Hour, started("node-1", time.Minute, 59*time.Minute+30*time.Second), asks)
		j.Spec.Suspend = new(false)
		all = append(all, j, fj, pod(j.Name+"-0", "node-1", "1", ofJob(j)))
	}
	again, fj := inQueue(job("again"), 1, "1", 2*time.Hour, lasting("1h"), because(v1alpha1.ReasonPreempted, "its room was given to lab/urgent"), func(fj *v1alpha1.FluxJob) { fj.Status.Started = new(ago(time.Hour)) })
	single := pod("single", "node-1", "1", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(600)) })
	return append(all, again, fj, single, fluxJob("Pod", "single", time.Hour, lasting("2h"), started("node-1", time.Minute, 2*time.Hour)), node("node-1", "a", "r0"))
}

// defaults are queues that are the default of the same namespace. One of them is not ready either.
func defaults() []runtime.Object {
	taken := func(q *v1alpha1.Queue) {
		q.Spec.DefaultFor = &metav1.LabelSelector{}
		q.Status.Conditions = append(q.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDefaultOverlaps, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDefaultTaken, Message: "spec.defaultFor: Jobs of lab go into Queue batch, which is older"})
	}
	return []runtime.Object{
		aQueue("batch"), aQueue("late", taken),
		aQueue("wrong", func(q *v1alpha1.Queue) {
			q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoNodes", Message: "spec.requires: no node has the labels partition=gone"}}
		}, taken),
	}
}

// queues are the queues of an administrator: one that is in use, one that is stopped, one that takes no more, and one with a fault.
func queues() []runtime.Object {
	return []runtime.Object{
		aQueue("batch", func(q *v1alpha1.Queue) {
			q.Spec.Limits = v1alpha1.QueueLimits{Duration: "24h", Running: new(int32(10)), Requests: corev1.ResourceList{"cpu": resource.MustParse("200")}}
			q.Status.Pending, q.Status.Running = 5, 2
			q.Status.Used = corev1.ResourceList{"cpu": resource.MustParse("18"), "memory": resource.MustParse("3Gi")}
			q.Status.Head = &v1alpha1.QueueHead{Namespace: "lab", Name: fluxJob("Job", "training", 0).Name, At: new(ago(-time.Hour - 30*time.Second))}
		}),
		aQueue("debug", func(q *v1alpha1.Queue) {
			q.Spec.Priority, q.Spec.Policy, q.Spec.Started = 10, v1alpha1.FCFS, new(false)
			q.Status.Used = corev1.ResourceList{"cpu": resource.MustParse("500m")}
		}),
		aQueue("old", func(q *v1alpha1.Queue) { q.Spec.Enabled = new(false) }),
		aQueue("rough", func(q *v1alpha1.Queue) {
			q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCannotReserve, Message: `spec.policy: "easy": the matcher's engine cannot promise room`}}
		}),
		aQueue("wrong", func(q *v1alpha1.Queue) {
			q.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoNodes", Message: "spec.requires: no node has the labels partition=gone"}}
		}),
	}
}
