package webhook

import (
	"maps"
	"slices"
	"strconv"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"github.com/flux-k8s/fluence/pkg/group"
)

// OwnerInfo is all that is known about an object that controls pods, directly or through other
// objects.
type OwnerInfo struct {
	// Controller is the object's own controller. It is zero if there is none.
	Controller group.Owner
	// Size is the default size that the object's spec gives to the
	// group that is named for it. It is zero if there is no valid one.
	Size group.Size
}

// ownerInfoOf returns the OwnerInfo of an object, for pods of a scheduler. spec is JSON.
func ownerInfoOf(o, controller group.Owner, spec []byte, scheduler string) OwnerInfo {
	// The controller reports the error.
	size, err := group.DefaultSize(o, spec, scheduler)
	if err != nil {
		size = group.Size{}
	}
	return OwnerInfo{Controller: controller, Size: size}
}

// A lookup finds an object of a namespace. It returns false if
// the object cannot be read, or if another object has the name.
type lookup func(namespace string, o group.Owner) (OwnerInfo, bool)

// A labeller decides what to add to an object that is being created.
type labeller struct {
	*newObject
	find lookup
}

// edits returns what to add to an object. It returns nothing if the object's pods do
// not ask for the scheduler, or name a native PodGroup: then their labels say nothing.
//
// To a pod template it adds only the group labels that the user wrote on the metadata of the object
// itself. It adds no defaults there, because they would be wrong once the object is scaled.
// Replacing the object by its manifest, which does not have the defaults, would change the template
// and so start a rollout.
func (l labeller) edits(scheduler string) []edit {
	if l.scheduler != scheduler || group.NativePodGroupOf(&l.pod.Spec) != "" {
		return nil
	}
	own := edit{path: []string{"metadata", "labels"}, values: map[string]string{}}
	note := edit{path: []string{"metadata", "annotations"}, values: map[string]string{}}
	copied := l.copyDown()
	l.pod.Labels = mergeLabels(l.pod.Labels, copied.values)
	id := group.IdentityOf(l.pod, l)
	if _, has := l.labels[group.Label]; !has && id.InPodGroup && (id.Owner.UID != "" || !isNamedForOwner(id)) {
		// The name of the group contains the owner's UID. An owner
		// that is being created, such as a Job, has no UID yet.
		own.take(map[string]string{group.Label: id.Key.Name}, []string{group.Label})
	}
	if !hasAny(group.WithoutDefaults(l.labels, l.annotations), []string{group.SizeLabel, group.MinLabel}) {
		l.fillIn(id, own.values, note.values)
	}
	return []edit{copied, own, note}
}

// copyDown returns the group labels that the user wrote on the metadata of the object and not on
// its pod template, as an addition to the template. An object with a controller keeps the template
// that its controller gave it.
func (l labeller) copyDown() edit {
	e := edit{path: below(l.template, "metadata", "labels"), values: map[string]string{}}
	if l.template == nil || l.controller != (group.Owner{}) {
		return e
	}
	sources := []map[string]string{group.WithoutDefaults(l.labels, l.annotations)}
	if l.ownerLabels != nil {
		sources = append([]map[string]string{l.ownerLabels}, sources...)
	}
	// Size and minimum belong together: if the template has one of them, the other is not copied.
	for _, keys := range [][]string{{group.Label}, {group.SizeLabel, group.MinLabel}} {
		if hasAny(l.pod.Labels, keys) {
			continue
		}
		for _, from := range sources {
			if hasAny(from, keys) {
				e.take(from, keys)
				break
			}
		}
	}
	return e
}

// fillIn adds the size of the group to the labels, if it is known. It
// also adds an annotation that marks the size as filled in by default.
func (l labeller) fillIn(id group.Identity, labels, annotations map[string]string) {
	size, ok := l.size(id)
	if !ok {
		return
	}
	note := map[string]string{group.DefaultedAnnotation: group.DefaultedValue(size)}
	if apivalidation.ValidateAnnotationsSize(mergeLabels(l.annotations, note)) != nil {
		// The API server would reject the object.
		return
	}
	labels[group.SizeLabel] = strconv.Itoa(int(size.Size))
	labels[group.MinLabel] = strconv.Itoa(int(size.Min))
	maps.Copy(annotations, note)
}

// size returns the size that the group will have: the size in the pods' labels, or
// else the size that their owner gives. It returns false if the size is not known, or
// if a label is invalid, which the controller reports. An owner's size counts only
// for the group that is named for this owner, not for a group that a label names.
func (l labeller) size(id group.Identity) (group.Size, bool) {
	said, err := group.UserSizeOf(l.pod.Labels, l.pod.Annotations)
	if err != nil || said.Size > 0 {
		return said, err == nil
	}
	if !id.InPodGroup || !isNamedForOwner(id) {
		return group.Size{}, false
	}
	size := l.sizeOf(id.Owner)
	if size != (group.Size{}) && said != (group.Size{}) {
		size = said.WithDefault(size.Size)
	}
	return size, size != (group.Size{})
}

// maxOwnerDepth is the number of owners that are followed upwards from a pod. The longest known
// chain has four, above a worker of a LeaderWorkerSet: the worker's StatefulSet, the leader pod,
// the leaders' StatefulSet and the LeaderWorkerSet.
const maxOwnerDepth = 5

// sizeOf returns the size that an owner gives its group, or zero if it is not known.
// It walks up the pod's owners until one has the owner's kind. It does not compare
// names, because the unit of a LeaderWorkerSet has that kind and the leader's name.
func (l labeller) sizeOf(owner group.Owner) group.Size {
	o := group.ControllerOf(l.pod)
	for range maxOwnerDepth {
		known, ok := l.get(l.pod.Namespace, o)
		switch {
		case !ok:
			return group.Size{}
		case o.Group == owner.Group && o.Kind == owner.Kind:
			return known.Size
		}
		o = known.Controller
	}
	return group.Size{}
}

// ControllerOf implements group.Owners.
func (l labeller) ControllerOf(namespace string, o group.Owner) (group.Owner, bool) {
	known, ok := l.get(namespace, o)
	return known.Controller, ok
}

// get is find, except that it also answers for the object that is being created.
func (l labeller) get(namespace string, o group.Owner) (OwnerInfo, bool) {
	switch {
	case l.template != nil && o == l.podOwner:
		return l.podOwnerInfo, true
	case o.UID == "":
		return OwnerInfo{}, false
	}
	return l.find(namespace, o)
}

// isNamedForOwner reports whether a group is named for the pod's owner, not by a label.
func isNamedForOwner(id group.Identity) bool { return id.Key.Name == id.Owner.PodGroupName() }

func hasAny(labels map[string]string, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { _, ok := labels[key]; return ok })
}
