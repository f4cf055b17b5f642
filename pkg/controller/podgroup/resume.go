package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// maxOwnersAbove bounds how many owners above a Job are read: a TrainJob controls the JobSet of a Job.
	maxOwnersAbove = 2
	// resumeCheckInterval is how often it is checked whether the pods of a suspended owner have gone. The events of
	// pods of other schedulers are not seen.
	resumeCheckInterval = time.Second
	// closeWithin is how old the mark of an eviction is after which an owner is resumed before the scheduler
	// says that the eviction is over: it may have ended.
	closeWithin = time.Minute
)

// podsOnNodes selects the pods that hold room on nodes.
var podsOnNodes = client.MatchingFieldsSelector{Selector: fields.AndSelectors(
	fields.OneTermNotEqualSelector("spec.nodeName", ""),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)}

// isMarked reports whether pods of the group that the scheduler evicts have not gone.
func (o observation) isMarked() bool {
	return o.podGroup != nil && meta.IsStatusConditionTrue(o.podGroup.Status.Conditions, eviction.ConditionPreempted)
}

// A suspendable is an owner that the scheduler may have suspended, or that is below such an owner.
type suspendable struct {
	namespace string
	ref       metav1.OwnerReference
	// jobs are the Jobs below it, or the owner itself if it is a Job.
	jobs []podOwner
	// uids are the UIDs of these Jobs, and of the owners above them.
	uids map[types.UID]bool
}

// suspendableOf returns the owner for which a group is or could be named, if the scheduler may have suspended it. Nearly
// all owners that it may suspend are Jobs or make Jobs, also while they are suspended. So the owner is found by the
// Jobs in the cache, whatever their scheduler is, and whether or not their pods have a PodGroup. An owner without Jobs is
// found by its PodGroup.
func (r *reconciler) suspendableOf(ctx context.Context, key types.NamespacedName) (s suspendable, found bool, err error) {
	podOwners, err := cacheReader{ctx, r.client}.podOwnersOf(key)
	if err != nil {
		return s, false, err
	}
	s = suspendable{namespace: key.Namespace, uids: map[types.UID]bool{}}
	suspended, wasSuspended := false, false
	for _, p := range podOwners {
		if p.job == nil {
			continue
		}
		ref := p.ref
		if above := metav1.GetControllerOfNoCopy(p); above != nil && group.SuspendPath(group.OwnerOf(*above)) != nil {
			ref = *above
		}
		if group.OwnerOf(ref).PodGroupName() != key.Name {
			continue
		}
		s.ref, s.jobs = ref, append(s.jobs, p)
		s.uids[ref.UID], s.uids[p.GetUID()] = true, true
		suspended = suspended || p.job.Spec.Suspend != nil && *p.job.Spec.Suspend
		wasSuspended = wasSuspended || slices.ContainsFunc(p.job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended })
	}
	switch {
	case len(s.jobs) == 0:
		return r.suspendableOfGroup(ctx, key)
	case s.ref.UID == s.jobs[0].GetUID():
		return s, group.SuspendedFor(s.jobs[0]) != "", nil
	case suspended:
		r.ownerReader.awake.Delete(s.ref.UID)
		return s, true, nil
	}
	_, awake := r.ownerReader.awake.Get(s.ref.UID)
	return s, wasSuspended && !awake, nil
}

// suspendableOfGroup returns the owner of a PodGroup, if the group was evicted and the scheduler may have suspended the
// owner. An MPIJob whose launcher waits for its workers has no Job.
func (r *reconciler) suspendableOfGroup(ctx context.Context, key types.NamespacedName) (s suspendable, found bool, err error) {
	var pg scheduling.PodGroup
	if err := r.client.Get(ctx, key, &pg, client.UnsafeDisableDeepCopy); err != nil {
		return s, false, client.IgnoreNotFound(err)
	}
	if meta.FindStatusCondition(pg.Status.Conditions, eviction.ConditionPreempted) == nil {
		return s, false, nil
	}
	for _, ref := range pg.OwnerReferences {
		if group.SuspendPath(group.OwnerOf(ref)) != nil {
			return suspendable{namespace: key.Namespace, ref: ref, uids: map[types.UID]bool{ref.UID: true}}, true, nil
		}
	}
	return s, false, nil
}

