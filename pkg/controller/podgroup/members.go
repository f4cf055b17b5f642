package podgroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

// cacheReader reads the owners of pods from the cache. It implements group.Owners.
type cacheReader struct {
	ctx    context.Context
	reader client.Reader
}

// ControllerOf implements group.Owners. It returns false for an object that it cannot read.
func (c cacheReader) ControllerOf(namespace string, o group.Owner) (group.Owner, bool) {
	obj := c.object(namespace, o)
	if obj == nil {
		return group.Owner{}, false
	}
	return group.ControllerOf(obj), true
}

// object returns an object of a kind that is watched. It returns nil if there
// is none of this UID. The object is the cache's own and must not be changed.
func (c cacheReader) object(namespace string, o group.Owner) client.Object {
	if !o.Watched() {
		return nil
	}
	obj := group.KindOf(o).New()
	err := c.reader.Get(c.ctx, types.NamespacedName{Namespace: namespace, Name: o.Name}, obj, client.UnsafeDisableDeepCopy)
	if err != nil || obj.GetUID() != o.UID {
		return nil
	}
	return obj
}

// podOwnersOf lists the podOwners that the index has under a group's name.
func (c cacheReader) podOwnersOf(key types.NamespacedName) ([]podOwner, error) {
	var podOwners []podOwner
	for _, kind := range group.WatchedKinds() {
		list := kind.NewList()
		err := c.reader.List(c.ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{groupIndex: key.Name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list %T of group: %w", list, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if p, ok := asPodOwner(item.(client.Object)); ok {
				podOwners = append(podOwners, p)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %T: %w", list, err)
		}
	}
	return podOwners, nil
}

// A membership has the pods and owners of a group that are in the cache.
type membership struct {
	pods      []podSet
	podOwners []podOwner
	// otherSchedulers says which top owners in the cache ask for another scheduler.
	otherSchedulers []string
	// topOwnerRefs are the top owners of these pods and podOwners, each once.
	topOwnerRefs []topOwnerRef
	// ownerNotCached is true if a pod may belong to the group through an owner that is not in the
	// cache yet.
	ownerNotCached bool
	// needsMinimum, inNative and outside are what observation has.
	needsMinimum, inNative bool
	outside                map[types.UID]map[string]int32
}

// A topOwnerRef refers to an owner that a group is named for or could be named for. A unit of a
// LeaderWorkerSet has no object of its own: then owner is the unit, and ref refers to the leader pod.
type topOwnerRef struct {
	ref   metav1.OwnerReference
	owner group.Owner
}

// membershipOf collects the objects of a group. It begins with the podOwners
// that the cache has under the group's name. It goes on with the pods that
// the index has under this name or under the name of one of these podOwners.
// A podOwner that asks for another scheduler is left out, unless it has pods that ask for this one.
func (c cacheReader) membershipOf(key types.NamespacedName, pods *podIndex, scheduler string) (membership, error) {
	podOwners, err := c.podOwnersOf(key)
	if err != nil {
		return membership{}, err
	}
	var f membership
	names := []string{key.Name}
	for _, p := range podOwners {
		if name := p.owner().PodGroupName(); name != key.Name {
			names = append(names, name)
		}
	}
	sets := pods.under(key.Namespace, names...)
	for _, p := range podOwners {
		id := group.IdentityOf(p.pod(), c)
		if !id.InPodGroup || id.Key.Name != key.Name {
			continue
		}
		p.topUID = id.Owner.UID
		asks := p.template.Spec.SchedulerName == scheduler
		if !asks && !slices.ContainsFunc(sets, func(set podSet) bool { return set.traits.ownerUID == p.GetUID() }) {
			f.addOtherScheduler(p)
			continue
		}
		f.podOwners = append(f.podOwners, p)
		f.addTopOwnerRef(c.topOwnerRefOfPod(p.pod(), id.Owner))
	}
	for _, set := range sets {
		f.addPods(set, key, c)
	}
	if _, native := group.NativeName(key); native {
		f.addSiblings(key, pods, c)
	}
	return f, nil
}

// addOtherScheduler notes a podOwner that asks for another scheduler. The spec of a
// top owner that is not in the cache, such as a JobSet, says it for the Jobs below it.
func (f *membership) addOtherScheduler(p podOwner) {
	size, err := p.size()
	if p.topUID == p.GetUID() && !p.idle() && !p.hasEnded() && err == nil {
		f.otherSchedulers = append(f.otherSchedulers, group.OtherScheduler(p.owner(), "", int64(size.Size), p.template.Spec.SchedulerName))
	}
}

// addPods adds the pods of a set if they belong to the group.
func (f *membership) addPods(set podSet, key types.NamespacedName, c cacheReader) {
	pod := set.pod
	id := group.IdentityOf(pod, c)
	ownerNotCached := id.MissingOwner != group.Owner{}
	if id.InPodGroup && id.Key.Name == key.Name {
		f.pods = append(f.pods, set)
		if _, native := group.NativeName(key); native {
			f.addPodOwner(pod, id.Owner, c)
			f.needsMinimum = f.needsMinimum || id.NeedsMinimum && pod.DeletionTimestamp == nil && !hasEnded(pod)
		}
		f.addTopOwnerRef(c.topOwnerRefOfPod(pod, id.Owner))
		// A labelled pod is in the group even while its owner is not in the cache. Then the pod has a
		// controller, but its identity has no Owner.
		ref := metav1.GetControllerOfNoCopy(pod)
		ownerNotCached = ref != nil && id.Owner == group.Owner{}
	} else if id.InPodGroup {
		if name, native := group.NativeName(id.Key); native && id.Owner.PodGroupName() == key.Name {
			f.inNative = true
			f.addOutside(id.Owner, name, set)
		}
		return
	}
	f.ownerNotCached = f.ownerNotCached || ownerNotCached && pod.DeletionTimestamp == nil && !hasEnded(pod)
}

// addSiblings counts the pods that the controllers of a native PodGroup's pods have in other groups.
func (f *membership) addSiblings(key types.NamespacedName, pods *podIndex, c cacheReader) {
	var names []string
	for _, set := range f.pods {
		if o := group.ControllerOf(set.pod); o != (group.Owner{}) && !slices.Contains(names, o.PodGroupName()) {
			names = append(names, o.PodGroupName())
		}
	}
	for _, set := range pods.under(key.Namespace, names...) {
		if id := group.IdentityOf(set.pod, c); id.Key != key {
			f.addOutside(id.Owner, set.traits.native, set)
		}
	}
}

// addOutside counts the pods of a set that are in another group. native is
// the native PodGroup that they name. It is empty if they name none.
func (f *membership) addOutside(top group.Owner, native string, set podSet) {
	if top == (group.Owner{}) || set.pod.DeletionTimestamp != nil || hasEnded(set.pod) {
		return
	}
	if f.outside == nil {
		f.outside = map[types.UID]map[string]int32{}
	}
	if f.outside[top.UID] == nil {
		f.outside[top.UID] = map[string]int32{}
	}
	f.outside[top.UID][native] += set.n
}

// addPodOwner adds the podOwner of a pod in a native PodGroup. The templates
// of most podOwners do not name the PodGroup, so it is found by the pod.
func (f *membership) addPodOwner(pod *corev1.Pod, top group.Owner, c cacheReader) {
	p, ok := asPodOwner(c.object(pod.Namespace, group.ControllerOf(pod)))
	if !ok || slices.ContainsFunc(f.podOwners, func(have podOwner) bool { return have.GetUID() == p.GetUID() }) {
		return
	}
	p.topUID = top.UID
	f.podOwners = append(f.podOwners, p)
}

func (f *membership) addTopOwnerRef(t topOwnerRef) {
	if t.owner == (group.Owner{}) || t.owner.Group == "" && t.owner.Kind == "Node" {
		return
	}
	for _, have := range f.topOwnerRefs {
		if have.owner.UID == t.owner.UID {
			return
		}
	}
	f.topOwnerRefs = append(f.topOwnerRefs, t)
}

// topOwnerRefOfPod returns owner, which is from the pod's identity, with the reference that names it.
func (c cacheReader) topOwnerRefOfPod(pod *corev1.Pod, owner group.Owner) topOwnerRef {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if ref.UID == owner.UID {
			return topOwnerRef{*ref, owner}
		}
		if obj := c.object(pod.Namespace, group.OwnerOf(*ref)); obj != nil {
			if above := metav1.GetControllerOfNoCopy(obj); above != nil && above.UID == owner.UID {
				return topOwnerRef{*above, owner}
			}
		}
	}
	return topOwnerRef{metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID}, owner}
}

// topOwnerRefFrom returns the topOwnerRef of a PodGroup's owner reference.
func topOwnerRefFrom(ref metav1.OwnerReference) topOwnerRef {
	if ref.APIVersion == "v1" && ref.Kind == "Pod" {
		return topOwnerRef{ref, unit(ref.Name, ref.UID)}
	}
	return topOwnerRef{ref, group.OwnerOf(ref)}
}
