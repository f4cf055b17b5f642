package matchtest

import (
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Slot builds one slot request: a number of slots, each with these pools.
func Slot(label string, count jobspec.Count, pools ...Pool) jobspec.Resource {
	r := jobspec.Resource{Type: jobspec.SlotType, Count: count, Label: label}
	for _, p := range pools {
		r.With = append(r.With, jobspec.Resource{Type: p.Type, Count: jobspec.Exactly(p.Amount), Unit: p.Unit})
	}
	return r
}

// Jobspec builds a jobspec of these slot requests, with one task for each, as RFC 14 requires.
func Jobspec(slots ...jobspec.Resource) *jobspec.Jobspec {
	js := &jobspec.Jobspec{Version: 1, Resources: slots}
	for _, s := range slots {
		js.Tasks = append(js.Tasks, jobspec.Task{
			Command: []string{"pod"}, Slot: s.Label, Count: jobspec.TaskCount{PerSlot: 1},
		})
	}
	return js
}

// Slots builds a jobspec for n slots, each with these pools.
func Slots(label string, n int64, pools ...Pool) *jobspec.Jobspec {
	return Jobspec(Slot(label, jobspec.Exactly(n), pools...))
}

// Constrain sets the attributes of the slots of one label, and returns js.
func Constrain(js *jobspec.Jobspec, label string, a jobspec.SlotAttributes) *jobspec.Jobspec {
	if js.Attributes.System.Fluence == nil {
		js.Attributes.System.Fluence = make(map[string]jobspec.SlotAttributes)
	}
	js.Attributes.System.Fluence[label] = a
	return js
}

// Hosts returns the constraint that a node has one of these names.
func Hosts(names ...string) *jobspec.Constraint {
	return &jobspec.Constraint{Op: jobspec.OpHostlist, Values: names}
}

// Not returns the constraint that c does not hold.
func Not(c *jobspec.Constraint) *jobspec.Constraint {
	return &jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{*c}}
}

// Held builds a slot for an Update in the form in which the cluster's state is given: the amounts
// of these pools on a node, without the paths of their vertices.
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

// WithHolder returns s with a holder, which has the slot's node as a whole.
func WithHolder(s match.Slot, holder string) match.Slot {
	s.Holder = holder
	return s
}

// Shared returns s as the slot of a pod that runs on every node.
func Shared(s match.Slot) match.Slot {
	s.Shared = true
	return s
}

// Amounts returns the amounts of a set's pools, summed by type. It skips vertices that are no
// pools: the cluster, the nodes, and vertices of the types onTheWay.
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
