package interpod

import (
	"maps"
	"slices"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// maxMinimums bounds the domains with a minimum in one choice. A minimum in a domain
// is written as a maximum on all other nodes, and such a limit names nearly all nodes.
const maxMinimums = 64

// limits returns count ranges as limits of n slots. If the domains are a level of the graph,
// the highest maximum is one limit of this level, and only domains with a lower one are listed.
func (sp *spreadConstraint) limits(name string, n int, bs []countRange) []jobspec.Limit {
	minimums, most := 0, 0
	for _, b := range bs {
		if b.min > 0 {
			minimums++
		}
		most = max(most, b.max)
	}
	var limits []jobspec.Limit
	if sp.level != "" {
		limits = append(limits, jobspec.Limit{Name: name, Level: sp.level, Most: int64(most)})
	}
	hosts := map[int][]string{}
	for i, d := range sp.domains {
		if sp.level == "" || bs[i].max < most {
			hosts[bs[i].max] = append(hosts[bs[i].max], hostlist.Encode(d.hosts))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(hosts)) {
		limits = append(limits, jobspec.Limit{Name: name + "/most/" + strconv.Itoa(n), Hosts: hosts[n], Most: int64(n)})
	}
	if minimums == 0 {
		return limits
	}
	for i, d := range sp.domains {
		if bs[i].min > 0 {
			limits = append(limits, sp.limitOutside(name+"/least/"+d.value, i, n-bs[i].min)...)
		}
	}
	return limits
}

// limitOutside limits the slots outside of a domain.
func (sp *spreadConstraint) limitOutside(name string, domain, most int) []jobspec.Limit {
	var others []string
	for j, o := range sp.domains {
		if j != domain {
			others = append(others, o.hosts...)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []jobspec.Limit{{Name: name, Hosts: []string{hostlist.Encode(others)}, Most: int64(max(0, most))}}
}

// limitsOfSpreads returns the limits of each shape for the given counts of members. It takes
// the k-th choice of each constraint, or the last one if there are fewer. more says that a
// constraint has a further choice. ruledOut has, for each shape, the nodes that are ruled out.
func (s *Constraints) limitsOfSpreads(counts []int64, k int, ruledOut []map[string]bool) (limits [][]jobspec.Limit, more bool) {
	limits = make([][]jobspec.Limit, len(s.shapes))
	for x, sp := range s.spreads {
		if s.IsStopped() {
			return limits, false
		}
		n := 0
		for _, i := range sp.counted {
			n += int(counts[i])
		}
		choices := sp.rangeChoices(n, sp.capacities(n, s.capacity(), ruledOut))
		if len(choices) == 0 {
			continue
		}
		more = more || k+1 < len(choices)
		for _, l := range sp.limits("spread-"+strconv.Itoa(x), n, choices[min(k, len(choices)-1)]) {
			for _, i := range sp.counted {
				limits[i] = append(limits[i], l)
			}
		}
	}
	return limits, more
}
