package interpod

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// An Alternative is one way to request nodes for the pods of a group, by shape.
type Alternative struct {
	// Counts is the number of pods of each shape. With spread constraints,
	// exactly this number is requested. Without them, it is not used.
	Counts []int64
	// Topology is the topology of each shape.
	Topology []*jobspec.Topology
	// Hosts are the hosts that each shape is limited to. Nil means all hosts.
	Hosts [][]string

	// otherLimits are for spread constraints, anti-affinity and host ports. colocationLimits are for colocation.
	// Limits joins both only when it is called, because most alternatives are never tried.
	otherLimits, colocationLimits [][]jobspec.Limit
}

// Limits returns the limits of a shape.
func (a *Alternative) Limits(shape int) []jobspec.Limit {
	return slices.Concat(a.otherLimits[shape], a.colocationLimits[shape])
}

// Alternatives lists at most most alternatives, the best first: all pods before only
// the required ones, and an even spread before a less even one. requested is the topology
// that the group asks for. ruledOut has, for each shape, the nodes that are ruled out.
func (s *Constraints) Alternatives(requested *jobspec.Topology, ruledOut []map[string]bool, most int) []Alternative {
	all, least := make([]int64, len(s.shapes)), make([]int64, len(s.shapes))
	for i, shape := range s.shapes {
		all[i], least[i] = int64(len(shape.Pods)), shape.Required
	}
	sizes := [][]int64{all}
	if s.HasSpreads() && !slices.Equal(all, least) {
		sizes = append(sizes, least)
	}
	apart, colocations := s.apartLimits(), s.colocations(requested, ruledOut)
	var as []Alternative
	for _, counts := range sizes {
		for k, more := 0, true; more && len(as) < most; k++ {
			var limits [][]jobspec.Limit
			limits, more = s.limitsOfSpreads(counts, k, ruledOut)
			for i := range limits {
				limits[i] = slices.Concat(apart[i], limits[i])
			}
			for _, b := range colocations {
				as = append(as, Alternative{Counts: counts, Topology: b.topology, Hosts: b.hosts, otherLimits: limits, colocationLimits: b.limits})
			}
		}
	}
	return as[:min(most, len(as))]
}
