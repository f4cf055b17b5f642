package store

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// onTheWay says whether vertices of a type are never pools.
func onTheWay(kind string) bool {
	return kind == resource.TypeNode || kind == resource.TypeCluster
}

// holds says whether the slot already is what f says: as much of every type of
// pool, on the same node, and of the same vertices where f names them.
func (s *Slot) holds(f *match.Slot) bool {
	if s.node != f.Node {
		return false
	}
	had, have := make(map[string]tally), make(map[string]tally)
	for _, h := range s.shares {
		if !h.way {
			count(had, h.about.Type, h.amount)
		}
	}
	for i := range f.R.Vertices {
		h := &f.R.Vertices[i]
		path := h.Path
		if onTheWay(h.Type) || s.passes(h.Type, path) {
			continue
		}
		if tail := below(path, s.node); tail != "" && s.amount(h.Type, tail) != h.Amount {
			return false
		}
		count(have, h.Type, h.Amount)
	}
	return maps.Equal(had, have)
}

// count adds an amount to what there is of a type.
func count(sums map[string]tally, kind string, amount int64) {
	if amount > 0 {
		t := sums[kind]
		t.add(amount)
		sums[kind] = t
	}
}

// passes says whether the vertex with this path is one that the slot has on the
// way to what it holds.
func (s *Slot) passes(kind, path string) bool {
	return slices.ContainsFunc(s.shares, func(h share) bool {
		return h.way && h.about.Type == kind && h.about.Path == path
	})
}

// amount returns what the slot holds of the vertex at a path below its node.
func (s *Slot) amount(kind, tail string) int64 {
	for _, h := range s.shares {
		if h.about.Type == kind && below(h.about.Path, s.node) == tail {
			return h.amount
		}
	}
	return -1
}
