package placement

import (
	"slices"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// An alternative is one way to request nodes for a group whose pods have
// affinity, anti-affinity, host ports or spread constraints among each other.
type alternative struct {
	interpod.Alternative
	// capEveryNode extends the partial exclusions of a shape to all nodes: if filters let n
	// members of the shape pass on a node and rejected more, no node gets more than n.
	// If there are several such n, the highest counts. It is for nodes that are alike.
	capEveryNode bool
}

// alternatives lists the alternatives, the best first. If filters let
// some members of a shape pass on a node and rejected more (a partial
// exclusion), each alternative is listed twice, first with careful.
func (q *attempt) alternatives(excluded exclusionLimits) []alternative {
	partly, most := excluded.hasPartial(), maxAlternatives
	if partly {
		most = (maxAlternatives + 1) / 2
	}
	var as []alternative
	for _, a := range q.constraints.Alternatives(q.requests[0].Attributes.Topology, q.ruledOutByShape, most) {
		if partly {
			as = append(as, alternative{a, true})
		}
		as = append(as, alternative{a, false})
	}
	return as[:min(maxAlternatives, len(as))]
}

// requestsFor returns the requests with the constraints of an alternative and with
// the exclusions of each shape.
func (q *attempt) requestsFor(a alternative, excluded exclusionLimits) []translate.ShapeRequest {
	requests := slices.Clone(q.requests)
	for i := range requests {
		r := &requests[i]
		if q.constraints.HasSpreads() {
			r.Min, r.Max = a.Counts[i], a.Counts[i]
		}
		r.Attributes.Limits = slices.Concat(r.Attributes.Limits, a.Limits(i))
		r.Attributes.Topology = a.Topology[i]
		if hosts := a.Hosts[i]; hosts != nil {
			addConstraint(&r.Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
		}
		out, limits := excluded.forShape(q.shapes[i].Key, "passed-"+strconv.Itoa(i), a.capEveryNode)
		if len(out) > 0 {
			addConstraint(&r.Attributes.ConstraintsNow, notOn(out))
		}
		r.Attributes.Limits = append(r.Attributes.Limits, limits...)
	}
	return requests
}

// keysFor returns the UIDs of the pods that requests are for, in order.
func (q *attempt) keysFor(requests []translate.ShapeRequest) []string {
	var keys []string
	for i, s := range q.shapes {
		for _, pod := range s.Pods[:requests[i].Max] {
			keys = append(keys, string(pod.UID))
		}
	}
	return keys
}
