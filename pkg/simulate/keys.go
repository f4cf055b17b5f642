package simulate

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
)

// noteKeys adds notes about labels and annotations of an object that have Fluence's prefixes and no effect, or
// a wrong value, as the webhook and the controller report them.
func (w *Additions) noteKeys(u *unstructured.Unstructured) {
	at := func(place group.Place, kind string, path ...string) group.KeyedObject {
		// Fields that are no maps of strings are reported where the object is read.
		labels, _, _ := unstructured.NestedStringMap(u.Object, append(slices.Clip(path), "metadata", "labels")...)
		annotations, _, _ := unstructured.NestedStringMap(u.Object, append(slices.Clip(path), "metadata", "annotations")...)
		return group.KeyedObject{Place: place, Kind: kind, Labels: labels, Annotations: annotations}
	}
	var objects []group.KeyedObject
	switch kind := u.GetKind(); kind {
	case "Pod":
		objects = append(objects, at(group.OnPod, "pod"))
	case "Namespace":
		objects = append(objects, at(group.OnNamespace, ""))
	case "PodGroup":
		place := group.OnPodGroup
		if u.GroupVersionKind().Group == nativegroup.GroupVersion.Group {
			place = group.OnNativePodGroup
		}
		objects = append(objects, at(place, ""))
	case "CronJob":
		objects = append(objects, at(group.OnWorkload, kind), at(group.OnWorkload, "Job", "spec", "jobTemplate"), at(group.OnPod, "", "spec", "jobTemplate", "spec", "template"))
	case "Deployment", "Job", "ReplicaSet", "StatefulSet":
		objects = append(objects, at(group.OnWorkload, kind), at(group.OnPod, "", "spec", "template"))
	}
	if template := len(objects) - 1; template > 0 {
		for _, o := range objects[:template] {
			for _, key := range []string{group.Label, group.MinLabel, group.SizeLabel} {
				_, written := o.Labels[key]
				if _, copied := objects[template].Labels[key]; written && !copied {
					w.note("%s: label %s of the %s: counts only where the webhook copies it to the pod template, which is not simulated; write it in the template", w.about, key, o.Kind)
				}
			}
		}
	}
	for _, text := range group.KeyProblems(objects...) {
		w.note("%s: %s", w.about, text)
	}
	for _, o := range objects {
		if o.Place == group.OnPod {
			native, _, _ := unstructured.NestedString(u.Object, "spec", "schedulingGroup", "podGroupName")
			noteValues(w, o.Labels, o.Annotations, o.Kind == "pod" && o.Labels[group.Label] == "" && native == "" && len(u.GetOwnerReferences()) == 0)
			if spec, ok := jobSpecOf(u); ok {
				if text := group.JobSizeProblem(spec, o.Labels, o.Annotations); text != "" {
					w.note("%s: %s", w.about, text)
				}
			}
		}
	}
}

// jobSpecOf returns the spec of a Job, or of the Jobs of a CronJob, as JSON. It returns false for other objects, and for
// Jobs that another object controls.
func jobSpecOf(u *unstructured.Unstructured) ([]byte, bool) {
	path := map[string][]string{"Job": {"spec"}, "CronJob": {"spec", "jobTemplate", "spec"}}[u.GetKind()]
	if path == nil || len(u.GetOwnerReferences()) > 0 {
		return nil, false
	}
	spec, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil || !found {
		return nil, false
	}
	text, err := json.Marshal(spec)
	return text, err == nil
}

// noteValues adds notes about wrong values of the labels and annotations of a pod or a pod template. alone says
// that nothing puts the pod into a group with others.
func noteValues(w *Additions, labels, annotations map[string]string, alone bool) {
	for _, text := range group.ValueProblems(labels, annotations, alone) {
		w.note("%s: %s", w.about, text)
	}
}
