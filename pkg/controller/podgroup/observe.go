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

// whyTooManyOwners is the reason given (topOwner.why) for owners that are not read from
// the API server, because maxReferences owners of the group were read already.
var whyTooManyOwners = fmt.Sprintf("at most %d owners of a group are read", maxReferences)

// observe reads all that is known about a group.
func (r *reconciler) observe(ctx context.Context, key types.NamespacedName) (observation, error) {
	o := observation{key: key, now: r.clock.Now()}
	r.mu.Lock()
	o.lacking = lacking{o.now.Before(r.legacyUntil), o.now.Before(r.noTemplatesUntil), o.now.Before(r.noDesiredUntil)}
	r.mu.Unlock()

	var pg scheduling.PodGroup
	switch err := r.client.Get(ctx, key, &pg); {
	case err == nil:
		o.podGroup = &pg
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("get pod group: %w", err)
	}
	f, err := cacheReader{ctx, r.client}.membershipOf(key, r.pods, r.config.SchedulerName)
	if err != nil {
		return o, err
	}
	o.pods, o.podOwners, o.otherSchedulers, o.ownerNotCached = f.pods, f.podOwners, f.otherSchedulers, f.ownerNotCached
	o.needsMinimum, o.inNative, o.outside = f.needsMinimum, f.inNative, f.outside
	if o.podGroup != nil && r.config.isManaged(o.podGroup) {
		// An owner whose pods are all gone is still an owner.
		for _, ref := range o.podGroup.OwnerReferences {
			f.addTopOwnerRef(topOwnerRefFrom(ref))
		}
	}
	slices.SortFunc(f.topOwnerRefs, func(a, b topOwnerRef) int { return cmp.Compare(a.owner.UID, b.owner.UID) })
	_, isNative := group.NativeName(key)
	reads := 0
	for _, t := range f.topOwnerRefs {
		if !t.owner.Watched() && group.KindOf(t.owner).Sized() {
			if reads++; reads > maxReferences {
				o.topOwners = append(o.topOwners, topOwner{topOwnerRef: t, state: unreadable, why: whyTooManyOwners})
				continue
			}
		}
		if o.podGroup == nil && !isNative && (len(o.pods) > 0 || !o.inNative) {
			// Read the owner again: a PodGroup for an owner that has just been deleted would be
			// collected at once.
			r.ownerReader.forgetIfReadable(key.Namespace, t.ref)
		}
		top, requeueAfter, err := r.topOwner(ctx, o, t)
		if err != nil {
			return o, err
		}
		o.topOwners, o.requeueAfter = append(o.topOwners, top), sooner(o.requeueAfter, requeueAfter)
	}
	return o, nil
}

// topOwner looks up a top owner, in the cache if its kind is watched. An owner of an unknown kind
// counts as existing while it controls a pod that is not being deleted. After that it counts as
// gone. Otherwise this controller would add its reference to the PodGroup again after the garbage
// collector has removed it.
func (r *reconciler) topOwner(ctx context.Context, o observation, t topOwnerRef) (topOwner, time.Duration, error) {
	c, namespace := cacheReader{ctx, r.client}, o.key.Namespace
	kind := schema.GroupKind{Group: t.owner.Group, Kind: t.owner.Kind}
	switch {
	case t.owner.Watched():
		if p, ok := asPodOwner(c.object(namespace, t.owner)); ok {
			return topOwnerOf(p), 0, nil
		}
		return topOwner{topOwnerRef: t, state: missing}, 0, nil
	case kind == leaderWorkerSet && t.ref.Kind == "Pod":
		return r.unitOwner(ctx, namespace, t)
	case group.KindOf(t.owner).Sized():
		return r.ownerReader.find(ctx, namespace, t.ref)
	default:
		return topOwner{topOwnerRef: t, state: unsized, deleting: !o.hasPodOf(t.owner.UID)}, 0, nil
	}
}

// hasPodOf reports whether an object controls a pod of the group that is not being deleted.
func (o observation) hasPodOf(uid types.UID) bool {
	return slices.ContainsFunc(o.pods, func(set podSet) bool {
		ref := metav1.GetControllerOfNoCopy(set.pod)
		return set.pod.DeletionTimestamp == nil && ref != nil && ref.UID == uid
	})
}

// unitOwner looks up a unit of a LeaderWorkerSet: a StatefulSet controls the leader pod, and the
// LeaderWorkerSet controls this StatefulSet. A leader pod with any other owner gives no size.
func (r *reconciler) unitOwner(ctx context.Context, namespace string, t topOwnerRef) (topOwner, time.Duration, error) {
	leader, err := r.pod(ctx, namespace, t.ref)
	if err != nil {
		return topOwner{}, 0, err
	}
	top := topOwner{topOwnerRef: t, state: unsized}
	if leader == nil {
		top.state = missing
		return top, 0, nil
	}
	top.deleting = leader.DeletionTimestamp != nil
	ref := metav1.GetControllerOfNoCopy(leader)
	if ref == nil {
		return top, 0, nil
	}
	set := cacheReader{ctx, r.client}.object(namespace, group.OwnerOf(*ref))
	if set == nil {
		return top, 0, nil
	}
	if ref = metav1.GetControllerOfNoCopy(set); ref == nil || group.OwnerOf(*ref).Kind != leaderWorkerSet.Kind {
		return top, 0, nil
	}
	top.unitOf = ref.Name
	of, requeueAfter, err := r.ownerReader.find(ctx, namespace, *ref)
	if err != nil {
		return topOwner{}, 0, err
	}
	top.state, top.why, top.size, top.otherSchedulers, top.templates, top.spec, top.invalid = of.state, of.why, of.size, of.otherSchedulers, of.templates, of.spec, of.invalid
	if of.state == missing {
		top.state, top.deleting = unsized, true
	}
	return top, requeueAfter, nil
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
