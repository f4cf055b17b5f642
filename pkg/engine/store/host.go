package store

import (
	"cmp"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// A host is what the store has under one node name: the node while it is in the graph, and the
// slots there even if the graph lacks the node.
type host struct {
	node  *node
	slots map[*Slot]struct{}
	// holders counts the slots of each holder. It is nil if there were none yet.
	holders     map[string]int
	exclusivity solver.Exclusivity
	// timeline caches makeTimeline. It is nil before the first use and after each change.
	timeline nodeTimeline
	// moved is set while a move of a window's view collects the hosts to cover. anew is set as well if it is not
	// enough to take off what ends.
	moved, anew bool
	// ignoredBy is the number of the match that ignores slots of the host. Zero means none.
	ignoredBy uint64
	// ignored is the number of these slots.
	ignored int
}

// hosts are all names that have a node or slots.
type hosts struct {
	byName map[string]*host
	// names lists the names in order. It is nil before the first use.
	names []string
}

// ensure returns the host with this name. It creates the host if needed.
func (a *hosts) ensure(name string) *host {
	h := a.byName[name]
	if h == nil {
		h = &host{slots: make(map[*Slot]struct{})}
		a.byName[name] = h
		a.addName(name)
	}
	return h
}

// removeIfEmpty removes a host that has neither a node nor slots.
func (a *hosts) removeIfEmpty(name string) {
	if h := a.byName[name]; h != nil && h.node == nil && len(h.slots) == 0 {
		delete(a.byName, name)
		a.removeName(name)
	}
}

// addName adds a name to the list, if there is a list.
func (a *hosts) addName(name string) {
	if a.names == nil {
		return
	}
	if at, ok := slices.BinarySearch(a.names, name); !ok {
		a.names = slices.Insert(a.names, at, name)
	}
}

// removeName removes a name from the list, if there is a list.
func (a *hosts) removeName(name string) {
	if at, ok := slices.BinarySearch(a.names, name); ok {
		a.names = slices.Delete(a.names, at, at+1)
	}
}

// addSlot books a slot on its host.
func (st *Store) addSlot(s *Slot) {
	st.lastSeq++
	st.slotCount++
	s.seq = st.lastSeq
	st.reservations.allEnds.add(endOf(s.end), s)
	st.hosts.ensure(s.node).add(s, &st.graph.columns)
}

// removeSlot reverts addSlot.
func (st *Store) removeSlot(s *Slot) {
	st.slotCount--
	st.reservations.allEnds.remove(endOf(s.end), s)
	st.hosts.byName[s.node].drop(s, &st.graph.columns)
	st.hosts.removeIfEmpty(s.node)
}

// add books a slot. A slot from Allocate already has its charges.
func (h *host) add(s *Slot, c *columns) {
	h.slots[s] = struct{}{}
	s.host = h
	h.timeline = nil
	h.addHolder(s, c)
	switch {
	case h.node == nil:
		s.charges = nil
	case h.node.multiLeaf:
		s.charges = nil
		h.rechargeAll()
	case s.charges == nil:
		h.node.chargeSlot(s, true)
		h.node.chargeSlot(s, false)
	default:
		for _, c := range s.charges {
			h.node.charge(c)
		}
	}
}

// drop takes a slot off the host.
func (h *host) drop(s *Slot, c *columns) {
	delete(h.slots, s)
	s.host = nil
	h.timeline = nil
	h.removeHolder(s, c)
	if h.node != nil {
		h.node.unchargeAll(s.charges)
	}
	s.charges = nil
	if h.node != nil && h.node.multiLeaf {
		h.rechargeAll()
	}
}

// rebuild charges all slots again, on a node whose vertices are new.
func (h *host) rebuild() {
	h.timeline = nil
	for s := range h.slots {
		s.charges = nil
	}
	h.rechargeAll()
}

// rechargeAll charges all slots again. First it charges the shares that name a leaf. Then it
// charges the others to what is left, in the order in which the slots were booked. If a pool has
// several leaves, a slot that comes or goes may change which leaves the other slots are charged to.
func (h *host) rechargeAll() {
	slots := make([]*Slot, 0, len(h.slots))
	for s := range h.countedSlots() {
		h.node.unchargeAll(s.charges)
		s.charges = nil
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b *Slot) int { return cmp.Compare(a.seq, b.seq) })
	for _, named := range []bool{true, false} {
		for _, s := range slots {
			h.node.chargeSlot(s, named)
		}
	}
}

// chargeSlot charges shares of a slot. If named, it charges the shares whose path below the node
// finds a leaf. Otherwise it charges the other shares, by type.
func (n *node) chargeSlot(s *Slot, named bool) {
	for _, h := range s.shares {
		if h.container || h.amount == 0 {
			continue
		}
		at, v := n.findLeaf(h.res.Type, pathBelow(h.res.Path, s.node))
		switch {
		case v != nil && named:
			s.charges = append(s.charges, charge{at, v, h.amount, s.IsPermanent()})
			n.charge(s.charges[len(s.charges)-1])
		case v == nil && !named:
			n.chargeByType(s, h)
		}
	}
}

// chargeByType charges a share to the leaves of its type, if there are any. It charges each leaf
// with what is free there, and the last leaf with all of the rest.
func (n *node) chargeByType(s *Slot, h share) {
	at := n.poolIndex(h.res.Type)
	if at < 0 {
		return
	}
	left := h.amount
	leaves := n.pools[at].leaves
	for i, v := range leaves {
		part := min(left, v.used.remaining(v.res.Size))
		if i == len(leaves)-1 {
			part = left
		}
		if part > 0 {
			s.charges = append(s.charges, charge{at, v, part, s.IsPermanent()})
			n.charge(s.charges[len(s.charges)-1])
			left -= part
		}
	}
}

// charge puts a charge on its leaf.
func (n *node) charge(c charge) {
	c.leaf.used.add(c.amount)
	if c.permanent {
		c.leaf.permanent.add(c.amount)
	}
	n.updateColumns(c.pool)
}

// updatePermanent updates the charges of a slot after IsPermanent may have changed.
func (h *host) updatePermanent(s *Slot) {
	if h.node == nil {
		return
	}
	for i := range s.charges {
		c := &s.charges[i]
		h.node.uncharge(*c)
		c.permanent = s.IsPermanent()
		h.node.charge(*c)
	}
}

// unchargeAll takes charges off their leaves.
func (n *node) unchargeAll(charges []charge) {
	for _, c := range charges {
		n.uncharge(c)
	}
}

// uncharge takes a charge off its leaf.
func (n *node) uncharge(c charge) {
	c.subtract()
	n.updateColumns(c.pool)
}

// subtract takes a charge off its leaf. The caller has to update the columns.
func (c *charge) subtract() {
	c.leaf.used.sub(c.amount)
	if c.permanent {
		c.leaf.permanent.sub(c.amount)
	}
}
