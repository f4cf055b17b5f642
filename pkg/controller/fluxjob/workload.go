package fluxjob

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

const (
	jobKind = "Job"
	podKind = "Pod"
)

// A workload is what a Job or a pod says of itself.
type workload struct {
	// object is the Job or the pod, as the cache has it.
	object client.Object
	owner  group.Owner
	// queue is the queue that its labels name, and labelled is whether they do.
	queue    string
	labelled bool
	// foreign says why the workload cannot wait in a queue, in words fit for a user. It is empty if it can.
	foreign string
	// elsewhere is true if the pods ask for another scheduler. A FluxJob is that scheduler's, if it is one of Fluence.
	elsewhere bool
	// suspended is true if a Job is suspended, or if a pod has the gate of queues.
	suspended bool
	// queued is the value of group.QueuedAnnotation. With it, a Job was suspended by Fluence.
	queued string
	// preempted is true if the scheduler has suspended a Job, so that its pods make room.
	preempted bool
	// onNode is true if a pod has a node.
	onNode bool
	// active is true if a Job has pods that have not ended, as far as the Job controller has said.
	active bool
	// ended is how it has ended. It is nil if it has not.
	ended *ending
	asked request
	// deadline is spec.activeDeadlineSeconds.
	deadline *int64
	// deadlineNote is the value of group.DeadlineAnnotation.
	deadlineNote string
}

// A request is what the pods of a workload ask for.
type request struct {
	// pods is the number of pods that run at a time. 0 means that it makes none now.
	pods int32
	// template is the pod template, or what the pod itself has of one.
	template corev1.PodTemplateSpec
}

func (w *workload) isJob() bool { return w.owner.Kind == jobKind }

// reference returns the reference of a FluxJob to the workload.
func (w *workload) reference() v1alpha1.WorkloadReference {
	apiVersion := corev1.SchemeGroupVersion.String()
	if w.isJob() {
		apiVersion = batchv1.SchemeGroupVersion.String()
	}
	return v1alpha1.WorkloadReference{APIVersion: apiVersion, Kind: w.owner.Kind, Name: w.owner.Name, UID: w.owner.UID}
}

// waits returns since when the workload waits, by its annotation. Users can write the annotation, so it is not before the
// workload was made. Without one it is now, or at the end of the second in which it was made.
func (w *workload) waits(now time.Time) time.Time {
	made := w.object.GetCreationTimestamp().Time
	since := group.ParseQueued(w.queued).Since
	if since.IsZero() {
		since = made.Add(time.Second - time.Microsecond)
	}
	if since.Before(made) {
		since = made
	}
	if since.After(now) {
		since = now
	}
	return since.Truncate(time.Microsecond)
}

// ofJob reads a Job.
func ofJob(job *batchv1.Job, scheduler string) *workload {
	w := &workload{
		object: job, owner: group.Owner{Group: batchv1.GroupName, Kind: jobKind, Name: job.Name, UID: job.UID},
		suspended: ptr.Deref(job.Spec.Suspend, false),
		queued:    job.Annotations[group.QueuedAnnotation],
		preempted: group.SuspendedFor(job) != "",
		active:    job.Status.Active > 0,
		ended:     jobEnding(job),
		asked:     request{pods: podsOf(job), template: job.Spec.Template},
		deadline:  job.Spec.ActiveDeadlineSeconds, deadlineNote: job.Annotations[group.DeadlineAnnotation],
	}
	w.asked.template.Namespace = job.Namespace
	w.queue, w.labelled = group.QueueOf(job.Labels, job.Spec.Template.Labels)
	w.elsewhere = job.Spec.Template.Spec.SchedulerName != scheduler
	w.foreign = foreignJob(job, scheduler)
	return w
}

