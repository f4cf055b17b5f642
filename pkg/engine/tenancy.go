package engine

// A tenancy says who holds slots on a node, as far as it decides who else may be
// given some. Shared slots do not count.
type tenancy struct {
	// others counts the slots of no holder: they keep the node from being whole.
	others int32
	// holders counts the holders, of which only an Update brings together several.
	holders int32
	// holder is the one, if there is just one.
	holder string
}

// A tenant is the one for whom a request is made.
type tenant struct {
	holder string
	// whole says that nodes are wanted whole.
	whole bool
}

// A hindrance is what keeps a tenant from a node.
type hindrance int

const (
	unhindered hindrance = iota
	// ofAnother: the node belongs to another holder.
	ofAnother
	// inUse: others hold something where the node is wanted whole.
	inUse
)

// hinders says what keeps a tenant from the node.
func (t *tenancy) hinders(who tenant) hindrance {
	switch {
	case t.holders > 1 || t.holders == 1 && t.holder != who.holder:
		return ofAnother
	case who.whole && t.others > 0:
		return inUse
	}
	return unhindered
}

// moveIn counts a slot among those on its host.
func (h *host) moveIn(s *slot, c *columns) {
	switch {
	case s.shared:
		return
	case s.holder == "":
		h.tenancy.others++
	default:
		if h.holders == nil {
			h.holders = make(map[string]int)
		}
		h.holders[s.holder]++
	}
	h.settleTenancy(c)
}

// moveOut takes back what moveIn counted.
func (h *host) moveOut(s *slot, c *columns) {
	if !s.shared {
		h.discount(s)
		h.settleTenancy(c)
	}
}

// discount takes a slot from those that are counted, for which the tenancy is yet to be settled.
func (h *host) discount(s *slot) {
	switch {
	case s.shared:
		return
	case s.holder == "":
		h.tenancy.others--
	default:
		if h.holders[s.holder]--; h.holders[s.holder] == 0 {
			delete(h.holders, s.holder)
		}
	}
}

// settleTenancy brings the tenancy up to date where the matcher reads it.
func (h *host) settleTenancy(c *columns) {
	h.tenancy.holders, h.tenancy.holder = int32(len(h.holders)), ""
	if len(h.holders) == 1 {
		for h.tenancy.holder = range h.holders {
		}
	}
	if h.node != nil {
		c.let(h.node.position, h.tenancy)
	}
}

// relet gives a slot that stands to another holder, or to none.
func (e *Engine) relet(s *slot, holder string, shared bool) {
	if s.holder == holder && s.shared == shared {
		return
	}
	h := e.hosts[s.node]
	h.moveOut(s, &e.graph.columns)
	s.holder, s.shared = holder, shared
	h.stay(s)
	h.moveIn(s, &e.graph.columns)
}
