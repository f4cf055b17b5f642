package admission

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/match"
)

// seatsOf returns slots as an allocation has them.
func seatsOf(slots []Slot) []v1alpha1.Seats {
	nodes := make([]string, len(slots))
	for i := range slots {
		nodes[i] = slots[i].Node
	}
	return v1alpha1.SeatsOf(nodes)
}

// slotsOf returns the slots of an allocation. The error names what is wrong with it.
func slotsOf(job match.JobID, a *v1alpha1.JobAllocation) ([]Slot, error) {
	nodes, err := a.Nodes()
	if err != nil {
		return nil, err
	}
	slots := make([]Slot, len(nodes))
	for i, key := range v1alpha1.SlotKeys(job, len(nodes)) {
		slots[i] = Slot{key, nodes[i]}
	}
	return slots, nil
}

// countNodes returns on how many nodes slots are.
func countNodes(slots []Slot) int {
	nodes := make(map[string]struct{}, len(slots))
	for _, s := range slots {
		nodes[s.Node] = struct{}{}
	}
	return len(nodes)
}

// nodesIn returns the nodes of slots of the matcher.
func nodesIn(slots []match.Slot) map[string]struct{} {
	nodes := make(map[string]struct{}, len(slots))
	for i := range slots {
		nodes[slots[i].Node] = struct{}{}
	}
	return nodes
}

// endAfter returns when the room of a job is free again that starts at a time, in whole seconds. It returns the zero time if the
// duration is 0, which means that the end is not known.
func endAfter(at time.Time, duration, grace time.Duration) time.Time {
	if duration == 0 {
		return time.Time{}
	}
	end := at.Add(duration + grace).UTC()
	if whole := end.Truncate(time.Second); whole.Before(end) {
		return whole.Add(time.Second)
	}
	return end
}
