package engine

import "sync/atomic"

// sizes are the sizes of an engine after its last call.
type sizes struct {
	jobs, slots, nodes atomic.Int64
	ready              atomic.Bool
}

// Sizes returns the number of jobs that hold something, the number of their slots, the number of
// nodes in the graph, and whether the graph is loaded. Reservations are not counted. The call does
// not wait for the lock.
func (e *Engine) Sizes() (jobs, slots, nodes int, ready bool) {
	s := &e.sizes
	return int(s.jobs.Load()), int(s.slots.Load()), int(s.nodes.Load()), s.ready.Load()
}

// set sets the sizes after a call.
func (s *sizes) set(jobs, slots, nodes int, ready bool) {
	s.jobs.Store(int64(jobs))
	s.slots.Store(int64(slots))
	s.nodes.Store(int64(nodes))
	s.ready.Store(ready)
}
