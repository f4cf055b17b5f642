package podgroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// whyTooManyOwners is the reason for which the owners of a group beyond maxReferences are not read.
var whyTooManyOwners = fmt.Sprintf("at most %d owners of a group are read", maxReferences)

// observe reads all that is known about a group.
func (r *reconciler) observe(ctx context.Context, key types.NamespacedName) (observation, error) {
	o := observation{key: key, now: r.clock.Now()}
	r.mu.Lock()
	o.legacyCRD = o.now.Before(r.legacyUntil)
	r.mu.Unlock()

	var pg scheduling.PodGroup
	switch err := r.client.Get(ctx, key, &pg); {
	case err == nil:
		o.podGroup = &pg
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("get pod group: %w", err)
	}
	f, err := cacheReader{ctx, r.client}.membershipOf(key)
	if err != nil {
		return o, err
	}
	o.pods, o.podOwners, o.unseen = f.pods, f.podOwners, f.unseen
	if o.podGroup != nil && r.config.isManaged(o.podGroup) {
		// An owner whose pods are all gone is still an owner.
		for _, ref := range o.podGroup.OwnerReferences {
			f.addTopRef(topRefFrom(ref))
		}
	}
	slices.SortFunc(f.topRefs, func(a, b topRef) int { return cmp.Compare(a.owner.UID, b.owner.UID) })
	reads := 0
	for _, t := range f.topRefs {
		if !t.owner.Followed() && group.KindOf(t.owner).Sized() {
			if reads++; reads > maxReferences {
				o.topOwners = append(o.topOwners, topOwner{topRef: t, lookup: unreadable, why: whyTooManyOwners})
				continue
			}
		}
		if o.podGroup == nil {
			// Read the owner anew: a PodGroup for an owner that
			// has just been deleted would be collected at once.
			r.ownerReader.doubt(key.Namespace, t.ref)
		}
		w, after, err := r.topOwner(ctx, o, t)
		if err != nil {
			return o, err
		}
		o.topOwners, o.after = append(o.topOwners, w), sooner(o.after, after)
	}
	return o, nil
}

// topOwner looks up a top owner, in the cache if its kind is watched. An owner of an unknown kind
// counts as existing while it controls a pod that is not being deleted. A reference that is kept
// for longer would undo the work of the garbage collector.
func (r *reconciler) topOwner(ctx context.Context, o observation, t topRef) (topOwner, time.Duration, error) {
	c, namespace := cacheReader{ctx, r.client}, o.key.Namespace
	kind := schema.GroupKind{Group: t.owner.Group, Kind: t.owner.Kind}
	switch {
	case t.owner.Followed():
		if p, ok := asPodOwner(c.object(namespace, t.owner)); ok {
			return topOwnerOf(p), 0, nil
		}
		return topOwner{topRef: t, lookup: missing}, 0, nil
	case kind == leaderWorkerSet && t.ref.Kind == "Pod":
		return r.unitOwner(ctx, namespace, t)
	case group.KindOf(t.owner).Sized():
		return r.ownerReader.find(ctx, namespace, t.ref)
	default:
		return topOwner{topRef: t, lookup: unsized, leaving: !o.hasPodOf(t.owner.UID)}, 0, nil
	}
}

// hasPodOf reports whether an object controls a pod of the group that is not being deleted.
func (o observation) hasPodOf(uid types.UID) bool {
	return slices.ContainsFunc(o.pods, func(pod *corev1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(pod)
		return pod.DeletionTimestamp == nil && ref != nil && ref.UID == uid
	})
}

// unitOwner looks up a unit of a LeaderWorkerSet: a StatefulSet controls the leader pod, and the
// LeaderWorkerSet controls this StatefulSet. A leader pod with any other owner gives no size.
func (r *reconciler) unitOwner(ctx context.Context, namespace string, t topRef) (topOwner, time.Duration, error) {
	leader, err := r.pod(ctx, namespace, t.ref)
	if err != nil {
		return topOwner{}, 0, err
	}
	w := topOwner{topRef: t, lookup: unsized}
	if leader == nil {
		w.lookup = missing
		return w, 0, nil
	}
	w.leaving = leader.DeletionTimestamp != nil
	ref := metav1.GetControllerOfNoCopy(leader)
	if ref == nil {
		return w, 0, nil
	}
	set := cacheReader{ctx, r.client}.object(namespace, group.OwnerOf(*ref))
	if set == nil {
		return w, 0, nil
	}
	if ref = metav1.GetControllerOfNoCopy(set); ref == nil || group.OwnerOf(*ref).Kind != leaderWorkerSet.Kind {
		return w, 0, nil
	}
	of, after, err := r.ownerReader.find(ctx, namespace, *ref)
	if err != nil {
		return topOwner{}, 0, err
	}
	w.lookup, w.why, w.size, w.invalid = of.lookup, of.why, of.size, of.invalid
	if of.lookup == missing {
		w.lookup, w.leaving = unsized, true
	}
	return w, after, nil
}

// pod returns a pod. It returns nil if there is no pod of this name and UID.
func (r *reconciler) pod(ctx context.Context, namespace string, ref metav1.OwnerReference) (*corev1.Pod, error) {
	var pod corev1.Pod
	err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &pod, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != ref.UID:
		return r.ownerReader.pod(ctx, namespace, ref)
	case err != nil:
		return nil, fmt.Errorf("get pod %s: %w", ref.Name, err)
	}
	return &pod, nil
}

// sooner returns the shorter of two times. Zero means to wait for an event.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
