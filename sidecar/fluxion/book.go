package fluxion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"
)

// stepTime is for how long the library's bookings are brought up to date before other calls get
// their turn. A step takes longer by at most one call of the library.
const stepTime = 100 * time.Millisecond

// step begins a step. over reports whether the step has ended, which it does with ctx at the latest.
func step(ctx context.Context) (over func() bool) {
	end := time.Now().Add(stepTime)
	return func() bool { return ctx.Err() != nil || !time.Now().Before(end) }
}

// settle makes the library's bookings follow what is held, until a step is over. It reports whether
// that is done. Hosts that are left get no slots. After an error the graph is dropped.
func (e *Engine) settle(over func() bool) (done bool, err error) {
	s := e.session
	for len(s.ended) > 0 {
		if over() {
			return false, nil
		}
		last := len(s.ended) - 1
		job := s.ended[last]
		s.ended = s.ended[:last]
		if err := s.cancel(job); err != nil {
			e.dropGraph()
			return false, err
		}
	}
	for h := range s.unbooked {
		if over() {
			return false, nil
		}
		delete(s.unbooked, h)
		if err := e.bookRest(h); err != nil {
			e.dropGraph()
			return false, fmt.Errorf("book the slots on node %q: %w", h.name, err)
		}
	}
	return true, nil
}

// settleSoon settles what a change of the cluster has left, for a step, unless a graph is being
// loaded. The next match settles the remainder. The change counts even if the library fails.
func (e *Engine) settleSoon(ctx context.Context) {
	if !e.hasGraph() {
		return
	}
	if _, err := e.settle(step(ctx)); err != nil {
		e.warnDropped(ctx, err)
	}
}

// warnDropped logs an error after which the graph was dropped, and which no caller gets.
func (e *Engine) warnDropped(ctx context.Context, err error) {
	e.options.Log.WarnContext(ctx, "Fluxion's graph is dropped, and is loaded again before the next match", "reason", err)
}

// isCurrent reports whether the library's graph shows a host as it is, with all that is held there.
func (e *Engine) isCurrent(h *host) bool { return h.inGraph && !e.session.unbooked[h] }

// book books units on a node, which must have room for them.
func (e *Engine) book(ctx context.Context, n *libraryNode, units map[string]int64) (int64, error) {
	_, job, err := e.session.match(ctx, request{
		count: exactly(1), need: e.granules.needs(units), hosts: hostlist([]int64{n.number}),
	}.encode())
	if errors.Is(err, errNoRoom) {
		return 0, fmt.Errorf("%w: no room for %v on node %d, which should have it", errDamaged, units, n.number)
	}
	return job, err
}

// bookRest updates the rest job of a host. The job holds the sum, by type, of all slots without a
// separate job in the library, rounded up to units, but at most the free units. The rest of the sum
// is booked when other slots leave.
func (e *Engine) bookRest(h *host) error {
	if !h.inGraph {
		return nil
	}
	sums, own := make(map[string]int64), make(map[string]int64)
	for _, s := range h.slots {
		if s.ownJob != 0 {
			for poolType, n := range s.units {
				own[poolType] += n
			}
			continue
		}
		for poolType, n := range s.amounts {
			sums[poolType] = plus(sums[poolType], n)
		}
	}
	want := make(map[string]int64, len(sums))
	for poolType, n := range sums {
		if units := min(e.granules.roundUp(poolType, n), h.node.units[poolType]-own[poolType]); units > 0 {
			want[poolType] = units
		}
	}
	if maps.Equal(want, h.restUnits) {
		return nil
	}
	if h.restJob != 0 {
		if err := e.session.cancel(h.restJob); err != nil {
			return err
		}
	}
	h.restJob, h.restUnits = 0, nil
	if len(want) == 0 {
		return nil
	}
	job, err := e.book(context.Background(), h.node, want)
	if err != nil {
		return err
	}
	h.restJob, h.restUnits = job, want
	return nil
}

// bookRestOrDrop is bookRest for callers that must not fail. After an error the library's graph is
// loaded again.
func (e *Engine) bookRestOrDrop(h *host) {
	if e.session != nil {
		delete(e.session.unbooked, h)
	}
	if err := e.bookRest(h); err != nil {
		e.dropGraph()
		e.warnDropped(context.Background(), err)
	}
}

// addSlot adds a slot to its host. A slot without a job is still to be booked in the host's rest job.
func (e *Engine) addSlot(name string, s *slot) {
	h := e.host(name)
	h.add(s)
	if h.inGraph && s.ownJob == 0 {
		e.session.unbooked[h] = true
	}
}

// removeSlot removes a slot from its host. What the library holds for it is still to be released.
func (e *Engine) removeSlot(h *host, s *slot) {
	h.drop(s)
	if h.inGraph {
		e.session.ended = append(e.session.ended, s.ownJob)
		e.session.unbooked[h] = true
	}
	s.ownJob, s.units = 0, nil
	e.dropIfEmpty(h)
}

// host returns the host of this name. It adds the host if there is none.
func (e *Engine) host(name string) *host {
	h := e.hosts[name]
	if h == nil {
		h = &host{name: name, slots: make(map[slotKey]*slot), holders: make(map[string]int)}
		e.hosts[name] = h
	}
	return h
}

// dropIfEmpty forgets a host that has neither a node nor slots.
func (e *Engine) dropIfEmpty(h *host) {
	if h.node == nil && len(h.slots) == 0 {
		delete(e.hosts, h.name)
	}
}

// capacity returns the number of slots of these units for which the host has room.
func (h *host) capacity(units map[string]int64) int64 {
	most := int64(math.MaxInt64)
	for poolType, n := range units {
		most = min(most, h.free(poolType)/n)
	}
	return most
}
