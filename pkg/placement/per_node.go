package placement

import (
	"maps"
	"slices"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// limitPerNode limits how many pods of the group may be on one node, if the plan has such a bound. Pods that
// are there already count. A node that has as many as it may is excluded for the present only.
func (q *attempt) limitPerNode() {
	most := q.plan.PodsPerNode
	if most == 0 {
		return
	}
	there, left := map[string]int64{}, map[int64][]string{}
	for _, node := range q.plan.Occupied {
		there[node]++
	}
	var full []string
	for _, node := range slices.Sorted(maps.Keys(there)) {
		if n := most - there[node]; n > 0 {
			left[n] = append(left[n], node)
		} else {
			full = append(full, node)
		}
	}
	q.excludeNodes(full)
	const name = "pods-per-node"
	limits := []jobspec.Limit{{Name: name, Level: resource.TypeNode, Most: most}}
	for _, n := range slices.Sorted(maps.Keys(left)) {
		limits = append(limits, jobspec.Limit{Name: name + "/left/" + strconv.FormatInt(n, 10), Hosts: left[n], Most: n})
	}
	for i := range q.requests {
		q.requests[i].Attributes.Limits = limits
	}
}
