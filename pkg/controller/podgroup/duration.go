package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/walltime"
)

// endAgainAfter is when a pod is ended again that has outlasted its duration, and that is still there.
const endAgainAfter = 10 * time.Second

// deleteAfter is how long after it was first ended a pod is deleted that has not ended: a PodDisruptionBudget refuses its
// eviction, or nobody ends its Job. Others start before groups that wait because of its end.
const deleteAfter = 30 * time.Second

// loneName returns the name under which a pod is reconciled that is in no group. It is empty if nothing is done for it.
func loneName(pod *corev1.Pod, id group.Identity) string {
	if pod.Spec.NodeName == "" || pod.Annotations[group.DurationAnnotation] == "" {
		return ""
	}
	return id.Key.Name
}

// reconcileLone ends a pod that is in no group, if it has outlasted its duration. ok is false for the name of a group.
func (r *reconciler) reconcileLone(ctx context.Context, key types.NamespacedName) (again time.Duration, ok bool, err error) {
	parts := strings.Split(key.Name, "/")
	if len(parts) != 3 || parts[0] != "pod" {
		return 0, false, nil
	}
	var pod corev1.Pod
	switch err := r.client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: parts[1]}, &pod); {
	case apierrors.IsNotFound(err) || err == nil && string(pod.UID) != parts[2]:
		return 0, true, nil
	case err != nil:
		return 0, true, fmt.Errorf("get pod %s: %w", parts[1], err)
	}
	job := types.NamespacedName{Namespace: pod.Namespace, Name: group.Owner{Kind: "Pod", Name: pod.Name, UID: pod.UID}.PodGroupName()}
	return r.endOverdue(ctx, r.clock.Now(), job, nil, &pod), true, nil
}

// endOverdueOf is endOverdue for the pods of a group.
func (r *reconciler) endOverdueOf(ctx context.Context, o observation, annotations map[string]string) time.Duration {
	if annotations[group.DurationAnnotation] == "" {
		o.pods = slices.DeleteFunc(slices.Clone(o.pods), func(s podSet) bool { return s.pod.Annotations[group.DurationAnnotation] == "" })
	}
	return r.endOverdue(ctx, o.now, o.key, annotations, r.pods.all(o.pods)...)
}

// endOverdue ends pods that have held their nodes for longer than their duration, if the configuration says so.
// annotations has the annotations of the pods' PodGroup, and job is the key of the FluxJob that they have if they come from a queue. A Job is ended as a whole, by its deadline: it would make new pods
// if only its pods ended.
// Other pods are evicted, which respects PodDisruptionBudgets, and so is each task of an array: the others
// have their own time. What is still there after deleteAfter is deleted. endOverdue returns the time after which to
// look again. Zero means after the next event. What the API server refuses is tried again then.
func (r *reconciler) endOverdue(ctx context.Context, now time.Time, job types.NamespacedName, annotations map[string]string, pods ...*corev1.Pod) time.Duration {
	if !r.config.EnforceDuration || r.config.Admitted != nil && r.config.Admitted(ctx, job) {
		return 0
	}
	r.forgetAttempts(now)
	var again time.Duration
	jobs := map[types.UID]bool{}
	for _, pod := range pods {
		d, err := group.ParseDuration(group.Annotation(group.DurationAnnotation, annotations, pod))
		if err != nil || d == 0 || pod.Spec.NodeName == "" || hasEnded(pod) || stops(pod) {
			continue
		}
		if left := walltime.BoundAt(pod).Add(d).Sub(now); left > 0 {
			again = sooner(again, left)
			continue
		}
		again = sooner(again, endAgainAfter)
		may, since := r.mayEnd(pod.UID, now)
		if !may {
			continue
		}
		log := klog.FromContext(ctx).WithValues("pod", klog.KObj(pod))
		text := fmt.Sprintf("pods hold their nodes for %s at most (annotation %s)", d, group.DurationAnnotation)
		// A pod of a Job is deleted only if the Job was ended: the Job would make a new pod.
		mayDelete := true
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && group.OwnerOf(*ref).Group == batchv1.GroupName && ref.Kind == "Job" && !group.IsArray(pod.Annotations) {
			if _, done := jobs[ref.UID]; !done {
				err := r.endJob(ctx, pod.Namespace, *ref, text)
				if jobs[ref.UID] = err == nil; err != nil {
					log.Info("A Job is not ended after its duration", "job", klog.KRef(pod.Namespace, ref.Name), "err", err)
				}
			}
			mayDelete = jobs[ref.UID]
		} else if pod.DeletionTimestamp == nil {
			err := r.endPod(ctx, pod, text)
			if err == nil {
				continue
			}
			log.Info("A pod is not ended after its duration", "err", err)
		}
		if mayDelete && now.Sub(since) >= deleteAfter {
			if err := r.deletePod(ctx, pod, text); err != nil {
				log.Info("A pod is not deleted after its duration", "err", err)
			}
		}
	}
	return again
}

