package podgroup

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// unknownKeyEvents returns an event if labels or annotations of a group's objects have Fluence's prefixes and
// no effect. If the keys of pods count, because their templates are not known, it returns one for the first
// pods only: others may have others, and each would be one more event.
func (m *memory) unknownKeyEvents(o observation) []pendingEvent {
	if m.reportedKeys != "" && len(o.podOwners) == 0 {
		return nil
	}
	text := clip(strings.Join(group.KeyProblems(o.keyedObjects()...), "; "))
	if text == "" || text == m.reportedKeys {
		return nil
	}
	m.reportedKeys = text
	return []pendingEvent{{eventType: corev1.EventTypeWarning, reason: reason.UnknownAnnotation, text: text}}
}

// keyedObjects lists the objects of a group whose labels and annotations may have an effect on it, as far as
// the cache has them: not the labels of the PodGroup and of the owners.
func (o observation) keyedObjects() []group.KeyedObject {
	objects := []group.KeyedObject{{Place: group.OnPodGroup, Annotations: o.podGroup.Annotations}}
	for _, p := range o.podOwners {
		objects = append(objects,
			group.KeyedObject{Place: group.OnWorkload, Kind: p.ref.Kind, Annotations: p.GetAnnotations()},
			group.KeyedObject{Place: group.OnPod, Labels: p.template.Labels, Annotations: p.template.Annotations})
	}
	if len(o.podOwners) == 0 {
		for _, set := range o.livePods() {
			objects = append(objects, group.KeyedObject{Place: group.OnPod, Kind: "pods", Labels: set.pod.Labels, Annotations: set.pod.Annotations})
		}
	}
	return objects
}
