package interpod

import (
	"maps"
	"slices"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// maxComplements bounds the limits that say "at least" by what is outside of a domain:
// each names nearly all nodes.
const maxComplements = 64

// limits says bands as limits of n slots. Where the domains are a level, what holds for
// most of them is said of that.
func (sp *spreadConstraint) limits(name string, n int, bs []countRange) []jobspec.Limit {
	floors, most := 0, 0
	for _, b := range bs {
		if b.min > 0 {
			floors++
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
	if floors == 0 {
		return limits
	}
	for i, d := range sp.domains {
		if bs[i].min > 0 {
			limits = append(limits, sp.elsewhere(name+"/least/"+d.value, i, n-bs[i].min)...)
		}
	}
	return limits
}

// elsewhere bounds the slots outside of a domain.
func (sp *spreadConstraint) elsewhere(name string, domain, most int) []jobspec.Limit {
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

// limitsOfSpreads bounds the slots by shape, for so many members of each, as the k-th
// choice of all constraints that have so many. Ruled lists by shape the nodes that are
// no choice.
func (s *Constraints) limitsOfSpreads(counts []int64, k int, ruled []map[string]bool) (limits [][]jobspec.Limit, more bool) {
	limits = make([][]jobspec.Limit, len(s.shapes))
	for x, sp := range s.spreads {
		if s.IsStopped() {
			return limits, false
		}
		n := 0
		for _, i := range sp.counted {
			n += int(counts[i])
		}
		choices := sp.choices(n, sp.rooms(n, s.capacity(), ruled))
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
