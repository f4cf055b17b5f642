package podgroup

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// An annotationSource is a pod template or a pod whose annotations may count for its group.
type annotationSource struct {
	// name is for messages.
	name        string
	annotations map[string]string
}

// annotation returns the value of a key for a group, or "" if there is none. The value on the
// PodGroup wins. Without it all sources must have the same value, because anyone who owns one pod
// or template can annotate it. A source without the annotation has another value. The error can be
// shown to users.
//
// If the group is named for an object, the sources are the pod templates below the object and,
// unless the object has a template that the controller knows, the pods that the object controls
// directly. A pod that is in such a group only by its label is ignored. Otherwise any user who can
// create pods could add one with the policy Restart, and the whole group could be evicted. If a
// label names the group, the sources are all its live pods.
func (o observation) annotation(key string) (string, error) {
	if o.podGroup != nil && o.podGroup.Annotations[key] != "" {
		return o.podGroup.Annotations[key], nil
	}
	named := slices.IndexFunc(o.topOwners, func(top topOwner) bool { return top.owner.PodGroupName() == o.key.Name })
	if named < 0 {
		return commonValue(key, o.podSources(func(*corev1.Pod) bool { return true }))
	}
	return commonValue(key, o.sourcesOf(o.topOwners[named].owner.UID))
}

// wrongDuration returns what is wrong with the duration of the PodGroup or, if that has
// none, of one of the pods. The pods of a group need not have the same.
func (o observation) wrongDuration() error {
	if o.podGroup != nil && o.podGroup.Annotations[group.DurationAnnotation] != "" {
		_, err := group.ParseDuration(o.podGroup.Annotations[group.DurationAnnotation])
		return err
	}
	for _, s := range o.podSources(func(*corev1.Pod) bool { return true }) {
		if _, err := group.ParseDuration(s.annotations[group.DurationAnnotation]); err != nil {
			return err
		}
	}
	return nil
}

// sourcesOf lists the templates below an object. Unless the object has a template itself, it also
// lists the pods that the object controls directly. An MPIJob has both: a Job creates its launcher,
// and the MPIJob creates its workers itself.
func (o observation) sourcesOf(uid types.UID) []annotationSource {
	var own []podOwner
	for _, p := range o.podOwners {
		if p.topUID == uid {
			own = append(own, p)
		}
	}
	var all []annotationSource
	for _, p := range activePodOwners(own) {
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

// podSources lists the live pods for which filter is true, one of each podSet. They have no names,
// because the pod that stands for a podSet changes while the group starts, and with it the message.
func (o observation) podSources(filter func(*corev1.Pod) bool) []annotationSource {
	var pods []annotationSource
	live := o.livePods()
	slices.SortStableFunc(live, func(a, b podSet) int { return strings.Compare(a.traits.annotations, b.traits.annotations) })
	for _, set := range live {
		if filter(set.pod) {
			pods = append(pods, annotationSource{"one of its pods", set.pod.Annotations})
		}
	}
	return pods
}

// commonValue returns the value that all sources have, or
// "" if there are none. It fails if two sources differ.
func commonValue(key string, all []annotationSource) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	first := all[0]
	for _, s := range all[1:] {
		if s.annotations[key] != first.annotations[key] {
			return "", fmt.Errorf("annotation %s: %s has %q but %s has %q: set the same value on all, or set it on the PodGroup",
				key, first.name, first.annotations[key], s.name, s.annotations[key])
		}
	}
	return first.annotations[key], nil
}
