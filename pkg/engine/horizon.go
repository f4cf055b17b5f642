package engine

import "github.com/flux-k8s/fluence/pkg/match"

// A horizon is the time that an attempt looks at. As long as it stands, what the
// columns say of the hosts it covers, of free amounts and of tenancies, holds all
// through its window; of the others it does anyway.
type horizon struct {
	*Engine
	window  window
	covered map[*host]struct{}
}

// present returns the horizon of a request that is to be given its resources now.
// It covers the hosts where something is promised within the window.
func (e *Engine) present(r *match.Request) *horizon {
	h := &horizon{Engine: e}
	h.lookNow(windowFrom(instant(r.Now), r.Duration))
	return h
}

// lookNow turns to a window that begins now.
func (h *horizon) lookNow(w window) {
	h.restore()
	h.window = w
	h.window.present = true
	for name, slots := range h.promises.nodes {
		for s := range slots {
			if h.window.meets(s) {
				h.cover(name)
				break
			}
		}
	}
}

// cover has the columns say what there is of a host within the window. It returns
// the host's node; nil if it has none.
func (h *horizon) cover(name string) *node {
	at := h.hosts[name]
	if at == nil || at.node == nil {
		return nil
	}
	if h.covered == nil {
		h.covered = make(map[*host]struct{})
	}
	h.covered[at] = struct{}{}
	promised := h.promises.nodes[name]
	at.foresee(promised)
	n := at.node
	for k := range n.pools {
		free := int64(0)
		for l := range n.pools[k].leaves {
			free = plus(free, at.freeOver(h.window, k, l))
		}
		n.pools[k].column.free[n.position] = free
	}
	h.graph.columns.let(n.position, at.tenancyOver(h.window, promised))
	return n
}

// free returns what of a leaf may be given out within the window.
func (h *horizon) free(n *node, k, l int) int64 {
	if at := h.hosts[n.name()]; len(h.covered) > 0 {
		if _, ok := h.covered[at]; ok {
			return at.freeOver(h.window, k, l)
		}
	}
	return n.pools[k].leaves[l].free()
}

// restore has the columns say what is held, and nothing else.
func (h *horizon) restore() {
	for at := range h.covered {
		for k := range at.node.pools {
			at.node.count(k)
		}
		at.settleTenancy(&h.graph.columns)
		if len(h.promises.nodes[at.node.name()]) == 0 {
			at.outlook = nil
		}
	}
	clear(h.covered)
}
