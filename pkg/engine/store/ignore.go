package store

import (
	"iter"
	"maps"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
)

// jobSteps and slotSteps are how many steps it counts to ignore a job, and each slot of it. A match
// may ignore as much as it may take steps while it holds the engine: some 150,000 jobs of one slot,
// or 250,000 slots of large jobs.
const jobSteps, slotSteps = 12, 16

// An ignoring is what the match at work ignores. Its slots stay on their hosts, since it takes long
// to take very many off and to put them back. They bear its number instead, and each host is
// reckoned anew once for all of them.
type ignoreState struct {
	number uint64 // of the match, or of the last one
	hosts  []savedHost
	// saved is by host and leaf, in the order of the hosts, what was used of it and what stays.
	saved [][2]sum128
}

// An ignorant is a host of which slots are ignored, with those who had it before.
type savedHost struct {
	*host
	holders     map[string]int
	exclusivity solver.Exclusivity
}

// Ignore has what these jobs hold not count until the returned function is called, and returns how
// many steps it counts. It stops, and is false, where these are more than most. Nodes may not come
// or go meanwhile.
func (st *Store) Ignore(ids []match.JobID, most int) (restore func(), steps int, all bool) {
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
	for _, h := range g.hosts {
		h.recount(&st.graph.columns)
	}
	return func() { g.restore(&st.graph.columns) }, steps, all
}

// ignore ignores a slot. Its host is yet to be counted anew.
func (g *ignoreState) ignore(s *Slot) {
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

// saveHost remembers a host as it is.
func (g *ignoreState) saveHost(h *host) {
	g.hosts = append(g.hosts, savedHost{h, h.holders, h.exclusivity})
	h.ignoredBy = g.number
	h.holders = maps.Clone(h.holders)
	for v := range h.leaves() {
		g.saved = append(g.saved, [2]sum128{v.used, v.permanent})
	}
}

// restore has all slots count again.
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

// leaves are those of a host of which each is a pool by itself. Where a pool has several, all slots
// are booked anew.
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

// recount brings up to date what the matcher reads of a host.
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

// Slots are those that stand on the node at a position and are not ignored.
func (st *Store) Slots(at int32) iter.Seq[*Slot] {
	return st.hosts.byName[st.graph.nodes[at].name()].countedSlots()
}

// countedSlots are the slots of a host that are not ignored.
func (h *host) countedSlots() iter.Seq[*Slot] {
	return func(yield func(*Slot) bool) {
		for s := range h.slots {
			if (h.ignoredBy == 0 || s.ignoredBy != h.ignoredBy) && !yield(s) {
				return
			}
		}
	}
}
