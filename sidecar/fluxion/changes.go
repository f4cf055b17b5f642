package fluxion

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// PutNode implements match.Engine. A node whose name is a list of names (RFC 29) is
// match.ErrInvalid, and so is a node with more types or levels than have names in the library.
func (e *Engine) PutNode(ctx context.Context, at match.Epoch, nodes ...*resource.Graph) error {
	if err := e.mu.acquire(ctx); err != nil {
		return err
	}
	defer e.mu.release()
	if err := e.checkNodes(nodes); err != nil {
		if stale := e.checkEpoch(ctx, at); stale != nil {
			return stale
		}
		return err
	}
	if err := e.shadow.PutNode(ctx, at, nodes...); err != nil {
		return err
	}
	for _, g := range nodes {
		name, n := e.readNode(g)
		h := e.host(name)
		if h.node == nil {
			n.number = e.newNumber()
		} else {
			n.number = h.node.number
			if !sameLayout(h.node, n) {
				e.leaveGraph(h)
			}
		}
		h.node = n
	}
	e.settleSoon(ctx)
	return nil
}

// checkNodes fails for nodes that the shadow accepts and the library does not.
func (e *Engine) checkNodes(nodes []*resource.Graph) error {
	for i, g := range nodes {
		if g == nil {
			continue // The shadow rejects it.
		}
		for k := range g.Vertices {
			if v := &g.Vertices[k]; v.Type == resource.TypeNode && strings.ContainsAny(nameOf(v), "[],") {
				return invalid("put node %d of %d: %q names several hosts", i+1, len(nodes), nameOf(v))
			}
		}
	}
	return e.names.check(nodes)
}

// RemoveNode implements match.Engine. The node stays in the library's graph until the graph is
// built again, but is not used any more.
func (e *Engine) RemoveNode(ctx context.Context, at match.Epoch, name string) error {
	if err := e.mu.acquire(ctx); err != nil {
		return err
	}
	defer e.mu.release()
	if err := e.shadow.RemoveNode(ctx, at, name); err != nil {
		return err
	}
	h := e.hosts[name]
	if h == nil || h.node == nil {
		return nil
	}
	e.leaveGraph(h)
	h.node = nil
	e.dropIfEmpty(h)
	e.settleSoon(ctx)
	return nil
}

// SetStatus implements match.Engine.
func (e *Engine) SetStatus(ctx context.Context, at match.Epoch, name string, status resource.Status) error {
	if err := e.mu.acquire(ctx); err != nil {
		return err
	}
	defer e.mu.release()
	if err := e.shadow.SetStatus(ctx, at, name, status); err != nil {
		return err
	}
	if h := e.hosts[name]; h != nil && h.node != nil {
		h.node.up = status == resource.Up
	}
	return nil
}

// Release implements match.Engine.
func (e *Engine) Release(ctx context.Context, at match.Epoch, id match.JobID, keys ...string) error {
	if err := e.mu.acquire(ctx); err != nil {
		return err
	}
	defer e.mu.release()
	if err := e.shadow.Release(ctx, at, id, keys...); err != nil {
		return err
	}
	for key, h := range maps.Clone(e.jobs[id]) {
		if len(keys) == 0 || slices.Contains(keys, key) {
			e.releaseSlot(h, h.slots[slotKey{id, key}])
		}
	}
	e.settleSoon(ctx)
	return nil
}

// releaseSlot removes a slot from its host and from its job.
func (e *Engine) releaseSlot(h *host, s *slot) {
	e.removeSlot(h, s)
	e.forgetSlot(s)
}

// forgetSlot removes a slot from its job.
func (e *Engine) forgetSlot(s *slot) {
	delete(e.jobs[s.job], s.key)
	if len(e.jobs[s.job]) == 0 {
		delete(e.jobs, s.job)
		delete(e.answers, s.job)
	}
}

// addJobSlot adds a slot to its job and to its host.
func (e *Engine) addJobSlot(name string, s *slot) {
	if e.jobs[s.job] == nil {
		e.jobs[s.job] = make(map[string]*host)
	}
	e.jobs[s.job][s.key] = e.host(name)
	e.addSlot(name, s)
}

// Update implements match.Engine. A slot that Match gave out keeps its own job in the library as
// long as the update agrees with it. Any other slot is booked in the rest job of its host.
func (e *Engine) Update(ctx context.Context, at match.Epoch, jobs ...match.Job) error {
	if len(jobs) == 0 {
		// It only asks for the epoch. It does not wait for a match of another call.
		return e.shadow.Update(ctx, at)
	}
	if err := e.mu.acquire(ctx); err != nil {
		return err
	}
	defer e.mu.release()
	if err := e.shadow.Update(ctx, at, jobs...); err != nil {
		return err
	}
	for i := range jobs {
		for k := range jobs[i].Slots {
			e.updateSlot(jobs[i].ID, &jobs[i].Slots[k])
		}
	}
	e.settleSoon(ctx)
	return nil
}

// updateSlot books one slot in place of the slot with its key.
func (e *Engine) updateSlot(id match.JobID, from *match.Slot) {
	s := &slot{slotKey: slotKey{id, from.Key}, holder: from.Holder, shared: from.Shared, amounts: amountsOf(from.R)}
	if h := e.jobs[id][from.Key]; h != nil {
		was := h.slots[s.slotKey]
		if h.name == from.Node && maps.Equal(was.amounts, s.amounts) {
			h.count(was, -1)
			was.holder, was.shared = s.holder, s.shared
			h.count(was, 1)
			return
		}
		// The answer of the job stays: the shadow knows whether it still counts.
		e.removeSlot(h, was)
	}
	e.addJobSlot(from.Node, s)
}

// amountsOf returns the amounts that a set holds, summed by type.
func amountsOf(r *resource.Set) map[string]int64 {
	sums := make(map[string]int64)
	for i := range r.Vertices {
		v := &r.Vertices[i]
		if v.Type != resource.TypeNode && v.Type != resource.TypeCluster && v.Amount > 0 {
			sums[v.Type] = plus(sums[v.Type], v.Amount)
		}
	}
	return sums
}

// Sizes returns the numbers of the shadow, which has all that is held: see engine.Engine.Sizes.
func (e *Engine) Sizes() (jobs, slots, nodes int, ready bool) {
	jobs, slots, nodes, _ = e.shadow.Sizes()
	return jobs, slots, nodes, e.ready.Load()
}

// Jobs implements match.Engine.
func (e *Engine) Jobs(ctx context.Context, at match.Epoch) ([]match.Job, error) {
	jobs, err := e.shadow.Jobs(ctx, at)
	for i := range jobs {
		relabel(jobs[i].Slots)
	}
	return jobs, err
}

// Nodes implements match.Engine.
func (e *Engine) Nodes(ctx context.Context, at match.Epoch, from string, limit int) ([]match.Node, error) {
	nodes, err := e.shadow.Nodes(ctx, at, from, limit)
	for i := range nodes {
		for k := range nodes[i].Jobs {
			relabel(nodes[i].Jobs[k].Slots)
		}
	}
	return nodes, err
}
