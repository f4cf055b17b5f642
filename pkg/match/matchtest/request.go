package matchtest

import (
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Slot builds one slot request: so many slots, each with these pools.
func Slot(label string, count jobspec.Count, pools ...Pool) jobspec.Resource {
	r := jobspec.Resource{Type: jobspec.SlotType, Count: count, Label: label}
	for _, p := range pools {
		r.With = append(r.With, jobspec.Resource{Type: p.Type, Count: jobspec.Exactly(p.Amount), Unit: p.Unit})
	}
	return r
}

// Jobspec builds a request of these slot requests, with one task for each, as
// RFC 14 wants it.
func Jobspec(slots ...jobspec.Resource) *jobspec.Jobspec {
	js := &jobspec.Jobspec{Version: 1, Resources: slots}
	for _, s := range slots {
		js.Tasks = append(js.Tasks, jobspec.Task{
			Command: []string{"pod"}, Slot: s.Label, Count: jobspec.TaskCount{PerSlot: 1},
		})
	}
	return js
}

// Slots builds a request for n slots, each with these pools.
func Slots(label string, n int64, pools ...Pool) *jobspec.Jobspec {
	return Jobspec(Slot(label, jobspec.Exactly(n), pools...))
}

// Constrain returns js after setting what narrows the slots of one label.
func Constrain(js *jobspec.Jobspec, label string, a jobspec.SlotAttributes) *jobspec.Jobspec {
	if js.Attributes.System.Fluence == nil {
		js.Attributes.System.Fluence = make(map[string]jobspec.SlotAttributes)
	}
	js.Attributes.System.Fluence[label] = a
	return js
}

// Hosts is the constraint that a node has one of these names.
func Hosts(names ...string) *jobspec.Constraint {
	return &jobspec.Constraint{Op: jobspec.OpHostlist, Values: names}
}

// Not is the constraint that c does not hold.
func Not(c *jobspec.Constraint) *jobspec.Constraint {
	return &jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{*c}}
}

// Held builds a slot for an Update as one who knows the cluster writes it: the
// amounts of these pools on a node, without the paths of their vertices.
func Held(key, node string, pools ...Pool) match.Slot {
	r := &resource.Set{}
	for _, p := range pools {
		r.Vertices = append(r.Vertices, resource.Share{
			Vertex: resource.Vertex{Type: p.Type, Rank: resource.NoRank, Unit: p.Unit},
			Amount: p.Amount,
		})
	}
	return match.Slot{Key: key, Node: node, R: r}
}

// WithHolder returns s as one whose node is a holder's as a whole.
func WithHolder(s match.Slot, holder string) match.Slot {
	s.Holder = holder
	return s
}

// Shared returns s as that of a pod that runs on every node.
func Shared(s match.Slot) match.Slot {
	s.Shared = true
	return s
}

// Amounts adds up by type what a set holds of pools. The vertices that are only
// on the way to pools, cluster, levels and node, are those of the types given
// as onTheWay and those that a cluster always has.
func Amounts(r *resource.Set, onTheWay ...string) map[string]int64 {
	skip := map[string]bool{resource.TypeCluster: true, resource.TypeNode: true}
	for _, t := range onTheWay {
		skip[t] = true
	}
	sums := make(map[string]int64)
	for _, s := range r.Vertices {
		if !skip[s.Type] {
			sums[s.Type] += s.Amount
		}
	}
	return sums
}
