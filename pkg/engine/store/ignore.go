package store

import (
	"iter"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
)

// jobSteps and slotSteps are the costs in steps of ignoring a job and each of its slots. A match
// may spend all the steps that it has under the engine's lock: some 150,000 jobs of one slot, or
// 250,000 slots of large jobs.
const jobSteps, slotSteps = 12, 16

// An ignoreState is what the running match ignores. The ignored slots stay on their hosts, because
// taking very many slots off and putting them back takes long. Instead, the slots are marked with
// the match's number, and each host is recounted once for all of them.
type ignoreState struct {
	// number is the number of the running match, or of the last one.
	number uint64
	hosts  []savedHost
	// saved has the used and the permanent amount of each leaf, in the order of hosts.
	saved [][2]sum128
}

// A savedHost is a host with ignored slots, and the holders that it had before.
type savedHost struct {
	*host
	holders     map[string]int
	exclusivity solver.Exclusivity
}

// Ignore makes what these jobs hold, and these slots, count as free until restore is called. It
// returns the cost in steps. It stops if the cost exceeds most, and all is false then. Invariant: no
// node is added or removed before restore.
func (st *Store) Ignore(ids []match.JobID, freed []match.SlotRef, most int) (restore func(), steps int, all bool) {
	g := &st.ignoring
	g.number++
	all = true
	for _, id := range ids {
		j := st.jobs[id]
		if j == nil || j.ignoredBy == g.number {
			continue
		}
		if steps += jobSteps + slotSteps*len(j.slots); steps > most {
			all = false
			break
		}
		j.ignoredBy = g.number
		for _, s := range j.slots {
			g.ignore(s)
		}
	}
	for _, ref := range freed {
		j := st.jobs[ref.Job]
		if !all || j == nil || j.reserved {
			continue
		}
		slots := j.slotsOf(ref.Keys)
		if steps += jobSteps + slotSteps*len(slots); steps > most {
			all = false
			break
		}
		for _, s := range slots {
			g.ignore(s)
		}
	}
	for _, h := range g.hosts {
		h.recount(&st.graph.columns)
	}
	return func() { g.restore(&st.graph.columns) }, steps, all
}

// slotsOf returns the slots of a job with these keys, or all of them if there are no keys.
func (j *Job) slotsOf(keys []string) []*Slot {
	if len(keys) == 0 {
		return slices.Collect(maps.Values(j.slots))
	}
	slots := make([]*Slot, 0, len(keys))
	for _, key := range keys {
		if s := j.slots[key]; s != nil {
			slots = append(slots, s)
		}
	}
	return slots
}

// ignore ignores a slot, once. The caller has to recount the slot's host.
func (g *ignoreState) ignore(s *Slot) {
	if s.ignoredBy == g.number {
		return
	}
	h := s.host
	if h.ignoredBy != g.number {
		g.saveHost(h)
	}
	s.ignoredBy = g.number
	h.ignored++
	h.uncountHolder(s)
	if h.node == nil {
		return
	}
	for i := range s.charges {
		s.charges[i].subtract()
	}
	if h.node.multiLeaf {
		s.charges = nil
	}
}

// saveHost saves a host for restore.
func (g *ignoreState) saveHost(h *host) {
	g.hosts = append(g.hosts, savedHost{h, h.holders, h.exclusivity})
	h.ignoredBy = g.number
	h.holders = maps.Clone(h.holders)
	for v := range h.leaves() {
		g.saved = append(g.saved, [2]sum128{v.used, v.permanent})
	}
}

// restore makes all slots count again.
func (g *ignoreState) restore(c *columns) {
	at := 0
	for _, h := range g.hosts {
		h.host.holders, h.host.exclusivity = h.holders, h.exclusivity
		h.ignoredBy, h.ignored = 0, 0
		for v := range h.leaves() {
			v.used, v.permanent = g.saved[at][0], g.saved[at][1]
			at++
		}
		h.recount(c)
	}
	*g = ignoreState{number: g.number}
}

// leaves returns the leaves of a host that has one leaf in each pool. For a host with a
// pool of several leaves it returns none, because recount charges all slots there again.
func (h *host) leaves() iter.Seq[*vertex] {
	return func(yield func(*vertex) bool) {
		if h.node == nil || h.node.multiLeaf {
			return
		}
		for i := range h.node.pools {
			if !yield(h.node.pools[i].leaves[0]) {
				return
			}
		}
	}
}

// recount updates what a solver reads of a host.
func (h *host) recount(c *columns) {
	h.timeline = nil
	h.updateExclusivity(c)
	if h.node == nil {
		return
	}
	if h.node.multiLeaf {
		h.rechargeAll()
	}
	for k := range h.node.pools {
		h.node.updateColumns(k)
	}
}

// Slots returns the slots on the node at a position, except ignored ones.
func (st *Store) Slots(at int32) iter.Seq[*Slot] {
	return st.hosts.byName[st.graph.nodes[at].name()].countedSlots()
}

// countedSlots returns the slots of a host, except ignored ones.
func (h *host) countedSlots() iter.Seq[*Slot] {
	return func(yield func(*Slot) bool) {
		for s := range h.slots {
			if h.counts(s) && !yield(s) {
				return
			}
		}
	}
}

// counts reports whether a slot of a host is not ignored.
func (h *host) counts(s *Slot) bool { return h.ignoredBy == 0 || s.ignoredBy != h.ignoredBy }
