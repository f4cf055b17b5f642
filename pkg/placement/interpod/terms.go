// Package interpod turns what the pods of one group ask of each other into limits of a jobspec:
// affinity, anti-affinity, host ports and topology spread constraints. Pods and NodeInfos go in, and
// ways to ask a matcher come out, the best first. Of the world it reads the claims of volumes alone,
// from listers.
//
// A matcher cannot be asked for all of it: where one of two pods keeps the other away and is not kept
// away by it, no number says so. The caller verifies that with the filters, slot by slot, in the order
// that is best for that.
//
// Its files, each of which uses those before it:
//
//	terms.go          what is there to read in the terms of a pod?
//	claims.go         which claims of volumes are alike?
//	signature.go      which pods may go to the same nodes?
//	shape.go          which pods are of one shape?
//	constraints.go    what do the shapes ask of each other?
//	affinity.go       which shapes go to one domain?
//	capacity.go       for how many pods is there room, as far as amounts go?
//	colocation.go     how are they bound to one domain?
//	antiaffinity.go   which slots may not stand together?
//	spread.go         which constraints count pods of the group, in which domains?
//	order.go          in which order are slots verified?
//	skew_range.go     how many pods may come to each domain?
//	spread_limits.go  what limits say so?
//	alternatives.go   which ways are there to ask, the best first?
//	skew_tracker.go   may one more pod come to a domain, while they are placed one by one?
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

// AntiAffinities are the selectors of the required anti-affinity of pods that are there, read once for
// each pod. The zero value is ready for use.
type AntiAffinities struct {
	mu   sync.Mutex
	seed maphash.Seed
	// byUID is by the pod's UID: such terms never change.
	byUID map[types.UID]podAntiAffinity
}

// A shunned is what a pod keeps away from: each selector once, and the namespaces of all of them.
type podAntiAffinity struct {
	terms                []antiAffinityTerm
	namespaces           sets.Set[string]
	hasNamespaceSelector bool
}

// A shun is one selector of one pod.
type antiAffinityTerm struct {
	// sum tells selectors apart, whatever their size.
	sum        uint64
	selector   labels.Selector
	namespaces sets.Set[string]
	// hasNamespaceSelector says that it goes for namespaces by their labels.
	hasNamespaceSelector bool
	// count is how many terms of the pod it stands for, and weight how much there is to read in each.
	count, weight int
}

// EvaluationCost says how much filters have to read in what a pod shuns for the sake of a pod of a
// namespace: each term, and all of those that may go for it.
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

// get returns what a pod shuns. It keeps none: the pod may be gone already.
func (s *AntiAffinities) get(pod fwk.PodInfo) podAntiAffinity {
	s.mu.Lock()
	known, ok := s.byUID[pod.GetPod().UID]
	seed := s.seeded()
	s.mu.Unlock()
	if ok {
		return known
	}
	return newPodAntiAffinity(pod, seed)
}

// seeded returns the seed of all sums.
func (s *AntiAffinities) seeded() maphash.Seed {
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
			sum: maphash.String(seed, t.Selector.String()), selector: t.Selector,
			namespaces: t.Namespaces, hasNamespaceSelector: some,
			count: 1, weight: selectorCost(t.Selector) + selectorCost(t.NamespaceSelector),
		})
		all.namespaces = all.namespaces.Union(t.Namespaces)
		all.hasNamespaceSelector = all.hasNamespaceSelector || some
	}
	return all
}

// Put reads the terms of a pod that has a node, before a scheduling cycle needs them.
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
	seed := s.seeded()
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

// OwnEvaluationCost is how much there is to read in what a pod asks of others, each time that it is compared
// with one.
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

// selectorCost says how much there is to read in a selector. Its values take little each.
func selectorCost(s labels.Selector) int {
	requirements, _ := s.Requirements()
	n := len(requirements)
	for _, r := range requirements {
		n += len(r.ValuesUnsorted()) / 16
	}
	return n
}

// termKey tells terms apart by what they select.
func termKey(t *fwk.AffinityTerm) string {
	namespaces := "<nil>"
	if t.NamespaceSelector != nil {
		namespaces = t.NamespaceSelector.String()
	}
	return strings.Join(sets.List(t.Namespaces), ",") + "\n" + namespaces + "\n" + t.Selector.String()
}

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
