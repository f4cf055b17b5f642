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

// signature returns all that filters look at in a pod, except its requests, as JSON.
// Pods with the same signature may go to the same nodes.
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

// HasClaims reports whether a pod has volumes that filters look at, or claims of devices.
func HasClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || slices.ContainsFunc(pod.Spec.Volumes, isFilteredVolume)
}

// ReadsExistingPods reports whether existing pods have required anti-affinity that may be to the group's
// pods. Then a signature says nothing in another attempt, because it refers to the selectors of these pods.
func (b *Signer) ReadsExistingPods() bool { return b.inexact || len(b.existingSelectors) > 0 }

// A Signer makes the signatures of one group's pods. It knows the selectors that read
// their labels: a label that nothing reads makes no difference.
type Signer struct {
	// groupSelectors are the distinct selectors of the group's required affinity and
	// spread constraints. existingSelectors are the distinct selectors of the
	// required anti-affinity of existing pods.
	groupSelectors, existingSelectors []labels.Selector
	// keys are the labels whose values are part of the signature, because a spread
	// constraint lists them in matchLabelKeys.
	keys sets.Set[string]
	// allLabels says that all labels are part of the signature, except perPodLabels.
	allLabels bool
	// inexact says that existing pods have more selectors than the signatures consider.
	inexact bool
	// claims tells which volume claims are alike. If it is nil, no two are.
	claims *Claims
	// isOverBudget reports whether the budget is used up.
	isOverBudget func() bool
	// stopped says that the work was stopped because of that.
	stopped bool
}

const (
	// maxSelectors bounds groupSelectors. Beyond it all labels are part of the signature.
	maxSelectors = 1 << 10
	// maxExistingSelectors bounds existingSelectors, because existing pods must not make a group
	// too hard. Beyond this bound and the two below, the filters verify each pod by itself.
	maxExistingSelectors = 1 << 7
	// maxRequirements bounds what existingSelectors cost in all (see selectorCost).
	maxRequirements = 1 << 10
	// maxExtraShapes bounds how many shapes existingSelectors add.
	maxExtraShapes = 16
)

// NewSigner returns a Signer for the pods of one group: at least one pod, and all of
// one namespace. It reads the selectors of these pods and of the existing pods on the
// nodes. It stops once spent returns true.
func NewSigner(pods []*corev1.Pod, nodes []fwk.NodeInfo, antiAffinities *AntiAffinities, claims *Claims, isOverBudget func() bool) *Signer {
	b := &Signer{keys: sets.New[string](), claims: claims, isOverBudget: isOverBudget}
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
		if b.stopped = isOverBudget(); b.stopped {
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
			of := antiAffinities.get(p)
			if !of.hasNamespaceSelector && !of.namespaces.Has(namespace) {
				continue
			}
			for _, s := range of.terms {
				if others.Has(s.selectorHash) || !s.hasNamespaceSelector && !s.namespaces.Has(namespace) {
					continue
				}
				if read += selectorCost(s.selector); len(b.existingSelectors) == maxExistingSelectors || read > maxRequirements {
					b.inexact = true
					return b
				}
				others.Insert(s.selectorHash)
				b.existingSelectors = append(b.existingSelectors, s.selector)
			}
		}
	}
	return b
}

// ReadAllLabels makes all labels part of the signature. It is for a group with an
// extender, which may read any label.
func (b *Signer) ReadAllLabels() { b.allLabels = true }

// IsStopped reports whether the work was stopped because the budget was used up. The shapes
// are incomplete then.
func (b *Signer) IsStopped() bool { return b.stopped }

// selects returns which of the selectors match a pod.
func (b *Signer) selects(pod *corev1.Pod) []bool {
	var by []bool
	for _, s := range [][]labels.Selector{b.groupSelectors, b.existingSelectors} {
		for _, s := range s {
			by = append(by, s.Matches(labels.Set(pod.Labels)))
		}
	}
	return by
}

// perPodLabels are labels whose values differ among the pods of one group by design:
// labels of the pods' controllers, and the group's name and sizes, which some pods
// may lack. They make a difference only if a selector or matchLabelKeys reads them.
var perPodLabels = func() []string {
	labels := []string{group.Label, group.SizeLabel, group.MinLabel}
	for _, k := range group.Kinds() {
		labels = append(labels, k.PerPodLabels...)
	}
	return labels
}()
