package fluence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/group"
)

// constraintsOf is the text of all that filters look at in a pod beside its
// requests. Pods with the same text may go to the same nodes.
func (b selectedBy) constraintsOf(pod *corev1.Pod) string {
	var ports []corev1.ContainerPort
	for _, p := range hostPorts(pod) {
		ports = append(ports, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
	}
	var volumes []corev1.Volume
	for _, v := range pod.Spec.Volumes {
		if mayClash(v) {
			volumes = append(volumes, v)
		}
	}
	others := maps.Clone(pod.Labels)
	for _, own := range ownLabels {
		if !b.keys.Has(own) {
			delete(others, own)
		}
	}
	text, err := json.Marshal(struct {
		Namespace string                            `json:"ns"`
		Selected  []bool                            `json:"m,omitempty"`
		Labels    map[string]string                 `json:"l,omitempty"`
		Selector  map[string]string                 `json:"s,omitempty"`
		Affinity  *corev1.Affinity                  `json:"a,omitempty"`
		Tolerates []corev1.Toleration               `json:"t,omitempty"`
		Spread    []corev1.TopologySpreadConstraint `json:"sp,omitempty"`
		Ports     []corev1.ContainerPort            `json:"p,omitempty"`
		Volumes   []corev1.Volume                   `json:"v,omitempty"`
		Claims    []corev1.PodResourceClaim         `json:"c,omitempty"`
		OS        *corev1.PodOS                     `json:"o,omitempty"`
	}{
		pod.Namespace, b.selects(pod), others, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations,
		pod.Spec.TopologySpreadConstraints, ports, volumes, pod.Spec.ResourceClaims, pod.Spec.OS,
	})
	if err != nil {
		// Plain data of the API always has a JSON form.
		panic(fmt.Sprintf("encode the constraints of pod %s/%s: %v", pod.Namespace, pod.Name, err))
	}
	return string(text)
}

// selectedBy is how the pods of a plan select each other by labels in which they differ
// by design, such as all but the first.
type selectedBy struct {
	// selectors are those of required affinity and of spread constraints that name such
	// a label, each once.
	selectors []labels.Selector
	// keys are the labels whose values count by themselves.
	keys sets.Set[string]
}

func selectedByOf(plan group.Plan) selectedBy {
	b := selectedBy{keys: sets.New[string]()}
	known := sets.New[string]()
	add := func(s *metav1.LabelSelector) {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || known.Has(selector.String()) || !namesOwn(selector) {
			return
		}
		known.Insert(selector.String())
		b.selectors = append(b.selectors, selector)
	}
	for _, pod := range slices.Concat(plan.Required, plan.Optional) {
		for _, c := range pod.Spec.TopologySpreadConstraints {
			add(c.LabelSelector)
			b.keys.Insert(c.MatchLabelKeys...)
		}
		if a := pod.Spec.Affinity; a != nil {
			for _, t := range affinityTerms(a) {
				add(t.LabelSelector)
			}
		}
	}
	return b
}

func namesOwn(s labels.Selector) bool {
	requirements, _ := s.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return slices.Contains(ownLabels[:], r.Key()) })
}

// selects says which of the selectors match a pod.
func (b selectedBy) selects(pod *corev1.Pod) []bool {
	var by []bool
	for _, s := range b.selectors {
		by = append(by, s.Matches(labels.Set(pod.Labels)))
	}
	return by
}

func affinityTerms(a *corev1.Affinity) []corev1.PodAffinityTerm {
	var terms []corev1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return terms
}

// ownLabels are labels in which the pods of one group differ by design: those of
// a Job or a StatefulSet, those of the Jobs of a JobSet, the workers of an MPIJob
// and of a LeaderWorkerSet, and their group and its sizes, which not all of them need
// have. They count where a pod of the group selects by them.
var ownLabels = [...]string{
	"batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid", "job-name", "controller-uid",
	"apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name",
	"jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-group-index", "jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/replicatedjob-name",
	"jobset.sigs.k8s.io/replicatedjob-replicas", "training.kubeflow.org/replica-index", "training.kubeflow.org/job-role", "leaderworkerset.sigs.k8s.io/worker-index",
	group.Label, group.SizeLabel, group.MinLabel,
}
