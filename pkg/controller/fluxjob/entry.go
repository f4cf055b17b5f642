package fluxjob

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// An Entry says how a new Job or pod is to be changed so that it waits in its queue. The zero Entry changes nothing.
type Entry struct {
	// Hold is true if a Job is to be suspended, or a pod to be gated.
	Hold bool
	// Label is the value of group.QueueLabel for the object, and TemplateLabel that for its pod template. They are empty if
	// the label is to be as it is.
	Label, TemplateLabel string
	// Since is the value of group.QueuedAnnotation. It is empty without Hold.
	Since string
	// Warnings says why the workload will not start as it is, in words fit for a user.
	Warnings []string
}

// Enter returns how a new Job or pod, which the caller does not change, enters its queue. Nothing depends on it: what enters
// without it is held by the scheduler, and suspended by the controller.
func (q *Queues) Enter(ctx context.Context, obj metav1.Object, now time.Time) Entry {
	var w *workload
	switch o := obj.(type) {
	case *batchv1.Job:
		w = ofJob(o, q.scheduler)
	case *corev1.Pod:
		if metav1.GetControllerOfNoCopy(o) == nil && o.Spec.NodeName == "" {
			w = ofPod(o)
		}
	}
	if w == nil || !q.Served() {
		return Entry{}
	}
	o := observation{now: now, workload: w}
	if queue := q.Default(ctx, obj.GetNamespace()); queue != nil {
		o.byDefault = queue.Name
	}
	name := o.wantedQueue()
	switch {
	case name == "", w.foreign != "" && !w.labelled:
		return Entry{}
	case w.foreign != "":
		return Entry{Warnings: []string{fmt.Sprintf("queue %s: %s: %s", name, v1alpha1.ReasonNotAllowed, w.foreign)}}
	}
	e := Entry{Warnings: q.warnings(ctx, &o, name, obj.GetNamespace())}
	byUser := w.isJob() && w.suspended && w.queued == ""
	if byUser && !w.labelled {
		return Entry{} // it enters when its user resumes it
	}
	if _, has := obj.GetLabels()[group.QueueLabel]; !has && !w.labelled {
		e.Label = name
	}
	if _, has := w.asked.template.Labels[group.QueueLabel]; w.isJob() && !has {
		e.TemplateLabel = name
	}
	if !byUser {
		e.Hold, e.Since = true, group.Queued{Since: now}.String()
	}
	return e
}

// warnings returns why a workload would not start in a queue, as far as that is known before it exists.
func (q *Queues) warnings(ctx context.Context, o *observation, name, namespace string) []string {
	if o.queue = q.Get(ctx, name); o.queue == nil {
		return []string{fmt.Sprintf("queue %s: %s: there is no such Queue; the workload waits until there is", name, v1alpha1.ReasonNoQueue)}
	}
	if !q.Allows(ctx, o.queue, namespace) {
		return []string{fmt.Sprintf("queue %s: %s: the Queue does not take jobs of namespace %s", name, v1alpha1.ReasonNotAllowed, namespace)}
	}
	fj, durationErr, requestErr := o.wanted(&v1alpha1.FluxJob{})
	if valid := o.validity(fj, durationErr, requestErr); valid.Status == metav1.ConditionFalse && valid.Reason != v1alpha1.ReasonInvalidDuration {
		return []string{fmt.Sprintf("queue %s: %s: %s", name, valid.Reason, valid.Message)} // wrong values are warned of anyway
	}
	return nil
}