// podsOf returns how many pods a Job still runs at a time.
func podsOf(job *batchv1.Job) int32 {
	n := ptr.Deref(job.Spec.Parallelism, 1)
	switch {
	case job.Spec.Completions != nil:
		n = min(n, *job.Spec.Completions-job.Status.Succeeded)
	default:
		n -= job.Status.Succeeded // a pod that has succeeded is not replaced
	}
	return max(0, n)
}

// ofPod reads a pod that nothing controls.
func ofPod(pod *corev1.Pod) *workload {
	w := &workload{
		object: pod, owner: group.Owner{Kind: podKind, Name: pod.Name, UID: pod.UID},
		suspended: hasGate(pod.Spec.SchedulingGates),
		queued:    pod.Annotations[group.QueuedAnnotation],
		onNode:    pod.Spec.NodeName != "",
		ended:     podEnding(pod),
		asked:     request{pods: 1, template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}},
		deadline:  pod.Spec.ActiveDeadlineSeconds,
	}
	w.queue, w.labelled = group.QueueOf(pod.Labels)
	w.foreign = foreignPods("it", pod.Labels, &pod.Spec)
	return w
}

// isOthers reports whether somebody else decides when a workload starts: another controller of a Job, or whoever removes another
// gate of a pod.
func (w *workload) isOthers() bool {
	if job, is := w.object.(*batchv1.Job); is {
		return group.WhyOthers(job) != ""
	}
	return slices.ContainsFunc(w.asked.template.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name != v1alpha1.QueueGate })
}

// hasGate reports whether the gate of queues is among some gates.
func hasGate(gates []corev1.PodSchedulingGate) bool {
	for _, g := range gates {
		if g.Name == v1alpha1.QueueGate {
			return true
		}
	}
	return false
}

// foreignJob says why a Job cannot wait in a queue. It returns "" if it can.
func foreignJob(job *batchv1.Job, scheduler string) string {
	spec := &job.Spec
	if why := group.WhyOthers(job); why != "" {
		return why
	}
	if is := spec.Template.Spec.SchedulerName; is != scheduler {
		return fmt.Sprintf("spec.template.spec.schedulerName: %q: only pods of the scheduler %s wait in queues", is, scheduler)
	}
	if spec.Scheduling != nil {
		return "spec.scheduling: the Job's pods are in a native PodGroup: they do not wait in queues"
	}
	return foreignPods("the Job's pod template", spec.Template.Labels, &spec.Template.Spec)
}

// foreignPods says why pods cannot wait in a queue. It returns "" if they can.
func foreignPods(what string, labels map[string]string, spec *corev1.PodSpec) string {
	if name := group.NativePodGroupOf(spec); name != "" {
		return fmt.Sprintf("%s names the native PodGroup %s: its pods do not wait in queues", what, name)
	}
	if name := labels[group.Label]; name != "" {
		return fmt.Sprintf("label %s: %q: %s names a PodGroup, which others may share: only Jobs and single pods wait in queues", group.Label, name, what)
	}
	if queue, has := labels[group.KueueLabel]; has {
		return fmt.Sprintf("label %s: %q: Kueue manages the pods", group.KueueLabel, queue)
	}
	for _, g := range spec.SchedulingGates {
		if g.Name != v1alpha1.QueueGate {
			return fmt.Sprintf("spec.schedulingGates: %q: %s waits for something else first", g.Name, what)
		}
	}
	return ""
}

// keyOf returns the name under which a workload is reconciled: KIND/NAME/UID. No object can have such a name.
func keyOf(namespace, kind, name string, uid types.UID) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: kind + "/" + name + "/" + string(uid)}}
}

// ownerOf reads a name of keyOf. It returns false for the name of a FluxJob whose workload is not its own.
func ownerOf(key string) (group.Owner, bool) {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) != 3 {
		return group.Owner{}, false
	}
	o := group.Owner{Kind: parts[0], Name: parts[1], UID: types.UID(parts[2])}
	if o.Kind == jobKind {
		o.Group = batchv1.GroupName
	}
	return o, true
}
