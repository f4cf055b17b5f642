package placement

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// topologyOf returns the topology that a plan asks for. Where the pods take over room, its nodes have been chosen by it.
func topologyOf(plan gang.Plan) *jobspec.Topology {
	if len(plan.Room.Nodes) > 0 {
		return nil
	}
	return plan.Topology
}

// pinToRoom limits the requests to the nodes of the plan's Room, and to as many pods on each as it has slots there.
func pinToRoom(q *attempt) {
	nodes := q.plan.Room.Nodes
	if len(nodes) == 0 {
		return
	}
	each, hosts := map[string]int64{}, map[int64][]string{}
	for _, node := range nodes {
		each[node]++
	}
	for _, node := range slices.Sorted(maps.Keys(each)) {
		hosts[each[node]] = append(hosts[each[node]], node)
	}
	var limits []jobspec.Limit
	for _, n := range slices.Sorted(maps.Keys(hosts)) {
		limits = append(limits, jobspec.Limit{Name: "room/" + strconv.FormatInt(n, 10), Hosts: hosts[n], Most: n})
	}
	only := &jobspec.Constraint{Op: jobspec.OpHostlist, Values: slices.Sorted(maps.Keys(each))}
	for i := range q.requests {
		r := &q.requests[i]
		r.Attributes.Limits = slices.Concat(r.Attributes.Limits, limits)
		addConstraint(&r.Attributes.ConstraintsNow, only)
	}
}

// noteRejections notes on which nodes the filters rejected pods of a match.
func noteRejections(q *attempt, rejections []rejection) {
	q.rejectedOn = nil
	for _, r := range rejections {
		q.rejectedOn = append(q.rejectedOn, r.node)
	}
}

// roomRefused returns the nodes of the plan's Room on which the filters refuse pods, sorted: before the match, or after it.
func roomRefused(q *attempt) []string {
	refused, rejected := sets.New[string](), sets.New(q.rejectedOn...)
	for _, node := range q.plan.Room.Nodes {
		if rejected.Has(node) || slices.ContainsFunc(q.ruledOutByShape, func(out map[string]bool) bool { return out[node] }) {
			refused.Insert(node)
		}
	}
	return sets.List(refused)
}
