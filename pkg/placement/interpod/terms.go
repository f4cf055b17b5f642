// Package interpod turns the constraints among the pods of one group into limits of a jobspec:
// affinity, anti-affinity, host ports and topology spread constraints. It takes pods and
// NodeInfos, and returns alternative requests, the best first. It does no I/O. It reads volume
// claims, volumes and storage classes from listers, and labels of namespaces from a function.
//
// Limits cannot express every constraint. For example, none keeps two shapes apart if
// several pods of one of them may share a domain. The caller verifies each match with
// the filters, slot by slot, in the order that Order returns.
//
// Its files, in reading order:
//
//	terms.go          what does it cost to evaluate the terms of a pod?
//	claims.go         which volume claims are alike?
//	signature.go      which pods may go to the same nodes?
//	shape.go          which pods are of one shape?
//	constraints.go    which constraints are there among the shapes?
//	affinity.go       which shapes must share a domain?
//	capacity.go       for how many pods is there room, by amounts alone?
//	colocation.go     how are shapes put into one domain?
//	antiaffinity.go   which slots must not share a domain?
//	spread.go         which spread constraints count pods of the group, in which domains?
//	order.go          in which order are slots verified?
//	count_range.go     how many pods may go to each domain?
//	spread_limits.go  which limits express these numbers?
//	alternatives.go   which alternatives are there, the best first?
//	skew_tracker.go   may one more pod go to a domain, while pods are placed one by one?
//	causes.go         which constraints leave too little room?
package interpod

import (
	"hash/maphash"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// AntiAffinities caches the required anti-affinity of existing pods. The terms of
// each pod are read once. The zero value is ready for use.
type AntiAffinities struct {
	mu   sync.Mutex
	seed maphash.Seed
	// byUID holds the terms by the pod's UID. They never change.
	byUID map[types.UID]podAntiAffinity
}

// A podAntiAffinity is the required anti-affinity of one pod.
type podAntiAffinity struct {
	// terms are the pod's terms, equal ones once.
	terms []antiAffinityTerm
	// namespaces is the union of the terms' namespaces.
	namespaces sets.Set[string]
	// hasNamespaceSelector says that a term selects namespaces by their labels.
	hasNamespaceSelector bool
}

// An antiAffinityTerm is one distinct term of one pod.
type antiAffinityTerm struct {
	// selectorHash is a hash that tells selectors apart, whatever their size.
	selectorHash uint64
	selector     labels.Selector
	namespaces   sets.Set[string]
	// hasNamespaceSelector says that the term selects namespaces by their labels.
	hasNamespaceSelector bool
	// count is how many terms of the pod are equal to this one. weight is the cost to
	// evaluate one of them.
	count, weight int
}

// EvaluationCost estimates what it costs the filters to compare the required
// anti-affinity of an existing pod with a pod of a namespace: 1 for each term, and
// the term's weight if the term may select pods of the namespace.
func (s *AntiAffinities) EvaluationCost(pod fwk.PodInfo, namespace string) int {
	n := 0
	for _, of := range s.get(pod).terms {
		n += of.count
		if of.hasNamespaceSelector || of.namespaces.Has(namespace) {
			n += of.count * of.weight
		}
	}
	return n
}

// get returns the terms of a pod. It does not cache them: the pod may be gone
// already, and its terms would stay for ever.
func (s *AntiAffinities) get(pod fwk.PodInfo) podAntiAffinity {
	s.mu.Lock()
	known, ok := s.byUID[pod.GetPod().UID]
	seed := s.hashSeed()
	s.mu.Unlock()
	if ok {
		return known
	}
	return newPodAntiAffinity(pod, seed)
}

// hashSeed returns the seed of all hashes, which it makes at its first call. The caller holds mu.
func (s *AntiAffinities) hashSeed() maphash.Seed {
	if s.byUID == nil {
		s.byUID, s.seed = map[types.UID]podAntiAffinity{}, maphash.MakeSeed()
	}
	return s.seed
}

func newPodAntiAffinity(pod fwk.PodInfo, seed maphash.Seed) podAntiAffinity {
	all := podAntiAffinity{namespaces: sets.New[string]()}
	known := map[string]int{}
	for _, t := range pod.GetRequiredAntiAffinityTerms() {
		_, some := t.NamespaceSelector.Requirements()
		text := termKey(&t)
		if i, ok := known[text]; ok {
			all.terms[i].count++
			continue
		}
		known[text] = len(all.terms)
		all.terms = append(all.terms, antiAffinityTerm{
			selectorHash: maphash.String(seed, t.Selector.String()), selector: t.Selector,
			namespaces: t.Namespaces, hasNamespaceSelector: some,
			count: 1, weight: selectorCost(t.Selector) + selectorCost(t.NamespaceSelector),
		})
		all.namespaces = all.namespaces.Union(t.Namespaces)
		all.hasNamespaceSelector = all.hasNamespaceSelector || some
	}
	return all
}

// Put caches the terms of a pod that has a node, before a scheduling cycle needs them.
func (s *AntiAffinities) Put(pod *corev1.Pod) {
	if a := pod.Spec.Affinity; a == nil || a.PodAntiAffinity == nil || pod.Spec.NodeName == "" {
		return
	}
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		return
	}
	s.mu.Lock()
	_, ok := s.byUID[pod.UID]
	seed := s.hashSeed()
	s.mu.Unlock()
	if ok {
		return
	}
	all := newPodAntiAffinity(info, seed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byUID[pod.UID] = all
}

// Drop forgets a pod that is gone.
func (s *AntiAffinities) Drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, uid)
}

// OwnEvaluationCost estimates what it costs to compare a pod's required affinity and
// spread constraints with one other pod.
func OwnEvaluationCost(pod *corev1.Pod) int {
	n := 0
	add := func(selector *metav1.LabelSelector) {
		n++
		if s, err := metav1.LabelSelectorAsSelector(selector); err == nil {
			n += selectorCost(s)
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		add(c.LabelSelector)
	}
	if a := pod.Spec.Affinity; a != nil {
		for _, t := range requiredTerms(a) {
			add(t.LabelSelector)
		}
	}
	return n
}

// selectorCost estimates the cost to evaluate a selector: 1 for each requirement, and
// 1 for every 16 of its values.
func selectorCost(s labels.Selector) int {
	requirements, _ := s.Requirements()
	n := len(requirements)
	for _, r := range requirements {
		n += len(r.ValuesUnsorted()) / 16
	}
	return n
}

// termKey returns a text that is equal for terms with the same selectors and
// namespaces. The topology key is not in it.
func termKey(t *fwk.AffinityTerm) string {
	namespaces := "<nil>"
	if t.NamespaceSelector != nil {
		namespaces = t.NamespaceSelector.String()
	}
	return strings.Join(sets.List(t.Namespaces), ",") + "\n" + namespaces + "\n" + t.Selector.String()
}

// requiredTerms returns the required terms of pod affinity and anti-affinity.
func requiredTerms(a *corev1.Affinity) []corev1.PodAffinityTerm {
	var terms []corev1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return terms
}
