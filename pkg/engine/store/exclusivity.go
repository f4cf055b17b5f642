package store

// addHolder counts a slot among those on its host.
func (h *host) addHolder(s *Slot, c *columns) {
	switch {
	case s.shared:
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

// removeHolder takes back what addHolder counted.
func (h *host) removeHolder(s *Slot, c *columns) {
	if !s.shared {
		h.uncountHolder(s)
		h.updateExclusivity(c)
	}
}

// uncountHolder takes a slot from those that are counted, for which the exclusivity is yet to be settled.
func (h *host) uncountHolder(s *Slot) {
	switch {
	case s.shared:
		return
	case s.holder == "":
		h.exclusivity.WithoutHolder--
	default:
		if h.holders[s.holder]--; h.holders[s.holder] == 0 {
			delete(h.holders, s.holder)
		}
	}
}

// updateExclusivity brings the exclusivity up to date where the matcher reads it.
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

// changeHolder gives a slot that stands to another holder, or to none.
func (st *Store) changeHolder(s *Slot, holder string, shared bool) {
	if s.holder == holder && s.shared == shared {
		return
	}
	h := st.hosts.byName[s.node]
	h.removeHolder(s, &st.graph.columns)
	s.holder, s.shared = holder, shared
	h.updatePermanent(s)
	h.addHolder(s, &st.graph.columns)
}
