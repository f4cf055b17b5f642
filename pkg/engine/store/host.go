package store

import (
	"cmp"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// A host is a node's name: with the node while that is in the graph, and with
// the slots that stand on it in any case.
type host struct {
	node  *node
	slots map[*Slot]struct{}
	// holders counts the slots of each holder; nil until there is one.
	holders     map[string]int
	exclusivity solver.Exclusivity
	// outlook is what is foreseen; nil until somebody asks for it.
	outlook outlook
	// ignoring is the number of the match that ignores slots here, 0 for none, and ignored how
	// many they are.
	ignoring uint64
	ignored  int
}

// hosts are all names at which there is something.
type hosts struct {
	byName map[string]*host
	// names lists them in order; nil until somebody asks for it.
	names []string
}

// of returns the host of this name, made where it is lacking.
func (a *hosts) of(name string) *host {
	h := a.byName[name]
	if h == nil {
		h = &host{slots: make(map[*Slot]struct{})}
		a.byName[name] = h
		a.enlist(name)
	}
	return h
}

// leave forgets a host that has neither node nor slots.
func (a *hosts) leave(name string) {
	if h := a.byName[name]; h != nil && h.node == nil && len(h.slots) == 0 {
		delete(a.byName, name)
		a.strike(name)
	}
}

// enlist adds a host's name to the list of them, if there is one.
func (a *hosts) enlist(name string) {
	if a.names == nil {
		return
	}
	if at, ok := slices.BinarySearch(a.names, name); !ok {
		a.names = slices.Insert(a.names, at, name)
	}
}

// strike takes a host's name off the list, if there is one.
func (a *hosts) strike(name string) {
	if at, ok := slices.BinarySearch(a.names, name); ok {
		a.names = slices.Delete(a.names, at, at+1)
	}
}

// stand books a slot on its host.
func (st *Store) stand(s *Slot) {
	st.stood++
	st.held++
	s.order = st.stood
	st.reservations.ends.add(endOf(s.end), s)
	st.hosts.of(s.node).add(s, &st.graph.columns)
}

// unstand takes back what stand booked.
func (st *Store) unstand(s *Slot) {
	st.held--
	st.reservations.ends.remove(endOf(s.end), s)
	st.hosts.byName[s.node].drop(s, &st.graph.columns)
	st.hosts.leave(s.node)
}

// add books a slot. One that was given out here brings its charges along.
func (h *host) add(s *Slot, c *columns) {
	h.slots[s] = struct{}{}
	s.on = h
	h.outlook = nil
	h.moveIn(s, c)
	switch {
	case h.node == nil:
		s.charges = nil
	case h.node.several:
		s.charges = nil
		h.settle()
	case s.charges == nil:
		h.node.book(s, true)
		h.node.book(s, false)
	default:
		for _, c := range s.charges {
			h.node.weigh(c)
		}
	}
}

// drop takes a slot off.
func (h *host) drop(s *Slot, c *columns) {
	delete(h.slots, s)
	h.outlook = nil
	h.moveOut(s, c)
	if h.node != nil {
		h.node.refund(s.charges)
	}
	s.charges = nil
	if h.node != nil && h.node.several {
		h.settle()
	}
}

// rebuild books all slots on a node whose vertices are new.
func (h *host) rebuild() {
	h.outlook = nil
	for s := range h.slots {
		s.charges = nil
	}
	h.settle()
}

// settle books all slots anew: first on the leaves that they name, then in the
// order in which they came on what those leave. Whoever comes or goes where a
// pool has several leaves can change on which of them the others weigh.
func (h *host) settle() {
	slots := make([]*Slot, 0, len(h.slots))
	for s := range h.heeded() {
		h.node.refund(s.charges)
		s.charges = nil
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b *Slot) int { return cmp.Compare(a.order, b.order) })
	for _, named := range []bool{true, false} {
		for _, s := range slots {
			h.node.book(s, named)
		}
	}
}

// book charges shares of a slot: with named those whose leaf is found by its
// path below the node; without, the others by their type.
func (n *node) book(s *Slot, named bool) {
	for _, h := range s.shares {
		if h.way || h.amount == 0 {
			continue
		}
		at, v := n.leaf(h.about.Type, below(h.about.Path, s.node))
		switch {
		case v != nil && named:
			s.charges = append(s.charges, charge{at, v, h.amount, s.Stays()})
			n.weigh(s.charges[len(s.charges)-1])
		case v == nil && !named:
			n.spread(s, h)
		}
	}
}

// spread charges a share to the leaves of its type, if there are any: to those
// with room first, and whatever the room to the last.
func (n *node) spread(s *Slot, h share) {
	at := n.find(h.about.Type)
	if at < 0 {
		return
	}
	left := h.amount
	leaves := n.pools[at].leaves
	for i, v := range leaves {
		part := min(left, v.used.leaves(v.about.Size))
		if i == len(leaves)-1 {
			part = left
		}
		if part > 0 {
			s.charges = append(s.charges, charge{at, v, part, s.Stays()})
			n.weigh(s.charges[len(s.charges)-1])
			left -= part
		}
	}
}

// weigh puts a charge on its leaf.
func (n *node) weigh(c charge) {
	c.leaf.used.add(c.amount)
	if c.stays {
		c.leaf.stays.add(c.amount)
	}
	n.count(c.pool)
}

// stay has the charges of a slot count by whether it stays now.
func (h *host) stay(s *Slot) {
	if h.node == nil {
		return
	}
	for i := range s.charges {
		c := &s.charges[i]
		h.node.unweigh(*c)
		c.stays = s.Stays()
		h.node.weigh(*c)
	}
}

// refund takes charges back.
func (n *node) refund(charges []charge) {
	for _, c := range charges {
		n.unweigh(c)
	}
}

// unweigh takes a charge off its leaf.
func (n *node) unweigh(c charge) {
	c.lift()
	n.count(c.pool)
}

// lift takes a charge off its leaf, for which the node is yet to be counted.
func (c *charge) lift() {
	c.leaf.used.sub(c.amount)
	if c.stays {
		c.leaf.stays.sub(c.amount)
	}
}
