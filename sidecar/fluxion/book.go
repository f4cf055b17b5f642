package fluxion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// replay books all slots of a host into a graph that has none of them. A slot that no longer fits
// by itself is booked in the host's rest job, together with all other slots without a job.
func (e *Engine) replay(h *host) error {
	h.restJob, h.restUnits = 0, nil
	var own []*slot
	for _, s := range h.slots {
		if s.ownJob = 0; s.units != nil {
			own = append(own, s)
		}
	}
	slices.SortFunc(own, func(a, b *slot) int { return cmp.Compare(a.order, b.order) })
	left := maps.Clone(h.node.units)
	for _, s := range own {
		if !covers(left, s.units) {
			s.units = nil
			continue
		}
		for poolType, n := range s.units {
			left[poolType] -= n
		}
		job, err := e.book(context.Background(), h.node, s.units)
		if err != nil {
			return err
		}
		s.ownJob = job
	}
	return e.bookRest(h)
}

// covers reports whether have is at least want in every type of want.
func covers(have, want map[string]int64) bool {
	for poolType, n := range want {
		if have[poolType] < n {
			return false
		}
	}
	return true
}

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

// bookRestOrDrop is bookRest for callers that must not fail, because they report facts of the
// cluster. After an error the library's graph is built again.
func (e *Engine) bookRestOrDrop(h *host) {
	if err := e.bookRest(h); err != nil {
		e.dropGraph()
	}
}

// addSlot adds a slot to its host, and books it in the host's rest job.
func (e *Engine) addSlot(name string, s *slot) {
	e.slotCounter++
	s.order = e.slotCounter
	h := e.host(name)
	h.add(s)
	e.bookRestOrDrop(h)
}

// removeSlot removes a slot from its host and releases its resources.
func (e *Engine) removeSlot(h *host, s *slot) {
	h.drop(s)
	if s.ownJob != 0 {
		if err := e.session.cancel(s.ownJob); err != nil {
			e.dropGraph()
		}
	}
	s.ownJob = 0
	e.bookRestOrDrop(h)
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
