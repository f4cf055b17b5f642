package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/group"
)

// ofOperator reports whether objects of a kind are no part of Kubernetes, and say how many pods they make.
func ofOperator(k group.Kind) bool {
	return k.Sized() && !k.Watched && k.Group != "apps"
}

// rayClusterIn has the field with the spec of the RayCluster that an object makes, by the object's kind.
var rayClusterIn = map[string]string{"RayJob.ray.io": "rayClusterSpec", "RayService.ray.io": "rayClusterConfig"}

// rayClusterOf returns the RayCluster that a RayJob or a RayService makes. It returns other objects as they are.
func rayClusterOf(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	field, makes := rayClusterIn[u.GroupVersionKind().GroupKind().String()]
	if !makes {
		return u, nil
	}
	spec, found, err := unstructured.NestedMap(u.Object, "spec", field)
	if err != nil || !found {
		return nil, fmt.Errorf("spec.%s: must be the spec of a RayCluster", field)
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	made.SetGroupVersionKind(u.GroupVersionKind().GroupVersion().WithKind("RayCluster"))
	made.SetNamespace(u.GetNamespace())
	// The operator adds a part of its own to the name.
	made.SetGenerateName(u.GetName() + "-")
	return made, nil
}

// ownerOf returns an object as an owner of pods.
func ownerOf(u *unstructured.Unstructured) group.Owner {
	gk := u.GroupVersionKind().GroupKind()
	return group.Owner{Group: gk.Group, Kind: gk.Kind, Name: u.GetName(), UID: u.GetUID()}
}

// addWorkload adds the pods that an operator would make of an object, from the pod templates in its spec. Objects
// that the operator makes in between, such as the Jobs of a JobSet, are left out: they have no effect on the group.
func (w *Additions) addWorkload(u *unstructured.Unstructured, k group.Kind) error {
	if err := w.admit(u); err != nil {
		return err
	}
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return fmt.Errorf("encode spec: %w", err)
	}
	o := ownerOf(u)
	size, err := group.DefaultSize(o, spec, w.scheduler)
	if err != nil {
		return err
	}
	if err := exclusivityOf(u).check(u); err != nil {
		return err
	}
	templates, err := group.AllTemplates(o, u.GetAnnotations(), spec, w.scheduler)
	if err != nil {
		return err
	}
	units, err := group.UnitsOf(o, spec)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(templates, isExclusive) && len(templates) > group.MaxTemplates {
		return fmt.Errorf("spec.replicatedJobs: more than %d Jobs: their exclusive placement cannot be simulated", group.MaxTemplates)
	}
	w.noteWorkload(u, k, spec, templates)
	if int64(len(units))*int64(size.Size) > group.MaxSize {
		return fmt.Errorf("spec.replicas: %d: asks for more than %d pods in all", len(units), group.MaxSize)
	}
	if first, staged := firstStage(templates); staged {
		size = group.Size{}
		for _, t := range first {
			size.Size += t.Coming + t.Expected
		}
		size.Min = size.Size
		templates = first
	}
	for i, unit := range units {
		if len(units) > 1 {
			unit.UID = types.UID(fmt.Sprintf("%s-%d", unit.UID, i))
		}
		w.sizes[unit.UID] = size
		if err := w.addPodsOf(u, unit, templates); err != nil {
			return err
		}
	}
	return nil
}

// isExclusive reports whether the pods of a template have a topology domain for themselves.
func isExclusive(t group.Template) bool { return t.Domain != "" }

// firstStage returns the templates of the first stage, and whether some pods are made only after others.
func firstStage(templates []group.Template) (first []group.Template, staged bool) {
	for _, t := range templates {
		if len(first) > 0 && t.Stage < first[0].Stage {
			first = nil
		}
		if len(first) == 0 || t.Stage == first[0].Stage {
			first = append(first, t)
		}
	}
	return first, len(first) < len(templates) || slices.ContainsFunc(first, func(t group.Template) bool { return t.Expected > 0 })
}

// addPodsOf adds the pods of the templates of one unit of an object.
func (w *Additions) addPodsOf(u *unstructured.Unstructured, unit group.Owner, templates []group.Template) error {
	for _, t := range templates {
		path := "pod template " + t.Name + ": spec"
		for i := range t.Coming + t.Expected {
			name := strings.ToLower(strings.ReplaceAll(t.Name, "/", "-"))
			pod := w.podFromTemplate(t.Pod, u.GetNamespace(), madeUp(madeUp(unit.Name, name), i))
			if isExclusive(t) {
				// The operator sees the priority, which the API server has set before.
				if err := w.prioritise(pod, path); err != nil {
					return err
				}
				exclusivityOf(u).place(pod, ptr.Deref(pod.Spec.Priority, 0), unit, templates, t)
			}
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: unit.Kind, Name: unit.Name, UID: unit.UID, Controller: new(true)}}
			if err := w.addPod(pod, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteWorkload notes in which way the pods of an object are simulated otherwise than its operator makes them.
func (w *Additions) noteWorkload(u *unstructured.Unstructured, k group.Kind, spec []byte, templates []group.Template) {
	but := ""
	if slices.ContainsFunc(templates, isExclusive) {
		but = ", except exclusive placement"
	}
	w.note("%s: its pods are made from its pod templates; what its operator adds to them, such as labels, affinity and containers, is not simulated%s", w.about, but)
	if path := k.Lifecycle.SuspendPath; path != nil {
		if suspended, _, err := unstructured.NestedBool(u.Object, append([]string{"spec"}, path...)...); err == nil && suspended {
			w.note("%s is suspended; simulated as if it were resumed", w.about)
		}
	}
	if others := group.OtherSchedulers(ownerOf(u), spec, w.scheduler); others != "" {
		w.note("%s: not simulated: %s", w.about, others)
	}
	first, staged := firstStage(templates)
	if staged {
		w.note("%s: pods that are made only after others are bound or ready are simulated as if all were made at once", w.about)
	}
	if len(first) < len(templates) {
		w.note("%s: pods that are made after others have ended are not simulated", w.about)
	}
	for _, t := range templates {
		for _, text := range group.KeyProblems(group.KeyedObject{Place: group.OnPod, Labels: t.Pod.Labels, Annotations: t.Pod.Annotations}) {
			w.note("%s: %s", w.about, text)
		}
		noteValues(w, t.Pod.Labels, t.Pod.Annotations, false)
	}
}
