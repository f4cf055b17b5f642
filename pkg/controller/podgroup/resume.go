package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// maxOwnersAbove bounds how many owners above a top owner are read: a TrainJob controls a JobSet.
const maxOwnersAbove = 2

// wasPreempted reports whether the scheduler has evicted pods of the group, or is about to. isMarked reports
// whether some of them have not gone.
func (o observation) wasPreempted() bool {
	return o.podGroup != nil && meta.FindStatusCondition(o.podGroup.Status.Conditions, eviction.ConditionPreempted) != nil
}

func (o observation) isMarked() bool {
	return o.podGroup != nil && meta.IsStatusConditionTrue(o.podGroup.Status.Conditions, eviction.ConditionPreempted)
}

// resumeOwners resumes the owners of a group that the scheduler has suspended, once all pods of the group have
// ended or are gone. An owner that somebody else has resumed, or whose annotation is gone, is left as it is. The
// annotation is enough: the PodGroup may have been made again without the condition. The condition is enough too,
// because the annotation may be above the top owner.
func (r *reconciler) resumeOwners(ctx context.Context, o observation) error {
	if !o.wasPreempted() && !slices.ContainsFunc(o.topOwners, func(top topOwner) bool { return top.madeRoom }) {
		return nil
	}
	if c := countOf(o.pods); c.members > c.succeeded+c.failed {
		return nil
	}
	for _, top := range o.topOwners {
		ref := top.ref
		for range maxOwnersAbove {
			if group.SuspendPath(group.OwnerOf(ref)) == nil {
				break
			}
			above, err := r.resumeOwner(ctx, o, ref)
			if err != nil {
				return err
			}
			if above == nil {
				break
			}
			ref = *above
		}
	}
	return nil
}

// resumeOwner resumes one owner, if the scheduler has suspended it. It returns the owner above it.
func (r *reconciler) resumeOwner(ctx context.Context, o observation, ref metav1.OwnerReference) (*metav1.OwnerReference, error) {
	var obj unstructured.Unstructured
	obj.SetAPIVersion(ref.APIVersion)
	obj.SetKind(ref.Kind)
	switch err := r.ownerReader.get(ctx, o.key.Namespace, ref.Name, &obj); {
	case meta.IsNoMatchError(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err), err == nil && obj.GetUID() != ref.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
	}
	path := group.SuspendPath(group.OwnerOf(ref))
	suspended, _, _ := unstructured.NestedBool(obj.Object, path...)
	if obj.GetAnnotations()[group.SuspendedForAnnotation] == "" || !suspended {
		return metav1.GetControllerOf(&obj), nil
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), "annotations": map[string]any{group.SuspendedForAnnotation: nil},
	}}
	if err := unstructured.SetNestedField(patch, false, path...); err != nil {
		return nil, fmt.Errorf("resume %s %s: %w", ref.Kind, ref.Name, err)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the patch of %s %s: %w", ref.Kind, ref.Name, err)
	}
	if err := r.live.Patch(ctx, &obj, client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager)); err != nil {
		return nil, client.IgnoreNotFound(fmt.Errorf("resume %s %s: %w", ref.Kind, ref.Name, err))
	}
	r.ownerReader.forget(o.key.Namespace, ref)
	if o.podGroup != nil {
		r.sendEvents(o.podGroup, []pendingEvent{{eventType: corev1.EventTypeNormal, reason: reason.Resumed, text: fmt.Sprintf("%s %s is resumed: its pods have made room for a group of higher priority, and wait for room now", ref.Kind, ref.Name)}})
	}
	return nil, nil
}
