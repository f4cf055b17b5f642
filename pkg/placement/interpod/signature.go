package interpod

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
)

// signature is the text of all that filters look at in a pod beside its
// requests. Pods with the same text may go to the same nodes.
func (b *Signer) signature(pod *corev1.Pod) string {
	var ports []corev1.ContainerPort
	for _, p := range hostPorts(pod) {
		ports = append(ports, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
	}
	var volumes []string
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; isFilteredVolume(*v) {
			volumes = append(volumes, b.claims.volumeKey(pod, v))
		}
	}
	read := map[string]string{}
	for key, value := range pod.Labels {
		if b.keys.Has(key) || b.allLabels && !slices.Contains(perPodLabels, key) {
			read[key] = value
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
		Volumes   []string                          `json:"v,omitempty"`
		Claims    []corev1.PodResourceClaim         `json:"c,omitempty"`
		OS        *corev1.PodOS                     `json:"o,omitempty"`
	}{
		pod.Namespace, b.selects(pod), read, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations,
		pod.Spec.TopologySpreadConstraints, ports, volumes, pod.Spec.ResourceClaims, pod.Spec.OS,
	})
	if err != nil {
		// Plain data of the API always has a JSON form.
		panic(fmt.Sprintf("encode the constraints of pod %s/%s: %v", pod.Namespace, pod.Name, err))
	}
	return string(text)
}

// A Signer tells the pods of one group apart by what filters look at. It knows what reads their
// labels: a label that nothing reads makes no two pods unlike.
type Signer struct {
	// groupSelectors are the selectors of the pods' own required affinity and spread constraints, each
	// once, and others those of the required anti-affinity of pods that are there.
	groupSelectors, existingSelectors []labels.Selector
	// keys are the labels whose values count by themselves.
	keys sets.Set[string]
	// allLabels says that every label counts but those in which pods of one group differ by design.
	allLabels bool
	// inexact says that more selectors of pods that are there read the labels than are told apart.
	inexact bool
	// claims say which claims are alike; nil is that none are.
	claims *Claims
	// isOverBudget says that reading has taken as much as it may, and cut that it was cut short for that.
	isOverBudget func() bool
	cut          bool
}

const (
	// maxSelectors is how many selectors of the pods' own are told apart. Beyond that every
	// label counts.
	maxSelectors = 1 << 10
	// Selectors of running pods tell a group's pods apart. At most maxExistingSelectors selectors do, with
	// maxRequirements requirements in all, and they make at most maxExtraShapes kinds more: others shall not make
	// a group hard. Beyond these bounds each pod is verified by itself.
	maxExistingSelectors = 1 << 7
	maxRequirements      = 1 << 10
	maxExtraShapes       = 16
)

// NewSigner returns a Signer for the pods of one group, one at least, which are of one namespace. It
// looks at what reads their labels among these nodes, and is cut short once spent says true.
func NewSigner(pods []*corev1.Pod, nodes []fwk.NodeInfo, there *AntiAffinities, claims *Claims, spent func() bool) *Signer {
	b := &Signer{keys: sets.New[string](), claims: claims, isOverBudget: spent}
	namespace := pods[0].Namespace
	known := sets.New[string]()
	add := func(selector *metav1.LabelSelector) {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || b.allLabels {
			return
		}
		if text := s.String(); !known.Has(text) {
			known.Insert(text)
			b.groupSelectors = append(b.groupSelectors, s)
			b.allLabels = len(b.groupSelectors) > maxSelectors
		}
	}
	for _, pod := range pods {
		if b.cut = spent(); b.cut {
			return b
		}
		for _, c := range pod.Spec.TopologySpreadConstraints {
			b.keys.Insert(c.MatchLabelKeys...)
			add(c.LabelSelector)
		}
		if a := pod.Spec.Affinity; a != nil {
			for _, t := range requiredTerms(a) {
				add(t.LabelSelector)
			}
		}
	}
	if b.allLabels {
		b.groupSelectors = nil
	}
	others, read := sets.New[uint64](), 0
	for _, n := range nodes {
		for _, p := range n.GetPodsWithRequiredAntiAffinity() {
			of := there.get(p)
			if !of.hasNamespaceSelector && !of.namespaces.Has(namespace) {
				continue
			}
			for _, s := range of.terms {
				if others.Has(s.sum) || !s.hasNamespaceSelector && !s.namespaces.Has(namespace) {
					continue
				}
				if read += selectorCost(s.selector); len(b.existingSelectors) == maxExistingSelectors || read > maxRequirements {
					b.inexact = true
					return b
				}
				others.Insert(s.sum)
				b.existingSelectors = append(b.existingSelectors, s.selector)
			}
		}
	}
	return b
}

// ReadAllLabels has every label count: something reads the pods, and nobody knows what of them.
func (b *Signer) ReadAllLabels() { b.allLabels = true }

// Cut says that reading was cut short: shapes are known in part.
func (b *Signer) Cut() bool { return b.cut }

// selects says which of the selectors match a pod.
func (b *Signer) selects(pod *corev1.Pod) []bool {
	var by []bool
	for _, s := range [][]labels.Selector{b.groupSelectors, b.existingSelectors} {
		for _, s := range s {
			by = append(by, s.Matches(labels.Set(pod.Labels)))
		}
	}
	return by
}

// perPodLabels are labels in which the pods of one group differ by design: those of what makes
// them, and their group and its sizes, which not all of them need have. They count only where
// something is known to read them.
var perPodLabels = func() []string {
	labels := []string{"ray.io/worker-group-replica-index", group.Label, group.SizeLabel, group.MinLabel}
	for _, k := range group.Kinds() {
		labels = append(labels, k.PerPodLabels...)
	}
	return labels
}()
