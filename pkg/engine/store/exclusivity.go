package store

// moveIn counts a slot among those on its host.
func (h *host) moveIn(s *Slot, c *columns) {
	switch {
	case s.shared:
		return
	case s.holder == "":
		h.exclusivity.Others++
	default:
		if h.holders == nil {
			h.holders = make(map[string]int)
		}
		h.holders[s.holder]++
	}
	h.settleExclusivity(c)
}

// moveOut takes back what moveIn counted.
func (h *host) moveOut(s *Slot, c *columns) {
	if !s.shared {
		h.discount(s)
		h.settleExclusivity(c)
	}
}

// discount takes a slot from those that are counted, for which the exclusivity is yet to be settled.
func (h *host) discount(s *Slot) {
	switch {
	case s.shared:
		return
	case s.holder == "":
		h.exclusivity.Others--
	default:
		if h.holders[s.holder]--; h.holders[s.holder] == 0 {
			delete(h.holders, s.holder)
		}
	}
}

// settleExclusivity brings the exclusivity up to date where the matcher reads it.
func (h *host) settleExclusivity(c *columns) {
	h.exclusivity.Holders, h.exclusivity.Holder = int32(len(h.holders)), ""
	if len(h.holders) == 1 {
		for h.exclusivity.Holder = range h.holders {
		}
	}
	if h.node != nil {
		c.let(h.node.position, h.exclusivity)
	}
}

// relet gives a slot that stands to another holder, or to none.
func (st *Store) relet(s *Slot, holder string, shared bool) {
	if s.holder == holder && s.shared == shared {
		return
	}
	h := st.hosts.byName[s.node]
	h.moveOut(s, &st.graph.columns)
	s.holder, s.shared = holder, shared
	h.stay(s)
	h.moveIn(s, &st.graph.columns)
}