// stops reports whether a pod is deleted, and has no more time to stop than its spec says: whoever deletes a pod may
// give it more. deletePod gives it a second at least.
func stops(pod *corev1.Pod) bool {
	given, usual := pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds
	return pod.DeletionTimestamp != nil && (given == nil || usual == nil || *given <= max(1, *usual))
}

// attemptsKept is for how long it is remembered that a pod was ended: longer than maxBackoff, so that it is deleted in the end
// although its group is reconciled rarely.
const attemptsKept = 3 * maxBackoff

// attempts are when a pod was first ended and when last.
type attempts struct{ first, last time.Time }

// forgetAttempts forgets the pods of which the last attempt was long ago.
func (r *reconciler) forgetAttempts(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.ended, func(_ types.UID, of attempts) bool { return now.Sub(of.last) > attemptsKept })
}

// mayEnd reports whether a pod was not ended a moment ago, and records that it is now: the cache shows its end later. since
// is when it was first ended.
func (r *reconciler) mayEnd(pod types.UID, now time.Time) (may bool, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, is := r.ended[pod]
	if is && now.Sub(of.last) < endAgainAfter {
		return false, of.first
	}
	if of.last = now; !is {
		of.first = now
	}
	if r.ended == nil {
		r.ended = map[types.UID]attempts{}
	}
	r.ended[pod] = of
	return true, of.first
}

// endJob gives a Job a deadline that has passed.
func (r *reconciler) endJob(ctx context.Context, namespace string, ref metav1.OwnerReference, text string) error {
	var job batchv1.Job
	switch err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &job); {
	case apierrors.IsNotFound(err) || err == nil && job.UID != ref.UID:
		return nil
	case err != nil:
		return fmt.Errorf("get Job %s: %w", ref.Name, err)
	}
	start, is := job.Status.StartTime, job.Spec.ActiveDeadlineSeconds
	if start == nil || job.Spec.Suspend != nil && *job.Spec.Suspend {
		return nil
	}
	seconds := max(1, int64(r.clock.Since(start.Time)/time.Second))
	if is != nil && *is <= seconds {
		return nil // the Job controller ends it
	}
	// If somebody has changed the Job since it was read, it is read again.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": job.UID, "resourceVersion": job.ResourceVersion},
		"spec":     map[string]any{"activeDeadlineSeconds": seconds},
	})
	if err != nil {
		return fmt.Errorf("encode the deadline of Job %s: %w", ref.Name, err)
	}
	switch err := r.live.Patch(ctx, &job, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager)); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("set the deadline of Job %s: %w", ref.Name, err)
	}
	r.events.Eventf(&job, nil, corev1.EventTypeWarning, reason.DurationExceeded, reason.DurationExceeded, "the Job is ended: %s", text)
	klog.FromContext(ctx).V(2).Info("Ended a Job after its duration", "job", klog.KObj(&job), "activeDeadlineSeconds", seconds)
	return nil
}

// endPod evicts a pod.
func (r *reconciler) endPod(ctx context.Context, pod *corev1.Pod, text string) error {
	switch err := r.evictPod(ctx, pod); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the pod is gone already
	case err != nil:
		r.metrics.eviction(outcomeRefused)
		return fmt.Errorf("evict pod %s after its duration: %w", pod.Name, err)
	}
	r.metrics.eviction(outcomeEvicted)
	r.events.Eventf(pod, nil, corev1.EventTypeWarning, reason.DurationExceeded, reason.DurationExceeded, "the pod is evicted: %s", text)
	klog.FromContext(ctx).V(2).Info("Evicted a pod after its duration", "pod", klog.KObj(pod))
	return nil
}

// deletePod deletes a pod that neither an eviction nor the end of its Job has ended.
func (r *reconciler) deletePod(ctx context.Context, pod *corev1.Pod, text string) error {
	how := []client.DeleteOption{client.Preconditions{UID: new(pod.UID)}}
	if usual := pod.Spec.TerminationGracePeriodSeconds; usual != nil {
		// Of a pod that stops, only a time that is given is shortened. With 0 it would go without its kubelet.
		how = append(how, client.GracePeriodSeconds(max(1, *usual)))
	}
	switch err := r.client.Delete(ctx, pod.DeepCopy(), how...); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the pod is gone already
	case err != nil:
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	r.events.Eventf(pod, nil, corev1.EventTypeWarning, reason.DurationExceeded, reason.DurationExceeded, "the pod is deleted, because it still ran %s later: %s", deleteAfter, text)
	klog.FromContext(ctx).V(2).Info("Deleted a pod after its duration", "pod", klog.KObj(pod))
	return nil
}
