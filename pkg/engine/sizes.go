package engine

import "sync/atomic"

// sizes are how much an engine holds, as its last call left it.
type sizes struct {
	jobs, slots, nodes atomic.Int64
	ready              atomic.Bool
}

// Sizes returns how many jobs hold something, how many slots that is and how many nodes the graph
// has, and says whether the graph is complete. What is reserved counts for nothing: nobody holds
// it. The call waits for no other.
func (e *Engine) Sizes() (jobs, slots, nodes int, ready bool) {
	s := &e.sizes
	return int(s.jobs.Load()), int(s.slots.Load()), int(s.nodes.Load()), s.ready.Load()
}

// set sets the sizes as they are after a call.
func (s *sizes) set(jobs, slots, nodes int, ready bool) {
	s.jobs.Store(int64(jobs))
	s.slots.Store(int64(slots))
	s.nodes.Store(int64(nodes))
	s.ready.Store(ready)
}
