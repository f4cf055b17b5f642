package interpod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// colocatedSet is a set of shapes that required affinity puts into one domain of a key.
type colocatedSet struct {
	key    string
	shapes []int
	// partners are sets of other shapes. At least one pod of each set must be in the same
	// domain, and its other pods may be elsewhere.
	partners [][]int
}

// findColocated finds the shapes whose required affinity only pods of the group can
// satisfy. If an existing pod satisfies it, the filters decide on the nodes.
func (s *Constraints) findColocated() {
	for i, info := range s.infos {
		terms := info.GetRequiredAffinityTerms()
		if s.IsStopped() {
			return
		}
		if len(terms) == 0 || s.isSatisfiedByExisting(terms) {
			continue
		}
		var selected []int
		for j := range s.shapes {
			if s.IsStopped() {
				return
			}
			if !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !s.Selects(&t, j) }) {
				selected = append(selected, j)
			}
		}
		if len(selected) == 0 {
			continue
		}
		// InterPodAffinity lets the first pod of a series pass if the pod selects itself. Any other
		// shape would be rejected everywhere before the pods that it selects are placed.
		if !slices.Contains(selected, i) {
			s.dropAffinity(i, terms)
		}
		keys := sets.New[string]()
		for _, t := range terms {
			if s.IsStopped() {
				return
			}
			if !keys.Has(t.TopologyKey) && t.TopologyKey != s.domain {
				s.unite(s.colocatedWith(t.TopologyKey, i, selected))
			}
			keys.Insert(t.TopologyKey)
		}
	}
}

// colocatedWith returns the shapes that must share a domain of a key with shape
// i. selected are the shapes that satisfy the affinity of shape i. Shapes in selected whose
// own affinity selects shape i must be in the same domain. Of the other shapes in selected
// only one pod has to be there: if they have one pod in all, they join the domain.
// Otherwise they are partners, and one of their pods must be there.
func (s *Constraints) colocatedWith(key string, i int, selected []int) colocatedSet {
	t := colocatedSet{key: key, shapes: []int{i}}
	var others []int
	pods := 0
	for _, j := range selected {
		if s.IsStopped() {
			break
		}
		asks := slices.ContainsFunc(s.infos[j].GetRequiredAffinityTerms(), func(t fwk.AffinityTerm) bool {
			return t.TopologyKey == key && s.Selects(&t, i)
		})
		switch {
		case j == i:
		case asks:
			t.shapes = append(t.shapes, j)
		default:
			others = append(others, j)
			pods += len(s.shapes[j].Pods)
		}
	}
	switch {
	case pods == 1:
		t.shapes = append(t.shapes, others...)
	case pods > 1:
		t.partners = [][]int{others}
	}
	return t
}

// isSatisfiedByExisting reports whether an existing pod satisfies all terms. It also returns true once
// IsStopped, because terms may have thousands of requirements, and the comparison may take long.
func (s *Constraints) isSatisfiedByExisting(terms []fwk.AffinityTerm) bool {
	return slices.ContainsFunc(s.nodes, func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPods(), func(p fwk.PodInfo) bool {
			pod := p.GetPod()
			return s.IsStopped() || !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(pod, s.labelsOf(pod.Namespace)) })
		})
	})
}

// dropAffinity removes the required affinity of a shape from its relaxed pod, because only
// siblings can satisfy it. It adds the nodes without the topology keys to Unlabelled.
func (s *Constraints) dropAffinity(i int, terms []fwk.AffinityTerm) {
	if s.Relaxed[i] == s.shapes[i].Pods[0] {
		s.Relaxed[i] = s.Relaxed[i].DeepCopy()
	}
	s.Relaxed[i].Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{}
	for _, n := range s.nodes {
		if slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { _, ok := n.Node().Labels[t.TopologyKey]; return !ok }) {
			s.Unlabelled[i] = append(s.Unlabelled[i], n.Node().Name)
		}
	}
}

// unite adds a set of shapes that share a domain of a key. It merges the set with all
// sets of this key that have a shape in common with it.
func (s *Constraints) unite(added colocatedSet) {
	s.colocated = slices.DeleteFunc(s.colocated, func(t colocatedSet) bool {
		if t.key != added.key || !slices.ContainsFunc(t.shapes, func(i int) bool { return slices.Contains(added.shapes, i) }) {
			return false
		}
		added.shapes = append(added.shapes, t.shapes...)
		added.partners = append(added.partners, t.partners...)
		return true
	})
	slices.Sort(added.shapes)
	added.shapes = slices.Compact(added.shapes)
	added.partners = slices.DeleteFunc(added.partners, func(partners []int) bool {
		return slices.ContainsFunc(partners, func(i int) bool { return slices.Contains(added.shapes, i) })
	})
	s.colocated = append(s.colocated, added)
}
