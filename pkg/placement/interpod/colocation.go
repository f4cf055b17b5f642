package interpod

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// maxDomains bounds how many domains are tried one by one.
const maxDomains = 8

// colocation is one way to put shapes into common domains.
type colocation struct {
	// topology is the topology of each shape.
	topology []*jobspec.Topology
	// hosts are the hosts that each shape is limited to. Nil means all hosts.
	hosts [][]string
	// limits are the limits of each shape.
	limits [][]jobspec.Limit
}

// colocations lists the ways to put all shapes of s.colocated into common
// domains, together with the topology that the group asks for. If the domains
// are a level of the graph, the matcher is asked for one vertex of this level.
// Otherwise the domains are tried one by one, in the order of roomiest.
func (s *Constraints) colocations(requested *jobspec.Topology, ruledOut []map[string]bool) []colocation {
	base := colocation{topology: make([]*jobspec.Topology, len(s.shapes)), hosts: make([][]string, len(s.shapes)), limits: make([][]jobspec.Limit, len(s.shapes))}
	for i := range base.topology {
		base.topology[i] = requested
	}
	all := []colocation{base}
	for n, t := range s.colocated {
		if s.IsStopped() {
			break
		}
		d := s.domainsOf(t.key)
		if d.level != "" && len(t.partners) == 0 && base.require(d.level, t.shapes) {
			continue
		}
		all = s.eachDomain(all, "near-"+strconv.Itoa(n)+"-", t, d, ruledOut)
	}
	return all
}

// require makes the level the required topology of the shapes. It returns false if
// the shapes have another required topology already, or are not all shapes of the
// group, because the matcher takes one topology for all.
func (c *colocation) require(level string, shapes []int) bool {
	previous := c.topology[shapes[0]]
	if previous != nil && previous.Required == level {
		return true
	}
	if previous != nil && previous.Required != "" || len(shapes) < len(c.topology) || slices.ContainsFunc(shapes, func(i int) bool { return c.topology[i] != previous }) {
		return false
	}
	topology := jobspec.Topology{Required: level}
	if previous != nil {
		topology.Preferred, topology.Balanced = previous.Preferred, previous.Balanced
	}
	for _, i := range shapes {
		c.topology[i] = &topology
	}
	return true
}

// eachDomain combines each domain for the shapes of t with each colocation so far, up
// to maxDomains colocations. If t has shapes to be near, or if no domain has hosts
// for its shapes, the colocations without a domain for t follow, because the matcher
// may bring the pods together by chance, and the verification then accepts them.
func (s *Constraints) eachDomain(all []colocation, name string, t colocatedSet, d domains, ruledOut []map[string]bool) []colocation {
	var result []colocation
	for _, v := range s.roomiest(t, d, ruledOut) {
		for _, c := range all {
			if s.IsStopped() {
				return all
			}
			if len(result) == maxDomains {
				break
			}
			next := colocation{topology: c.topology, hosts: slices.Clone(c.hosts), limits: slices.Clone(c.limits)}
			for _, i := range t.shapes {
				next.hosts[i] = intersect(next.hosts[i], d.hosts[v])
			}
			for k, partners := range t.partners {
				s.requireOneOn(&next, name+strconv.Itoa(k), partners, d.hosts[v])
			}
			if len(next.hosts[t.shapes[0]]) > 0 {
				result = append(result, next)
			}
		}
	}
	if len(t.partners) > 0 || len(result) == 0 {
		result = append(result, all...)
	}
	return result
}

// roomiest lists the domains to try, at most maxDomains. The domain
// with room for the required pods of the most shapes comes first. Of
// two equal domains, the domain with more usable nodes comes first.
func (s *Constraints) roomiest(t colocatedSet, d domains, ruledOut []map[string]bool) []string {
	room := s.capacity()
	usable, fits := map[string]int{}, map[string]int{}
	for v, hosts := range d.hosts {
		if s.IsStopped() {
			return nil
		}
		for _, h := range hosts {
			if !ruledOut[t.shapes[0]][h] {
				usable[v]++
			}
		}
		for _, i := range t.shapes {
			least := int(s.shapes[i].Required)
			if room.sum([]int{i}, hosts, ruledOut, least) == least {
				fits[v]++
			}
		}
	}
	values := slices.Clone(d.values)
	slices.SortStableFunc(values, func(a, b string) int { return cmp.Or(fits[b]-fits[a], usable[b]-usable[a]) })
	return values[:min(maxDomains, len(values))]
}

// requireOneOn requires at least one pod of some shapes on hosts, by a limit on all other nodes.
func (s *Constraints) requireOneOn(c *colocation, name string, shapes []int, hosts []string) {
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
		pods += s.shapes[i].Required
	}
	limit := jobspec.Limit{Name: name, Hosts: []string{hostlist.Encode(others)}, Most: max(0, pods-1)}
	for _, i := range shapes {
		c.limits[i] = append(slices.Clone(c.limits[i]), limit)
	}
}

// intersect returns the hosts that are in both lists. Nil means all hosts.
func intersect(a, b []string) []string {
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
