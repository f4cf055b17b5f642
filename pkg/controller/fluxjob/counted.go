package fluxjob

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// A Job whose pods have nodes before it is in a queue has passed the others, and counts in the queue from the start. So it has to be
// one that the queue would take, and one with which the queue is within its limits. Otherwise anybody could fill a queue by
// labelling what runs.

// A usage is what jobs have of a queue.
type usage struct {
	// running is the number of jobs with room. ofNamespace is the number of these in one namespace.
	running, ofNamespace int32
	// requests is what they request together.
	requests corev1.ResourceList
}

// whyNotCounted returns why a Job that has pods on nodes may not count in its queue. It returns nothing if it may.
func (o *observation) whyNotCounted() (because, text string) {
	q := o.queue
	switch {
	case q == nil:
		return v1alpha1.ReasonNoQueue, "there is no such Queue"
	case !o.allowed():
		return v1alpha1.ReasonNotAllowed, "the Queue does not take jobs of namespace " + o.workload.object.GetNamespace()
	case !ptr.Deref(q.Spec.Enabled, true):
		return v1alpha1.ReasonNotAllowed, "the Queue takes no new jobs: its spec.enabled is false"
	}
	fj, durationErr, requestErr := o.wanted(&v1alpha1.FluxJob{})
	if valid := o.validity(fj, durationErr, requestErr); valid.Status == metav1.ConditionFalse {
		return valid.Reason, valid.Message
	}
	if longest, own := longestOf(q), o.workload.deadline; longest != 0 && (own == nil || inSeconds(*own) > longest) {
		return v1alpha1.ReasonDurationOverLimit, fmt.Sprintf("it runs already, and nothing ends it within %s, as spec.limits.duration of the Queue has it: set spec.activeDeadlineSeconds", q.Spec.Limits.Duration)
	}
	return o.overRunning(&fj.Spec)
}

// overRunning returns which limit a queue would be over with one job more that has room. It returns nothing if it would be over none.
func (o *observation) overRunning(s *v1alpha1.FluxJobSpec) (because, text string) {
	limits := &o.queue.Spec.Limits
	if limits.Running == nil && limits.PerNamespace.Running == nil && len(limits.Requests) == 0 {
		return "", ""
	}
	others, err := o.others()
	switch {
	case err != nil:
		return v1alpha1.ReasonLimitReached, err.Error()
	case limits.Running != nil && others.running >= *limits.Running:
		return v1alpha1.ReasonLimitReached, fmt.Sprintf("%d jobs of the Queue run, and its spec.limits.running is %d", others.running, *limits.Running)
	case limits.PerNamespace.Running != nil && others.ofNamespace >= *limits.PerNamespace.Running:
		return v1alpha1.ReasonLimitReached, fmt.Sprintf("%d jobs of the namespace run in the Queue, and its spec.limits.perNamespace.running is %d", others.ofNamespace, *limits.PerNamespace.Running)
	}
	for _, name := range slices.Sorted(maps.Keys(limits.Requests)) {
		limit, sum := limits.Requests[name], times(s.Requests[name], s.Pods)
		sum.Add(others.requests[name])
		if sum.Cmp(limit) > 0 {
			return v1alpha1.ReasonLimitReached, fmt.Sprintf("with it the jobs of the Queue that run would request %s of %s, and its spec.limits.requests has %s", sum.String(), name, limit.String())
		}
	}
	return "", ""
}

// longestOf returns the longest time limit of a queue. It returns 0 for none, and for one that is wrong, of which the condition Ready of
// the Queue tells.
func longestOf(queue *v1alpha1.Queue) time.Duration {
	if queue == nil {
		return 0
	}
	longest, err := queue.LongestDuration()
	if err != nil {
		return 0
	}
	return longest
}

// usageOf returns what the jobs of a queue have, but for one.
func (r *reconciler) usageOf(ctx context.Context, queue, namespace, except string) (usage, error) {
	u := usage{requests: corev1.ResourceList{}}
	var all v1alpha1.FluxJobList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return u, fmt.Errorf("list FluxJobs: %w", err)
	}
	for i := range all.Items {
		fj := &all.Items[i]
		own := fj.Namespace == namespace
		if fj.Spec.Queue != queue || fj.Status.Allocation == nil || fj.Status.Phase == v1alpha1.Finished || own && fj.Name == except {
			continue
		}
		u.running++
		if own {
			u.ofNamespace++
		}
		for name, q := range fj.Spec.Requests {
			sum := u.requests[name]
			sum.Add(times(q, fj.Spec.Pods))
			u.requests[name] = sum
		}
	}
	return u, nil
}
