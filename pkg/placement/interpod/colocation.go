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

// colocation is one way to put shapes together: a topology, or the hosts that each of some
// shapes is bound to and limits that go with that.
type colocation struct {
	topology []*jobspec.Topology
	hosts    [][]string
	limits   [][]jobspec.Limit
}

// colocations lists the ways to meet all that is to be together, beside the topology that
// the group itself asks for: by levels where the graph has them, else domain by domain,
// those first that have room for all, and of these those with the most nodes.
func (s *Constraints) colocations(own *jobspec.Topology, ruled []map[string]bool) []colocation {
	base := colocation{topology: make([]*jobspec.Topology, len(s.shapes)), hosts: make([][]string, len(s.shapes)), limits: make([][]jobspec.Limit, len(s.shapes))}
	for i := range base.topology {
		base.topology[i] = own
	}
	all := []colocation{base}
	for n, t := range s.colocated {
		if s.IsStopped() {
			break
		}
		d := s.domainsOf(t.key)
		if d.level != "" && len(t.near) == 0 && base.require(d.level, t.shapes) {
			continue
		}
		all = s.eachDomain(all, "near-"+strconv.Itoa(n)+"-", t, d, ruled)
	}
	return all
}

// require binds all shapes to one vertex of a level, if that does not part them from
// what else is asked of them. The matcher takes one topology for all.
func (c *colocation) require(level string, shapes []int) bool {
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
// far, until there are maxDomains. The last ones leave them free where they
// may be parted, each with one of those that it is to be near to: as far as that comes
// about by itself, the verification lets it pass.
func (s *Constraints) eachDomain(all []colocation, name string, t colocated, d domains, ruled []map[string]bool) []colocation {
	var is []colocation
	for _, v := range s.roomiest(t, d, ruled) {
		for _, c := range all {
			if s.IsStopped() {
				return all
			}
			if len(is) == maxDomains {
				break
			}
			next := colocation{topology: c.topology, hosts: slices.Clone(c.hosts), limits: slices.Clone(c.limits)}
			for _, i := range t.shapes {
				next.hosts[i] = intersect(next.hosts[i], d.hosts[v])
			}
			for k, near := range t.near {
				s.requireOneOn(&next, name+strconv.Itoa(k), near, d.hosts[v])
			}
			if len(next.hosts[t.shapes[0]]) > 0 {
				is = append(is, next)
			}
		}
	}
	if len(t.near) > 0 || len(is) == 0 {
		is = append(is, all...)
	}
	return is
}

// roomiest lists the domains in the order in which they are tried.
func (s *Constraints) roomiest(t colocated, d domains, ruled []map[string]bool) []string {
	room := s.capacity()
	usable, fits := map[string]int{}, map[string]int{}
	for v, hosts := range d.hosts {
		if s.IsStopped() {
			return nil
		}
		for _, h := range hosts {
			if !ruled[t.shapes[0]][h] {
				usable[v]++
			}
		}
		for _, i := range t.shapes {
			least := int(s.shapes[i].Required)
			if room.sum([]int{i}, hosts, ruled, least) == least {
				fits[v]++
			}
		}
	}
	values := slices.Clone(d.values)
	slices.SortStableFunc(values, func(a, b string) int { return cmp.Or(fits[b]-fits[a], usable[b]-usable[a]) })
	return values[:min(maxDomains, len(values))]
}

// requireOneOn has one pod of some shapes at the least come to hosts.
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

// intersect returns the hosts of two lists that are in each; nil is every host.
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
