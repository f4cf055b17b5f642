package fluence

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// together are shapes that required affinity puts into one domain of a key.
type together struct {
	key    string
	shapes []int
	// near are sets of other shapes, of each of which a pod at least has to be there:
	// they are what the shapes ask for, and may stand elsewhere themselves.
	near [][]int
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
		}
		for _, t := range terms {
			s.unite(s.bound(t.TopologyKey, i, met))
		}
	}
}

// bound says which of the shapes that meet the affinity of shape i go to the domain of a
// key with it: those that ask for the same in turn, and one that is all there is.
func (s *siblings) bound(key string, i int, met []int) together {
	t := together{key: key, shapes: []int{i}}
	var others []int
	pods := 0
	for _, j := range met {
		asks := slices.ContainsFunc(s.infos[j].GetRequiredAffinityTerms(), func(t fwk.AffinityTerm) bool {
			return t.TopologyKey == key && s.selects(&t, i)
		})
		switch {
		case j == i:
		case asks:
			t.shapes = append(t.shapes, j)
		default:
			others = append(others, j)
			pods += len(s.shapes[j].pods)
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
func (s *siblings) unite(is together) {
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

// maxDomains bounds how many domains are tried one by one.
const maxDomains = 8

// bond is one way to put shapes together: a topology, or the hosts that each of some
// shapes is bound to and limits that go with that.
type bond struct {
	topology []*jobspec.Topology
	hosts    [][]string
	limits   [][]jobspec.Limit
}

// bonds lists the ways to meet all that is to be together, beside the topology that
// the group itself asks for: by levels where the graph has them, else domain by domain,
// those first that have room for all, and of these those with the most nodes.
func (s *siblings) bonds(own *jobspec.Topology, ruled []map[string]bool) []bond {
	base := bond{topology: make([]*jobspec.Topology, len(s.shapes)), hosts: make([][]string, len(s.shapes)), limits: make([][]jobspec.Limit, len(s.shapes))}
	for i := range base.topology {
		base.topology[i] = own
	}
	all := []bond{base}
	for n, t := range s.together {
		d := s.by(t.key)
		if d.level != "" && len(t.near) == 0 && base.require(d.level, t.shapes) {
			continue
		}
		all = s.eachDomain(all, "near-"+strconv.Itoa(n)+"-", t, d, ruled)
	}
	return all
}

// require binds all shapes to one vertex of a level, if that does not part them from
// what else is asked of them. The matcher takes one topology for all.
func (c *bond) require(level string, shapes []int) bool {
	was := c.topology[shapes[0]]
	if was != nil && was.Required == level {
		return true
	}
	if was != nil && was.Required != "" || len(shapes) < len(c.topology) || slices.ContainsFunc(shapes, func(i int) bool { return c.topology[i] != was }) {
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
// far; maxDomains bonds at the most are left. The last one leaves them free where they
// may be parted, each with one of those that it is to be near to: as far as that comes
// about by itself, the verification lets it pass.
func (s *siblings) eachDomain(all []bond, name string, t together, d domains, ruled []map[string]bool) []bond {
	var is []bond
	for _, v := range s.roomiest(t, d, ruled) {
		for _, c := range all {
			next := bond{topology: c.topology, hosts: slices.Clone(c.hosts), limits: slices.Clone(c.limits)}
			for _, i := range t.shapes {
				next.hosts[i] = both(next.hosts[i], d.hosts[v])
			}
			for k, near := range t.near {
				s.oneOf(&next, name+strconv.Itoa(k), near, d.hosts[v])
			}
			if len(next.hosts[t.shapes[0]]) > 0 {
				is = append(is, next)
			}
		}
	}
	is = is[:min(maxDomains, len(is))]
	if len(t.near) > 0 || len(is) == 0 {
		is = append(is, all...)
	}
	return is
}

// roomiest lists the domains in the order in which they are tried.
func (s *siblings) roomiest(t together, d domains, ruled []map[string]bool) []string {
	room := s.room()
	usable, fits := map[string]int{}, map[string]int{}
	for v, hosts := range d.hosts {
		for _, h := range hosts {
			if !ruled[t.shapes[0]][h] {
				usable[v]++
			}
		}
		for _, i := range t.shapes {
			least := int(s.shapes[i].required)
			if room.on([]int{i}, hosts, ruled, least) == least {
				fits[v]++
			}
		}
	}
	values := slices.Clone(d.values)
	slices.SortStableFunc(values, func(a, b string) int { return cmp.Or(fits[b]-fits[a], usable[b]-usable[a]) })
	return values[:min(maxDomains, len(values))]
}

// oneOf has one pod of some shapes at the least come to hosts.
func (s *siblings) oneOf(c *bond, name string, shapes []int, hosts []string) {
	there := sets.New(hosts...)
	var others []string
	for _, n := range s.nodes {
		if !there.Has(n.Node().Name) {
			others = append(others, n.Node().Name)
		}
	}
	if len(others) == 0 {
		return
	}
	pods := int64(0)
	for _, i := range shapes {
		pods += s.shapes[i].required
	}
	limit := jobspec.Limit{Name: name, Hosts: []string{hostlist.Encode(others)}, Most: max(0, pods-1)}
	for _, i := range shapes {
		c.limits[i] = append(slices.Clone(c.limits[i]), limit)
	}
}

// both returns the hosts of two lists that are in each; nil is every host.
func both(a, b []string) []string {
	if a == nil {
		return b
	}
	in := sets.New(b...)
	common := []string{}
	for _, h := range a {
		if in.Has(h) {
			common = append(common, h)
		}
	}
	return common
}