// resumeOwner resumes the owner for which a group is or could be named, or an owner above it, if the scheduler has
// suspended that and all its pods have ended or are gone. An owner in a queue is left to the queue. If somebody else has resumed it, it gets rid of the annotation,
// so that it stays as it is when it is suspended the next time. resumeOwner returns the time after which to
// look again. Zero means after the next event.
func (r *reconciler) resumeOwner(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	s, found, err := r.suspendableOf(ctx, key)
	if err != nil || !found {
		return 0, err
	}
	below := s.ref.UID
	for range 1 + maxOwnersAbove {
		obj, err := r.suspendedOwner(ctx, s)
		if err != nil || obj == nil {
			return 0, err
		}
		suspended, _, _ := unstructured.NestedBool(obj.Object, group.SuspendPath(group.OwnerOf(s.ref))...)
		switch {
		case group.SuspendedFor(obj) == "":
			above := metav1.GetControllerOf(obj)
			if above == nil || group.SuspendPath(group.OwnerOf(*above)) == nil {
				if !suspended {
					r.ownerReader.awake.Set(below, nil, awakeFor)
				}
				return 0, nil
			}
			s.ref, s.uids[above.UID] = *above, true
			continue
		case suspended:
			switch waits, err := r.isEvicting(ctx, s); {
			case err != nil:
				return 0, err
			case waits:
				return resumeCheckInterval, nil
			}
		}
		queued := suspended && r.config.Queued != nil && r.config.Queued(obj)
		switch err := r.clearSuspension(ctx, s.ref, obj, queued); {
		case apierrors.IsConflict(err):
			return conflictDelay, nil
		case err != nil:
			return 0, client.IgnoreNotFound(fmt.Errorf("resume %s %s: %w", s.ref.Kind, s.ref.Name, err))
		}
		r.ownerReader.forget(s.namespace, s.ref)
		if suspended && !queued {
			return 0, r.sendResumed(ctx, key, s.ref, obj)
		}
		return 0, nil
	}
	return 0, nil
}

// suspendedOwner reads the owner from the API server. It returns nil if there is no such owner, or it cannot be read.
func (r *reconciler) suspendedOwner(ctx context.Context, s suspendable) (*unstructured.Unstructured, error) {
	var obj unstructured.Unstructured
	obj.SetAPIVersion(s.ref.APIVersion)
	obj.SetKind(s.ref.Kind)
	switch err := r.ownerReader.get(ctx, s.namespace, s.ref.Name, &obj); {
	case meta.IsNoMatchError(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err), err == nil && obj.GetUID() != s.ref.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", s.ref.Kind, s.ref.Name, err)
	}
	return &obj, nil
}

// isEvicting reports whether an owner has to stay suspended. It has to while a pod below it holds a node, and while a
// PodGroup below it has a fresh mark of an eviction. The cache has the pods of one scheduler only, so the API server is
// asked too.
func (r *reconciler) isEvicting(ctx context.Context, s suspendable) (bool, error) {
	names := []string{group.OwnerOf(s.ref).PodGroupName()}
	for _, p := range s.jobs {
		for _, name := range possibleGroupNames(p.Object) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, set := range r.pods.under(s.namespace, names...) {
		if s.uids[set.traits.ownerUID] && set.traits.onNode && !hasEnded(set.pod) {
			return true, nil
		}
	}
	for _, name := range names {
		var pg scheduling.PodGroup
		if err := r.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, &pg, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get pod group: %w", err)
		}
		mark := meta.FindStatusCondition(pg.Status.Conditions, eviction.ConditionPreempted)
		if mark != nil && mark.Status == metav1.ConditionTrue && r.clock.Since(mark.LastTransitionTime.Time) < closeWithin {
			return true, nil
		}
	}
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(s.namespace), podsOnNodes); err != nil {
		return false, fmt.Errorf("list pods on nodes: %w", err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(&pod)
		return ref != nil && s.uids[ref.UID]
	}), nil
}

// clearSuspension resumes an owner, and removes the annotation. An owner in a queue stays suspended: it waits for its turn from
// now on. It writes the version that was read: if somebody has resumed or suspended the owner since then, that stays.
func (r *reconciler) clearSuspension(ctx context.Context, ref metav1.OwnerReference, obj *unstructured.Unstructured, queued bool) error {
	annotations := map[string]any{group.SuspendedForAnnotation: nil}
	patch := map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), "annotations": annotations,
	}}
	if queued {
		annotations[group.QueuedAnnotation] = group.Queued{Since: r.clock.Now()}.String()
	} else if err := unstructured.SetNestedField(patch, false, group.SuspendPath(group.OwnerOf(ref))...); err != nil {
		return fmt.Errorf("set the field: %w", err)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	return r.live.Patch(ctx, obj, client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager))
}

// sendResumed sends the event that an owner is resumed: about its PodGroup if it has one, or else about itself.
func (r *reconciler) sendResumed(ctx context.Context, key types.NamespacedName, ref metav1.OwnerReference, obj *unstructured.Unstructured) error {
	var about client.Object = obj
	var pg scheduling.PodGroup
	switch err := r.client.Get(ctx, key, &pg); {
	case err == nil:
		about = &pg
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get pod group: %w", err)
	}
	r.events.Eventf(about, nil, corev1.EventTypeNormal, reason.Resumed, reason.Resumed, "%s %s is resumed: its pods have made room for a group of higher priority, and wait for room now", ref.Kind, ref.Name)
	return nil
}
