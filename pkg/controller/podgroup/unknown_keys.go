package podgroup

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// unknownKeyEvents returns an event if labels or annotations of a group's objects have Fluence's prefixes and
// no effect. If the keys of pods count, because their templates are not known, it returns one for the first
// pods only: others may have others, and each would be one more event.
func (m *memory) unknownKeyEvents(o observation) []pendingEvent {
	versions := o.keyVersions()
	if m.readKeys == versions || m.reportedKeys != "" && len(o.podOwners) == 0 {
		return nil
	}
	m.readKeys = versions
	text := clip(strings.Join(group.KeyProblems(o.keyedObjects()...), "; "))
	if text == "" || text == m.reportedKeys {
		return nil
	}
	m.reportedKeys = text
	return []pendingEvent{{eventType: corev1.EventTypeWarning, reason: reason.UnknownAnnotation, text: text}}
}

// keyVersions returns a hash of the versions of the objects that keyedObjects reads. It is not zero.
func (o observation) keyVersions() uint64 {
	h := fnv.New64a()
	add := func(obj client.Object) { fmt.Fprintln(h, obj.GetUID(), obj.GetResourceVersion()) }
	add(o.podGroup)
	for _, p := range o.podOwners {
		add(p)
	}
	if len(o.podOwners) == 0 {
		for _, set := range o.livePods() {
			add(set.pod)
		}
	}
	return max(1, h.Sum64())
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
