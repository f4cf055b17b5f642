package store

// addHolder counts a slot in the exclusivity of its host.
func (h *host) addHolder(s *Slot, c *columns) {
	switch {
	case s.onEveryNode:
		return
	case s.holder == "":
		h.exclusivity.WithoutHolder++
	default:
		if h.holders == nil {
			h.holders = make(map[string]int)
		}
		h.holders[s.holder]++
	}
	h.updateExclusivity(c)
}

// removeHolder reverts addHolder.
func (h *host) removeHolder(s *Slot, c *columns) {
	if !s.onEveryNode {
		h.uncountHolder(s)
		h.updateExclusivity(c)
	}
}

// uncountHolder takes a slot out of the counts. The caller has to call updateExclusivity.
func (h *host) uncountHolder(s *Slot) {
	switch {
	case s.onEveryNode:
		return
	case s.holder == "":
		h.exclusivity.WithoutHolder--
	default:
		if h.holders[s.holder]--; h.holders[s.holder] == 0 {
			delete(h.holders, s.holder)
		}
	}
}

// updateExclusivity computes the exclusivity from the counts, and copies it to the columns.
func (h *host) updateExclusivity(c *columns) {
	h.exclusivity.Holders, h.exclusivity.Holder = int32(len(h.holders)), ""
	if len(h.holders) == 1 {
		for h.exclusivity.Holder = range h.holders {
		}
	}
	if h.node != nil {
		c.setExclusivity(h.node.position, h.exclusivity)
	}
}

// changeHolder gives a booked slot another holder, or none.
func (st *Store) changeHolder(s *Slot, holder string, shared bool) {
	if s.holder == holder && s.onEveryNode == shared {
		return
	}
	h := st.hosts.byName[s.node]
	h.removeHolder(s, &st.graph.columns)
	s.holder, s.onEveryNode = holder, shared
	h.updatePermanent(s)
	h.addHolder(s, &st.graph.columns)
}
