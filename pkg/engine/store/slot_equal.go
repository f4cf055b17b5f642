package store

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// isContainer reports whether vertices of a type are never pools.
func isContainer(typ string) bool {
	return typ == resource.TypeNode || typ == resource.TypeCluster
}

// equals reports whether the slot already is what f describes: on the same node, with the same
// amount of each type of pool, and on the same vertices if f names vertices.
func (s *Slot) equals(f *match.Slot) bool {
	if s.node != f.Node {
		return false
	}
	had, have := make(map[string]sum128), make(map[string]sum128)
	for _, h := range s.shares {
		if !h.container {
			addAmount(had, h.res.Type, h.amount)
		}
	}
	for i := range f.R.Vertices {
		h := &f.R.Vertices[i]
		path := h.Path
		if isContainer(h.Type) || s.hasContainer(h.Type, path) {
			continue
		}
		if tail := pathBelow(path, s.node); tail != "" && s.amountAt(h.Type, tail) != h.Amount {
			return false
		}
		addAmount(have, h.Type, h.Amount)
	}
	return maps.Equal(had, have)
}

// addAmount adds an amount to the sum of its type.
func addAmount(sums map[string]sum128, typ string, amount int64) {
	if amount > 0 {
		t := sums[typ]
		t.add(amount)
		sums[typ] = t
	}
}

// hasContainer reports whether the slot lists the vertex with this path as a container.
func (s *Slot) hasContainer(typ, path string) bool {
	return slices.ContainsFunc(s.shares, func(h share) bool {
		return h.container && h.res.Type == typ && h.res.Path == path
	})
}

// amountAt returns what the slot holds of the vertex with this path below its node. It returns -1
// if the slot does not hold the vertex.
func (s *Slot) amountAt(typ, tail string) int64 {
	for _, h := range s.shares {
		if h.res.Type == typ && pathBelow(h.res.Path, s.node) == tail {
			return h.amount
		}
	}
	return -1
}
