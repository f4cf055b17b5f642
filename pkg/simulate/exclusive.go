package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flux-k8s/fluence/pkg/group"
)

// An exclusivity is how an operator gives each Job or unit of an object a topology domain for itself.
type exclusivity struct {
	// annotation names the label of the nodes whose values are the domains. label is a label of the pods
	// that has a value of its own for each Job or unit.
	annotation, label string
	// priority is a label of the pods with their priority: only pods of one priority exclude each other, in
	// all namespaces. If it is empty, pods of all priorities do, in their own namespace.
	priority string
	// other is an annotation for another way of exclusive placement, which is not simulated.
	// needed says that it has an effect only beside annotation.
	other  string
	needed bool
}

// exclusivities has the keys with which JobSet (jobset.x-k8s.io/v1alpha2) and LeaderWorkerSet
// (leaderworkerset.x-k8s.io/v1) place exclusively, by kind.
var exclusivities = map[string]exclusivity{
	"JobSet.jobset.x-k8s.io": {
		annotation: "alpha.jobset.sigs.k8s.io/exclusive-topology",
		label:      "jobset.sigs.k8s.io/job-key", priority: "jobset.sigs.k8s.io/priority",
		other: "alpha.jobset.sigs.k8s.io/node-selector", needed: true,
	},
	"LeaderWorkerSet.leaderworkerset.x-k8s.io": {
		annotation: "leaderworkerset.sigs.k8s.io/exclusive-topology",
		label:      "leaderworkerset.sigs.k8s.io/group-key",
		other:      "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
	},
}

// exclusivityOf returns the exclusivity of an object. It is zero for the kinds that have none.
func exclusivityOf(u *unstructured.Unstructured) exclusivity {
	return exclusivities[u.GroupVersionKind().GroupKind().String()]
}

// check returns an error if the annotations of an object, or of a replicated Job in it, ask for an exclusive
// placement that is wrong or not simulated. The error names the annotation and its value.
func (e exclusivity) check(u *unstructured.Unstructured) error {
	type place struct {
		path        string
		annotations map[string]string
	}
	places := []place{{"metadata.annotations", u.GetAnnotations()}}
	// A field of another type is reported where the spec is read.
	jobs, _, _ := unstructured.NestedSlice(u.Object, "spec", "replicatedJobs")
	for i := range jobs {
		if job, ok := jobs[i].(map[string]any); ok {
			annotations, _, _ := unstructured.NestedStringMap(job, "template", "metadata", "annotations")
			places = append(places, place{fmt.Sprintf("spec.replicatedJobs[%d].template.metadata.annotations", i), annotations})
		}
	}
	exclusive := false
	for _, at := range places {
		value, asks := at.annotations[e.annotation]
		if exclusive = exclusive || asks; !asks {
			continue
		}
		if wrong := validation.IsQualifiedName(value); len(wrong) > 0 {
			return fmt.Errorf("%s[%s]: %q: must be the key of a label of the nodes: %s", at.path, e.annotation, value, wrong[0])
		}
	}
	for _, at := range places {
		if value, asks := at.annotations[e.other]; asks && (exclusive || !e.needed) {
			return fmt.Errorf("%s[%s]: %q: this placement cannot be simulated; create the object, and use kubectl fluence why", at.path, e.other, value)
		}
	}
	return nil
}

// place gives a pod of a template the labels, affinity and anti-affinity of its Job or unit. The operator gives
// them to the first pod. The others get a node selector of its domain, once it has one: until then affinity says
// the same. templates are those of the unit. priority is the pod's.
func (e exclusivity) place(pod *corev1.Pod, priority int32, unit group.Owner, templates []group.Template, t group.Template) {
	leader := slices.IndexFunc(templates, func(o group.Template) bool { return o.Name == cmp.Or(t.Leader, t.Name) })
	value := fmt.Sprintf("%s-%d", unit.UID, leader)
	pod.Labels[e.label] = value
	own := corev1.PodAffinityTerm{
		TopologyKey:   t.Domain,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: e.label, Operator: metav1.LabelSelectorOpIn, Values: []string{value}}}},
	}
	others := corev1.PodAffinityTerm{
		TopologyKey: t.Domain,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: e.label, Operator: metav1.LabelSelectorOpExists}, {Key: e.label, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}},
		}},
	}
	if e.priority != "" {
		of := strconv.Itoa(int(priority))
		pod.Labels[e.priority] = of
		own.NamespaceSelector, others.NamespaceSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
		others.LabelSelector.MatchExpressions = append(others.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.priority, Operator: metav1.LabelSelectorOpIn, Values: []string{of}})
	}
	a := pod.Spec.Affinity
	if a == nil {
		a = &corev1.Affinity{}
		pod.Spec.Affinity = a
	}
	if a.PodAffinity == nil {
		a.PodAffinity = &corev1.PodAffinity{}
	}
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, own)
	a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, others)
}
