package store

import (
	"math"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Expect has slots that no job holds weigh on the graph until the returned function
// is called, which may come after slots were booked.
func (st *Store) Expect(slots []match.Slot) (restore func()) {
	var there []*Slot
	bare := make(map[[2]string]*resource.Vertex)
	for i := range slots {
		h := st.hosts.byName[slots[i].Node]
		if h == nil || h.node == nil {
			continue
		}
		s := readSlot(&slots[i], bare)
		// Where a pool has several leaves, it takes what the others leave.
		s.seq = math.MaxUint64
		h.add(s, &st.graph.columns)
		there = append(there, s)
	}
	return func() {
		for _, s := range there {
			st.hosts.byName[s.node].drop(s, &st.graph.columns)
		}
	}
}
