package placement

import (
	"slices"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// An attempt is one way to ask for pods that ask something of each other.
type alternative struct {
	interpod.Alternative
	// careful takes the most that passed on any of the nodes where a filter refused more
	// for what passes on every node: nodes are often alike.
	careful bool
}

// alternatives lists the ways to ask, the best first, and each carefully first where that may be of
// use.
func (q *attempt) alternatives(excluded podLimits) []alternative {
	partly, most := excluded.hasPartial(), maxAlternatives
	if partly {
		most = (maxAlternatives + 1) / 2
	}
	var as []alternative
	for _, a := range q.constraints.Alternatives(q.requests[0].Attributes.Topology, q.byShape, most) {
		if partly {
			as = append(as, alternative{a, true})
		}
		as = append(as, alternative{a, false})
	}
	return as[:min(maxAlternatives, len(as))]
}

// requestsFor completes the requests for an attempt, with what is excluded by the key of a
// shape.
func (q *attempt) requestsFor(a alternative, excluded podLimits) []translate.ShapeRequest {
	requests := slices.Clone(q.requests)
	for i := range requests {
		r := &requests[i]
		if q.constraints.HasSpreads() {
			r.Min, r.Max = a.Counts[i], a.Counts[i]
		}
		r.Attributes.Limits = a.Limits(i)
		r.Attributes.Topology = a.Topology[i]
		if hosts := a.Hosts[i]; hosts != nil {
			narrow(&r.Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
		}
		out, limits := excluded.forShape(q.shapes[i].Key, "passed-"+strconv.Itoa(i), a.careful)
		if len(out) > 0 {
			narrow(&r.Attributes.ConstraintsNow, notOn(out))
		}
		r.Attributes.Limits = append(r.Attributes.Limits, limits...)
	}
	return requests
}

// keysFor names the pods that the requests of an attempt are for.
func (q *attempt) keysFor(requests []translate.ShapeRequest) []string {
	var keys []string
	for i, s := range q.shapes {
		for _, pod := range s.Pods[:requests[i].Max] {
			keys = append(keys, string(pod.UID))
		}
	}
	return keys
}
