package store

import (
	"math"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Expect charges slots that no job holds to the graph until the returned function is called. It
// skips slots on nodes that the graph lacks. Other slots may be booked in between.
func (st *Store) Expect(slots []match.Slot) (restore func()) {
	var there []*Slot
	sharedVertices := make(map[[2]string]*resource.Vertex)
	for i := range slots {
		h := st.hosts.byName[slots[i].Node]
		if h == nil || h.node == nil {
			continue
		}
		s := readSlot(&slots[i], sharedVertices)
		// In a pool with several leaves, the slot is charged after all other slots.
		s.seq = math.MaxUint64
		st.reservations.allEnds.add(endOf(s.end), s)
		h.add(s, &st.graph.columns)
		there = append(there, s)
	}
	return func() {
		for _, s := range there {
			st.reservations.allEnds.remove(endOf(s.end), s)
			st.hosts.byName[s.node].drop(s, &st.graph.columns)
		}
	}
}
