package webhook

import (
	"maps"
	"slices"
	"strconv"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"github.com/flux-k8s/fluence/pkg/group"
)

// OwnerInfo is what there is to know of an object that controls pods, directly or
// through others.
type OwnerInfo struct {
	// Controller is what controls the object itself; zero if nothing does.
	Controller group.Owner
	// Size is what its spec gives by default to the group that is named for it; zero
	// if it gives none that is valid.
	Size group.Size
}

// ownerInfoOf returns what matters of an object with this spec, as JSON.
func ownerInfoOf(o, controller group.Owner, spec []byte) OwnerInfo {
	// An error is the controller's to tell.
	size, err := group.DefaultSize(o, spec)
	if err != nil {
		size = group.Size{}
	}
	return OwnerInfo{Controller: controller, Size: size}
}

// A lookup finds an object of a namespace. It returns false if the object cannot
// be seen, or is another one of the same name.
type lookup func(namespace string, o group.Owner) (OwnerInfo, bool)

// A labeller decides what an object gets when it is created.
type labeller struct {
	*newObject
	find lookup
}

// edits returns what to add to an object; nothing if its pods do not ask for the
// scheduler.
//
// Of the template of pods only labels are changed that the user wrote, one level
// too high. Defaults stay out of it: they would go stale when the object is
// scaled, and replacing the object by its manifest, which does not have them,
// would be a change of the template and so start a rollout.
func (l labeller) edits(scheduler string) []edit {
	if l.scheduler != scheduler {
		return nil
	}
	own := edit{path: []string{"metadata", "labels"}, values: map[string]string{}}
	note := edit{path: []string{"metadata", "annotations"}, values: map[string]string{}}
	copied := l.copyDown()
	l.pod.Labels = mergeLabels(l.pod.Labels, copied.values)
	id := group.IdentityOf(l.pod, l)
	if _, has := l.labels[group.Label]; !has && id.InPodGroup && (id.Owner.UID != "" || !ownGroup(id)) {
		// The name of a group that is called after an object without a UID is not
		// known: such as that of a Job, which is just being created.
		own.take(map[string]string{group.Label: id.Key.Name}, []string{group.Label})
	}
	if !hasAny(group.WithoutDefaults(l.labels, l.annotations), []string{group.SizeLabel, group.MinLabel}) {
		l.fillIn(id, own.values, note.values)
	}
	return []edit{copied, own, note}
}

// copyDown returns, as an addition to the template, the labels of a group that
// the user put on the object instead. What another object controls keeps the
// template that its controller gave it.
func (l labeller) copyDown() edit {
	e := edit{path: below(l.template, "metadata", "labels"), values: map[string]string{}}
	if l.template == nil || l.controller != (group.Owner{}) {
		return e
	}
	sources := []map[string]string{group.WithoutDefaults(l.labels, l.annotations)}
	if l.ownerLabels != nil {
		sources = append([]map[string]string{l.ownerLabels}, sources...)
	}
	// The two of a size are of one mind: of a template that has one the other is
	// not looked for elsewhere.
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

// fillIn adds the size of the group to the labels, and the note that they are
// not the user's, if it is known.
func (l labeller) fillIn(id group.Identity, labels, annotations map[string]string) {
	size, ok := l.size(id)
	if !ok {
		return
	}
	note := map[string]string{group.DefaultedAnnotation: group.Defaulted(size)}
	if apivalidation.ValidateAnnotationsSize(mergeLabels(l.annotations, note)) != nil {
		// The API server would refuse the object.
		return
	}
	labels[group.SizeLabel] = strconv.Itoa(int(size.Size))
	labels[group.MinLabel] = strconv.Itoa(int(size.Min))
	maps.Copy(annotations, note)
}

// size returns the size that the group will have: what the pods' labels say, and
// else what their owner gives it. It returns false if that is not known, or if the
// labels are wrong: to tell the user is up to the controller. What an owner gives
// to its own group says nothing of one that a label names.
func (l labeller) size(id group.Identity) (group.Size, bool) {
	said, err := group.SizeOf(group.WithoutDefaults(l.pod.Labels, l.pod.Annotations))
	if err != nil || said.Size > 0 {
		return said, err == nil
	}
	if !id.InPodGroup || !ownGroup(id) {
		return group.Size{}, false
	}
	size := l.sizeOf(id.Owner)
	if size != (group.Size{}) && said != (group.Size{}) {
		size = said.WithDefault(size.Size)
	}
	return size, size != (group.Size{})
}

// maxAbove is how many objects may control one another above a pod. Most that
// there are is four: a worker of a LeaderWorkerSet, whose StatefulSet is
// controlled by its leader, which is a pod of the StatefulSet of leaders.
const maxAbove = 5

// sizeOf returns the size that an owner gives its group, zero if that is not
// known. It is looked for among all that control the pod, by its kind alone: the
// unit of a LeaderWorkerSet has its kind and another name.
func (l labeller) sizeOf(owner group.Owner) group.Size {
	o := group.ControllerOf(l.pod)
	for range maxAbove {
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

// get is find that knows the object that is being created.
func (l labeller) get(namespace string, o group.Owner) (OwnerInfo, bool) {
	switch {
	case l.template != nil && o == l.podOwner:
		return l.podOwnerInfo, true
	case o.UID == "":
		return OwnerInfo{}, false
	}
	return l.find(namespace, o)
}

// ownGroup says whether the group is the one that is named for the pod's owner.
func ownGroup(id group.Identity) bool { return id.Key.Name == id.Owner.PodGroupName() }

func hasAny(labels map[string]string, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { _, ok := labels[key]; return ok })
}
