package podgroup

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A speaker is one whose annotations may be those of a group.
type annotationSource struct {
	// name is for messages.
	name        string
	annotations map[string]string
}

// annotation returns what a group says under a key, empty if nothing. The first of these
// that says something counts:
//
//	the PodGroup
//	the templates of the object that the group is named for, and the pods that this object
//	  controls of which no template is known
//	where the group is named for no object, its pods, if all of them say the same
//
// A pod that a label alone has put into a group does not speak for the others: whoever may
// create a pod could have them evicted. Anybody can write on a pod or a template whose it is, so
// all that speak have to say the same, and to say nothing is to disagree. The error is in words
// fit for a user.
func (o observation) annotation(key string) (string, error) {
	if o.podGroup != nil && o.podGroup.Annotations[key] != "" {
		return o.podGroup.Annotations[key], nil
	}
	named := slices.IndexFunc(o.topOwners, func(w topOwner) bool { return w.owner.PodGroupName() == o.key.Name })
	if named < 0 {
		return commonValue(key, o.podSources(func(*corev1.Pod) bool { return true }))
	}
	return commonValue(key, o.sourcesOf(o.topOwners[named].owner.UID))
}

// sourcesOf lists the templates of an object, and the pods that it controls itself unless they
// are of its own template. Those of an MPIJob are both: a Job makes its launcher, and it makes its
// workers itself.
func (o observation) sourcesOf(uid types.UID) []annotationSource {
	var own []podOwner
	for _, p := range o.podOwners {
		if p.topUID == uid {
			own = append(own, p)
		}
	}
	var all []annotationSource
	for _, p := range current(own) {
		all = append(all, annotationSource{"the template of " + p.ref.Kind + " " + p.ref.Name, p.template.Annotations})
	}
	if slices.ContainsFunc(own, func(p podOwner) bool { return p.GetUID() == uid }) {
		return all
	}
	return append(all, o.podSources(func(pod *corev1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(pod)
		return ref != nil && ref.UID == uid
	})...)
}

// podSources lists the pods that are there to stay and that speak, by name.
func (o observation) podSources(filter func(*corev1.Pod) bool) []annotationSource {
	var pods []annotationSource
	for _, pod := range o.livePods() {
		if filter(pod) {
			pods = append(pods, annotationSource{"pod " + pod.Name, pod.Annotations})
		}
	}
	slices.SortFunc(pods, func(a, b annotationSource) int { return strings.Compare(a.name, b.name) })
	return pods
}

// commonValue returns what all say; without anybody it is nothing.
func commonValue(key string, all []annotationSource) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	first := all[0]
	for _, s := range all[1:] {
		if s.annotations[key] != first.annotations[key] {
			return "", fmt.Errorf("annotation %s: %s says %q, and %s %q: all have to say the same, or the PodGroup has to say it",
				key, first.name, first.annotations[key], s.name, s.annotations[key])
		}
	}
	return first.annotations[key], nil
}
