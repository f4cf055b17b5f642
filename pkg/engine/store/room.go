package store

import (
	"encoding/binary"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// A Room finds the nodes that may have room for the slots of one request. It implements solver.Room.
type Room struct {
	columns *columns
	blocks  *blockIndex
	// reversed is set if the request takes the nodes from the last to the first.
	reversed bool
	who      solver.Requester
	// all has the columns of all needs. first has by need
	// the index of its first column, and then the number of columns.
	all   []roomColumn
	first []int
	// profiles has the profiles of the shapes that were asked for. It is nil before its first use.
	profiles map[roomKey]*profile
}

// A roomColumn is a column and its largest amounts.
type roomColumn struct {
	*column
	maxima *blockMaxima
}

// A roomKey identifies the profile of a shape in a set of nodes.
type roomKey struct {
	shape *solver.Shape
	set   nodeSet
}

// Room returns the room for a request's needs, in the order of its policy.
func (g *Graph) Room(policy string, needs []solver.Need, who solver.Requester) *Room {
	r := &Room{columns: &g.columns, who: who, all: make([]roomColumn, 0, len(needs)), first: make([]int, 0, len(needs)+1)}
	r.blocks, r.reversed = g.blocksOf(policy)
	for k := range needs {
		r.first = append(r.first, len(r.all))
		for _, c := range g.columns.byType[needs[k].Type] {
			if slices.Contains(needs[k].Columns, &c.Column) {
				r.all = append(r.all, roomColumn{c, r.blocks.maximaOf(c)})
			}
		}
	}
	r.first = append(r.first, len(r.all))
	return r
}

// of returns the columns of a need.
func (r *Room) of(k int) []roomColumn { return r.all[r.first[k]:r.first[k+1]] }

// The costs in steps of passing over a block: by its maxima, for each need, and node by node. A
// match pays the second cost also if a profile saves the work, so that its steps do not depend on
// earlier matches.
const (
	maximaSteps = 1
	scanSteps   = blockNodes / 4
)

// Next implements solver.Room.
func (r *Room) Next(v solver.View, s *solver.Shape, i, end int) (next, steps int) {
	set, ok := r.set(v)
	if !ok {
		return i, 0
	}
	var p *profile
	for i < end {
		block, rest := r.block(i)
		if steps += maximaSteps * len(s.NeedsInOrder); !r.mayHave(block, s, set) {
			i += rest
			continue
		}
		if p == nil {
			p = r.profile(s, set)
		}
		steps += scanSteps
		if p.full[block] != r.blocks.changed[block] {
			if at := r.scan(s, set, i, rest); at < i+rest {
				return min(at, end), steps
			}
			if rest == blockNodes {
				p.full[block] = r.blocks.changed[block]
			}
		}
		i += rest
	}
	return end, steps
}

// set returns the set of the nodes that the requester may use in a view. It returns false if no set
// has all of them: if a node of the requester's own holder is not open, the requester may use it.
func (r *Room) set(v solver.View) (set nodeSet, ok bool) {
	switch {
	case v.Empty:
		return allNodes, true
	case !v.Up || r.who.Holder != "" && r.columns.holders[r.who.Holder] > 0:
		return 0, false
	case r.who.Exclusive:
		return emptyNodes, true
	}
	return openNodes, true
}

// block returns the block of the node with index i, and the number of
// nodes of the block from there on.
func (r *Room) block(i int) (block, rest int) {
	nodes := len(r.columns.up)
	if r.reversed {
		last := nodes - 1 - i
		return last / blockNodes, last%blockNodes + 1
	}
	return i / blockNodes, min(blockNodes-i%blockNodes, nodes-i)
}

// mayHave reports whether the maxima of a block are large enough for a slot of the shape.
func (r *Room) mayHave(block int, s *solver.Shape, set nodeSet) bool {
	for _, k := range s.NeedsInOrder {
		enough := false
		for _, c := range r.of(k) {
			if c.maxima.computed[block] != r.blocks.changed[block] {
				r.blocks.compute(r.columns, c.column, c.maxima, block)
			}
			enough = enough || c.maxima.max[block][set] >= s.AmountPerSlot[k]
		}
		if !enough {
			return false
		}
	}
	return true
}

// scan returns the first of n nodes, from index i on, that is in the set and has the amounts of a
// slot. It returns i+n if there is none.
func (r *Room) scan(s *solver.Shape, set nodeSet, i, n int) int {
	for end := i + n; i < end; i++ {
		at := i
		if r.reversed {
			at = len(r.columns.up) - 1 - i
		}
		at = r.blocks.at(at)
		if r.has(s, set, at) && r.columns.isIn(set, at) {
			return i
		}
	}
	return i
}

// has reports whether the node at a position has the amounts of a slot.
func (r *Room) has(s *solver.Shape, set nodeSet, at int) bool {
	for _, k := range s.NeedsInOrder {
		enough := false
		for _, c := range r.of(k) {
			amounts := c.Free
			if set == allNodes {
				amounts = c.Capacity
			}
			enough = enough || amounts[at] >= s.AmountPerSlot[k]
		}
		if !enough {
			return false
		}
	}
	return true
}

// isIn reports whether the node at a position is in a set.
func (c *columns) isIn(set nodeSet, at int) bool {
	if set == allNodes {
		return true
	}
	x := &c.exclusive[at]
	return c.up[at] && x.Holders == 0 && (set != emptyNodes || x.WithoutHolder == 0)
}

// profile returns the profile of a shape in a set of nodes.
func (r *Room) profile(s *solver.Shape, set nodeSet) *profile {
	key := roomKey{s, set}
	p := r.profiles[key]
	if p == nil {
		text := []byte{byte(set)}
		for _, k := range s.NeedsInOrder {
			for _, c := range r.of(k) {
				text = binary.AppendUvarint(text, c.number)
			}
			text = binary.AppendUvarint(append(text, 0), uint64(s.AmountPerSlot[k]))
		}
		p = r.blocks.profileOf(text)
		if r.profiles == nil {
			r.profiles = make(map[roomKey]*profile)
		}
		r.profiles[key] = p
	}
	return p
}
