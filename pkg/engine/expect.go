package engine

import (
	"math"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// expect has slots that no job holds weigh on the graph until the returned function
// is called, which may come after slots were booked.
func (e *Engine) expect(slots []match.Slot) (restore func()) {
	var there []*slot
	bare := make(map[[2]string]*resource.Vertex)
	for i := range slots {
		h := e.hosts[slots[i].Node]
		if h == nil || h.node == nil {
			continue
		}
		s := readSlot(&slots[i], bare)
		// Where a pool has several leaves, it takes what the others leave.
		s.order = math.MaxUint64
		h.add(s, &e.graph.columns)
		there = append(there, s)
	}
	return func() {
		for _, s := range there {
			e.hosts[s.node].drop(s, &e.graph.columns)
		}
	}
}
