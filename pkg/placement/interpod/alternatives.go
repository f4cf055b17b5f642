package interpod

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// An Alternative is one way to ask for the pods of a group, by shape.
type Alternative struct {
	// Counts are the numbers of pods, fixed where they are to be spread.
	Counts []int64
	// Topology is that of each shape, and Hosts are those that a shape is bound to; nil is all.
	Topology []*jobspec.Topology
	Hosts    [][]string

	// Limits joins these when it is asked to: most ways are never tried.
	limits, bound [][]jobspec.Limit
}

// Limits bound the slots of a shape.
func (a *Alternative) Limits(shape int) []jobspec.Limit {
	return slices.Concat(a.limits[shape], a.bound[shape])
}

// Alternatives lists at most so many ways to ask, the best first: for all pods before those that
// have to be placed alone, and for the evenest spread before others. Own is the topology that the
// group asks for, and ruled are by shape the nodes that are no choice.
func (s *Constraints) Alternatives(own *jobspec.Topology, ruled []map[string]bool, most int) []Alternative {
	all, least := make([]int64, len(s.shapes)), make([]int64, len(s.shapes))
	for i, shape := range s.shapes {
		all[i], least[i] = int64(len(shape.Pods)), shape.Required
	}
	sizes := [][]int64{all}
	if s.HasSpreads() && !slices.Equal(all, least) {
		sizes = append(sizes, least)
	}
	apart, bonds := s.apartLimits(), s.colocations(own, ruled)
	var as []Alternative
	for _, counts := range sizes {
		for k, more := 0, true; more && len(as) < most; k++ {
			var limits [][]jobspec.Limit
			limits, more = s.limitsOfSpreads(counts, k, ruled)
			for i := range limits {
				limits[i] = slices.Concat(apart[i], limits[i])
			}
			for _, b := range bonds {
				as = append(as, Alternative{Counts: counts, Topology: b.topology, Hosts: b.hosts, limits: limits, bound: b.limits})
			}
		}
	}
	return as[:min(most, len(as))]
}
