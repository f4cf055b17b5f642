package fluence

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// together are shapes that required affinity to one another puts into one domain of a
// key.
type together struct {
	key    string
	shapes []int
}

// join finds the shapes whose required affinity nothing but members of the plan can
// meet. Where pods meet it that are there already, the filters name the nodes.
func (s *siblings) join() {
	for i, info := range s.infos {
		terms := info.GetRequiredAffinityTerms()
		if len(terms) == 0 || s.metBefore(terms) {
			continue
		}
		var met []int
		for j := range s.shapes {
			if !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !s.selects(&t, j) }) {
				met = append(met, j)
			}
		}
		if len(met) == 0 {
			continue
		}
		if !slices.Contains(met, i) {
			s.ease(i, terms)
			met = append(met, i)
		}
		for _, t := range terms {
			s.unite(t.TopologyKey, met)
		}
	}
}

// metBefore says whether a pod is there that all terms select.
func (s *siblings) metBefore(terms []fwk.AffinityTerm) bool {
	return slices.ContainsFunc(s.nodes, func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPods(), func(p fwk.PodInfo) bool {
			pod := p.GetPod()
			return !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(pod, s.labelsOf(pod.Namespace)) })
		})
	})
}

// ease takes the terms of a shape, which its siblings are to meet, from what the
// filters see before any of these is placed. The labels stay required.
func (s *siblings) ease(i int, terms []fwk.AffinityTerm) {
	if s.lenient[i] == s.shapes[i].pods[0] {
		s.lenient[i] = s.lenient[i].DeepCopy()
	}
	s.lenient[i].Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{}
	for _, n := range s.nodes {
		if slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { _, ok := n.Node().Labels[t.TopologyKey]; return !ok }) {
			s.unlabelled[i] = append(s.unlabelled[i], n.Node().Name)
		}
	}
}

// unite notes that shapes share a domain of a key, with all that share one with them.
func (s *siblings) unite(key string, shapes []int) {
	all := slices.Clone(shapes)
	s.together = slices.DeleteFunc(s.together, func(t together) bool {
		if t.key != key || !slices.ContainsFunc(t.shapes, func(i int) bool { return slices.Contains(all, i) }) {
			return false
		}
		all = append(all, t.shapes...)
		return true
	})
	slices.Sort(all)
	s.together = append(s.together, together{key: key, shapes: slices.Compact(all)})
}

// maxDomains bounds how many domains are tried one by one.
const maxDomains = 8

// bond is one way to put shapes together: a topology, or the hosts that each of some
// shapes is bound to.
type bond struct {
	topology []*jobspec.Topology
	hosts    [][]string
}

// bonds lists the ways to meet all that is to be together, beside the topology that
// the group itself asks for: by levels where the graph has them, else domain by domain,
// those with the most nodes first.
func (s *siblings) bonds(own *jobspec.Topology, ruled []map[string]bool) []bond {
	base := bond{topology: make([]*jobspec.Topology, len(s.shapes)), hosts: make([][]string, len(s.shapes))}
	for i := range base.topology {
		base.topology[i] = own
	}
	all := []bond{base}
	for _, t := range s.together {
		d := s.by(t.key)
		if d.level != "" && base.require(d.level, t.shapes) {
			continue
		}
		all = s.eachDomain(all, t, d, ruled)
	}
	return all
}

// require binds shapes to one vertex of a level, if that does not part them from what
// else is asked of them.
func (c *bond) require(level string, shapes []int) bool {
	was := c.topology[shapes[0]]
	if was != nil && was.Required == level {
		return true
	}
	if was != nil && (was.Required != "" || len(shapes) < len(c.topology)) || slices.ContainsFunc(shapes, func(i int) bool { return c.topology[i] != was }) {
		return false
	}
	is := jobspec.Topology{Required: level}
	if was != nil {
		is.Preferred, is.Balanced = was.Preferred, was.Balanced
	}
	for _, i := range shapes {
		c.topology[i] = &is
	}
	return true
}

// eachDomain binds shapes to one domain after the other, in each of the bonds so
// far; maxDomains bonds at the most are left.
func (s *siblings) eachDomain(all []bond, t together, d domains, ruled []map[string]bool) []bond {
	usable := map[string]int{}
	for v, hosts := range d.hosts {
		for _, h := range hosts {
			if !ruled[t.shapes[0]][h] {
				usable[v]++
			}
		}
	}
	values := slices.Clone(d.values)
	slices.SortStableFunc(values, func(a, b string) int { return usable[b] - usable[a] })
	var is []bond
	for _, v := range values[:min(maxDomains, len(values))] {
		for _, c := range all {
			next := bond{topology: c.topology, hosts: slices.Clone(c.hosts)}
			for _, i := range t.shapes {
				next.hosts[i] = both(next.hosts[i], d.hosts[v])
			}
			if len(next.hosts[t.shapes[0]]) > 0 {
				is = append(is, next)
			}
		}
	}
	return is[:min(maxDomains, len(is))]
}

// both returns the hosts of two lists that are in each; nil is every host.
func both(a, b []string) []string {
	if a == nil {
		return b
	}
	common := []string{}
	for _, h := range a {
		if slices.Contains(b, h) {
			common = append(common, h)
		}
	}
	return common
}
