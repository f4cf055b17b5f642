package fluxjob

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-k8s/fluence/pkg/group"
)

// The pods of a Job may have rules for each other. The scheduler chooses the nodes before there are pods, so it has to know them: else
// its filters would refuse the pods on these nodes again and again.

// everyPod selects all pods. A term that selects the pods of its own template is cached with it, because the labels are not.
var everyPod = &metav1.LabelSelector{}

// keepAmong adds those rules of a template that are among its own pods to what is kept of the template.
func keepAmong(kept *corev1.PodSpec, template *corev1.PodTemplateSpec, namespace string) {
	spec, own := &template.Spec, labels.Set(template.Labels)
	terms := func(all []corev1.PodAffinityTerm) (among []corev1.PodAffinityTerm) {
		for i := range all {
			if selects(&all[i], own, namespace) {
				among = append(among, corev1.PodAffinityTerm{TopologyKey: all[i].TopologyKey, LabelSelector: everyPod})
			}
		}
		return among
	}
	if a := spec.Affinity; a != nil {
		add := corev1.Affinity{}
		if kept.Affinity != nil {
			add = *kept.Affinity
		}
		if a.PodAffinity != nil {
			add.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)}
		}
		if a.PodAntiAffinity != nil {
			add.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)}
		}
		kept.Affinity = &add
	}
	for _, c := range spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && matches(c.LabelSelector, own) {
			kept.TopologySpreadConstraints = append(kept.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				TopologyKey: c.TopologyKey, MaxSkew: c.MaxSkew, WhenUnsatisfiable: c.WhenUnsatisfiable, LabelSelector: everyPod,
			})
		}
	}
	if port := hostPort(spec); port != 0 {
		kept.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}}
	}
}

// selects reports whether a term of a pod selects pods with the same labels in the same namespace. Of a namespace it knows the name alone.
func selects(t *corev1.PodAffinityTerm, own labels.Set, namespace string) bool {
	for _, key := range t.MismatchLabelKeys {
		if _, has := own[key]; has {
			return false
		}
	}
	inNamespace := t.NamespaceSelector == nil && len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, namespace) ||
		matches(t.NamespaceSelector, labels.Set{corev1.LabelMetadataName: namespace})
	return inNamespace && matches(t.LabelSelector, own)
}

// matches reports whether a selector of an object that the API server has taken matches labels. A nil one matches none.
func matches(s *metav1.LabelSelector, own labels.Set) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(own)
}

// hostPort returns a port of the node that a pod takes, and 0 if it takes none. In a pod with the network of the host each port is
// one, but the API server says so in the pods alone.
func hostPort(spec *corev1.PodSpec) int32 {
	var ports []corev1.ContainerPort
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			ports = append(ports, c.Ports...)
		}
	}
	for i := range spec.Containers {
		ports = append(ports, spec.Containers[i].Ports...)
	}
	for _, p := range ports {
		if p.HostPort > 0 {
			return p.HostPort
		}
		if spec.HostNetwork {
			return p.ContainerPort
		}
	}
	return 0
}

// among returns how many pods of a request may be on one node by its annotations and by the rules among its pods, 0 if there is no
// bound, and the label of which the nodes of all pods must have the same value, empty if there is none. An error names the rule in words
// fit for a user: it is one that only the filters know.
func (r *request) among() (most int64, together string, err error) {
	most, err = group.TopologyAnnotationsOf(r.template.Annotations).MostPerNode()
	if err != nil || r.pods < 2 {
		return most, "", err
	}
	var kept corev1.PodSpec
	kept.Containers = make([]corev1.Container, 1)
	keepAmong(&kept, &r.template, r.template.Namespace)
	atMost := func(n int32) {
		if most == 0 || int64(n) < most {
			most = int64(n)
		}
	}
	apart := func(rule, key string, n int32) {
		if key == corev1.LabelHostname {
			atMost(n)
		} else if err == nil {
			err = fmt.Errorf("%s with topologyKey %q among the pods of the Job: a queue can only bound how many of them are on a node (%s)", rule, key, corev1.LabelHostname)
		}
	}
	if a := kept.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			apart("podAntiAffinity", t.TopologyKey, 1)
		}
	}
	for _, c := range kept.TopologySpreadConstraints {
		apart("topologySpreadConstraints", c.TopologyKey, c.MaxSkew)
	}
	if len(kept.Containers[0].Ports) > 0 {
		atMost(1)
	}
	if a := kept.Affinity; a != nil && a.PodAffinity != nil {
		for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if together == "" || t.TopologyKey == corev1.LabelHostname {
				together = t.TopologyKey
			}
		}
	}
	return most, together, err
}
