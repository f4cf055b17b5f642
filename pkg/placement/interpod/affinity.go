package interpod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// together are shapes that required affinity puts into one domain of a key.
type together struct {
	key    string
	shapes []int
	// near are sets of other shapes, of each of which a pod at least has to be there:
	// they are what the shapes ask for, and may stand elsewhere themselves.
	near [][]int
}

// join finds the shapes whose required affinity nothing but pods of the group can
// meet. Where pods meet it that are there already, the filters name the nodes.
func (s *Constraints) join() {
	for i, info := range s.infos {
		terms := info.GetRequiredAffinityTerms()
		if s.Over() {
			return
		}
		if len(terms) == 0 || s.metBefore(terms) {
			continue
		}
		var met []int
		for j := range s.shapes {
			if s.Over() {
				return
			}
			if !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !s.Selects(&t, j) }) {
				met = append(met, j)
			}
		}
		if len(met) == 0 {
			continue
		}
		if !slices.Contains(met, i) {
			s.ease(i, terms)
		}
		keys := sets.New[string]()
		for _, t := range terms {
			if s.Over() {
				return
			}
			if !keys.Has(t.TopologyKey) {
				s.unite(s.bound(t.TopologyKey, i, met))
			}
			keys.Insert(t.TopologyKey)
		}
	}
}

// bound says which of the shapes that meet the affinity of shape i go to the domain of a
// key with it: those that ask for the same in turn, and one that is all there is.
func (s *Constraints) bound(key string, i int, met []int) together {
	t := together{key: key, shapes: []int{i}}
	var others []int
	pods := 0
	for _, j := range met {
		if s.Over() {
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
		t.near = [][]int{others}
	}
	return t
}

// metBefore says whether a pod is there that all terms select, or that there is to be no more
// comparing: a term may have thousands of requirements.
func (s *Constraints) metBefore(terms []fwk.AffinityTerm) bool {
	return slices.ContainsFunc(s.nodes, func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPods(), func(p fwk.PodInfo) bool {
			pod := p.GetPod()
			return s.Over() || !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(pod, s.labelsOf(pod.Namespace)) })
		})
	})
}

// ease takes the terms of a shape, which its siblings are to meet, from what the
// filters see before any of these is placed. The labels stay required.
func (s *Constraints) ease(i int, terms []fwk.AffinityTerm) {
	if s.Lenient[i] == s.shapes[i].Pods[0] {
		s.Lenient[i] = s.Lenient[i].DeepCopy()
	}
	s.Lenient[i].Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{}
	for _, n := range s.nodes {
		if slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { _, ok := n.Node().Labels[t.TopologyKey]; return !ok }) {
			s.Unlabelled[i] = append(s.Unlabelled[i], n.Node().Name)
		}
	}
}

// unite notes that shapes share a domain of a key, with all that share one with them.
func (s *Constraints) unite(is together) {
	s.together = slices.DeleteFunc(s.together, func(t together) bool {
		if t.key != is.key || !slices.ContainsFunc(t.shapes, func(i int) bool { return slices.Contains(is.shapes, i) }) {
			return false
		}
		is.shapes = append(is.shapes, t.shapes...)
		is.near = append(is.near, t.near...)
		return true
	})
	slices.Sort(is.shapes)
	is.shapes = slices.Compact(is.shapes)
	is.near = slices.DeleteFunc(is.near, func(near []int) bool {
		return slices.ContainsFunc(near, func(i int) bool { return slices.Contains(is.shapes, i) })
	})
	s.together = append(s.together, is)
}
