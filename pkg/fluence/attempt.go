package fluence

import (
	"slices"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// An attempt is one way to ask for siblings.
type attempt struct {
	// counts are the numbers of pods by shape where these are fixed.
	counts []int64
	// limits, by shape.
	limits [][]jobspec.Limit
	bond   bond
	// careful takes the most that passed on any of the nodes where a filter refused more
	// for what passes on every node: nodes are often alike.
	careful bool
}

// attempts lists the ways to ask, the best first: for all pods before those that have
// to be placed alone, for the evenest spread before others, and carefully where that may
// be of use.
func (q *enquiry) attempts(excluded passable) []attempt {
	s := q.siblings
	all, least := make([]int64, len(q.shapes)), make([]int64, len(q.shapes))
	for i, shape := range q.shapes {
		all[i], least[i] = int64(len(shape.pods)), shape.required
	}
	sizes := [][]int64{all}
	if len(s.spreads) > 0 && !slices.Equal(all, least) {
		sizes = append(sizes, least)
	}
	apart, bonds := s.apart(), s.bonds(q.requests[0].Attributes.Topology, q.byShape)
	var as []attempt
	for _, counts := range sizes {
		for k, more := 0, true; more && len(as) < maxAttempts; k++ {
			var limits [][]jobspec.Limit
			limits, more = s.limitsOfSpreads(counts, k, q.byShape)
			for i := range limits {
				limits[i] = slices.Concat(apart[i], limits[i])
			}
			for _, b := range bonds {
				a := attempt{counts: counts, limits: limits, bond: b, careful: excluded.partly()}
				if as = append(as, a); a.careful {
					a.careful = false
					as = append(as, a)
				}
			}
		}
	}
	return as[:min(maxAttempts, len(as))]
}

// requestsFor completes the requests for an attempt, with what is excluded by the key of a
// shape.
func (q *enquiry) requestsFor(a attempt, excluded passable) []translate.ShapeRequest {
	requests := slices.Clone(q.requests)
	for i := range requests {
		r := &requests[i]
		if len(q.siblings.spreads) > 0 {
			r.Min, r.Max = a.counts[i], a.counts[i]
		}
		r.Attributes.Limits = slices.Concat(a.limits[i], a.bond.limits[i])
		r.Attributes.Topology = a.bond.topology[i]
		if hosts := a.bond.hosts[i]; hosts != nil {
			within(&r.Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
		}
		out, limits := excluded.of(q.shapes[i].key, "passed-"+strconv.Itoa(i), a.careful)
		if len(out) > 0 {
			within(&r.Attributes.ConstraintsNow, not(out))
		}
		r.Attributes.Limits = append(r.Attributes.Limits, limits...)
	}
	return requests
}

// keysFor names the pods that the requests of an attempt are for.
func (q *enquiry) keysFor(requests []translate.ShapeRequest) []string {
	var keys []string
	for i, s := range q.shapes {
		for _, pod := range s.pods[:requests[i].Max] {
			keys = append(keys, string(pod.UID))
		}
	}
	return keys
}
