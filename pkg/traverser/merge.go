package traverser

import (
	"fmt"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/planner"
)

// A merger adds one graph to another.
type merger struct {
	g, part *graph
	to      []vid // by vertex of the part: its vid in the graph; none for a new one
}

// match sets to for the vertex u of the part, which is the
// vertex at of the graph, and for all vertices below u.
func (m *merger) match(u, at vid) error {
	g, part := m.g, m.part
	if g.types[g.typ[at]] != part.types[part.typ[u]] || g.rank[at] != part.rank[u] || g.name(at) != part.name(u) ||
		g.odd[at] != part.odd[u] {
		return fmt.Errorf("vertex %d (%s): type %s and rank %d, in the graph it is %s, a %s of rank %d",
			part.uniq[u], part.path(u), part.types[part.typ[u]], part.rank[u], g.path(at), g.types[g.typ[at]], g.rank[at])
	}
	m.to[u] = at
	in := part.in(u)
	if in == nil {
		return nil
	}
	var numbers map[int64]vid
	for _, c := range in.children {
		if there := m.child(at, c); there != none {
			if err := m.match(c, there); err != nil {
				return err
			}
			continue
		}
		if numbers == nil {
			numbers = g.numbers(at)
		}
		if sibling, taken := numbers[part.uniq[c]]; taken {
			return fmt.Errorf("vertex %d (%s): its uniq_id is that of %s", part.uniq[c], part.path(c), g.path(sibling))
		}
	}
	return nil
}

// numbers returns the children of a vertex by UniqID.
func (g *graph) numbers(u vid) map[int64]vid {
	numbers := make(map[int64]vid)
	if in := g.in(u); in != nil {
		for _, c := range in.children {
			numbers[g.uniq[c]] = c
		}
	}
	return numbers
}

// checkTotal fails if the graph would become too large.
func (m *merger) checkTotal() error {
	total := m.g.total
	for u, at := range m.to {
		if at != none || !m.part.attached(vid(u)) { //nolint:gosec // fewer than maxVertices
			continue
		}
		size := m.part.size[u]
		if size > maxTotal-total {
			return fmt.Errorf("vertex %d: size: %d: beside the others more than %d", m.part.uniq[u], size, int64(maxTotal))
		}
		total += size
	}
	return nil
}

// child returns the child of at that is the part's vertex c, or none.
func (m *merger) child(at, c vid) vid {
	if m.part.flags[c]&isOdd == 0 {
		return m.g.childNamed(at, m.part.name(c), m.part.rank[c])
	}
	if there := m.g.find(m.part.odd[c], m.part.rank[c]); there != none && m.g.parent[there] == at {
		return there
	}
	return none
}

// apply adds the vertices and edges that are new.
func (m *merger) apply() {
	g, part := m.g, m.part
	for u := range vid(len(part.typ)) { //nolint:gosec // fewer than maxVertices
		if part.attached(u) && m.to[u] == none {
			m.to[u] = m.copy(u)
		}
	}
	for u := range vid(len(part.typ)) { //nolint:gosec // fewer than maxVertices
		in := part.in(u)
		if in == nil || !part.attached(u) {
			continue
		}
		at := m.to[u]
		if g.inside[at] < 0 {
			g.inside[at] = int32(len(g.inner)) //nolint:gosec // fewer than vertices
			g.inner = append(g.inner, &inner{weight: math.MaxUint64, back: m.types(in.back)})
			g.flags[at] |= hasEdges
		}
		to := g.in(at)
		to.children = slices.Clip(to.children) // may share memory with other lists
		for _, c := range in.children {
			if n := m.to[c]; g.parent[n] == none && n != g.root {
				g.parent[n] = at
				g.position[n] = int32(len(to.children)) //nolint:gosec // fewer than vertices
				to.children = append(to.children, n)
			}
		}
	}
}

func (m *merger) types(of []typeID) []typeID {
	var list []typeID
	for _, t := range of {
		list = append(list, m.g.typeOf(m.part.types[t]))
	}
	return list
}

// copy appends a vertex of the part to the graph, without a parent. It returns its vid.
func (m *merger) copy(u vid) vid {
	g, part := m.g, m.part
	n := vid(len(g.typ))                                             //nolint:gosec // fewer than maxVertices
	g.typ = append(g.typ, uint16(g.typeOf(part.types[part.typ[u]]))) //nolint:gosec // few types
	g.flags = append(g.flags, part.flags[u]&^isBooked)
	g.parent, g.position, g.inside = append(g.parent, none), append(g.position, 0), append(g.inside, -1)
	g.id, g.uniq = append(g.id, part.id[u]), append(g.uniq, part.uniq[u])
	g.rank, g.size = append(g.rank, part.rank[u]), append(g.size, part.size[u])
	g.plans = append(g.plans, planner.Plan{})
	move(g.basenames, part.basenames, n, u)
	move(g.names, part.names, n, u)
	move(g.units, part.units, n, u)
	move(g.exclusive, part.exclusive, n, u)
	move(g.properties, part.properties, n, u)
	move(g.odd, part.odd, n, u)
	move(g.paths, part.paths, n, u)
	move(g.labels, part.labels, n, u)
	g.count++
	g.total += part.size[u]
	return n
}

func move[V any](to, from map[vid]V, n, u vid) {
	if v, ok := from[u]; ok {
		to[n] = v
	}
}
