package placement

import (
	"slices"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// An attempt is one way to ask for pods that ask something of each other.
type attempt struct {
	interpod.Alternative
	// careful takes the most that passed on any of the nodes where a filter refused more
	// for what passes on every node: nodes are often alike.
	careful bool
}

// attempts lists the ways to ask, the best first, and each carefully first where that may be of
// use.
func (q *enquiry) attempts(excluded passable) []attempt {
	partly, most := excluded.partly(), maxAttempts
	if partly {
		most = (maxAttempts + 1) / 2
	}
	var as []attempt
	for _, a := range q.siblings.Alternatives(q.requests[0].Attributes.Topology, q.byShape, most) {
		if partly {
			as = append(as, attempt{a, true})
		}
		as = append(as, attempt{a, false})
	}
	return as[:min(maxAttempts, len(as))]
}

// requestsFor completes the requests for an attempt, with what is excluded by the key of a
// shape.
func (q *enquiry) requestsFor(a attempt, excluded passable) []translate.ShapeRequest {
	requests := slices.Clone(q.requests)
	for i := range requests {
		r := &requests[i]
		if q.siblings.Spreading() {
			r.Min, r.Max = a.Counts[i], a.Counts[i]
		}
		r.Attributes.Limits = a.Limits(i)
		r.Attributes.Topology = a.Topology[i]
		if hosts := a.Hosts[i]; hosts != nil {
			within(&r.Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
		}
		out, limits := excluded.of(q.shapes[i].Key, "passed-"+strconv.Itoa(i), a.careful)
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
		for _, pod := range s.Pods[:requests[i].Max] {
			keys = append(keys, string(pod.UID))
		}
	}
	return keys
}
