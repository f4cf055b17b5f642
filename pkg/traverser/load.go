package traverser

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// maxVertices bounds a graph: a vid has 31 bits.
const maxVertices = math.MaxInt32 - 1

// maxTotal bounds the sizes of all vertices together: sums of what is booked stay
// numbers, though all of it were booked a hundred times.
const maxTotal = math.MaxInt64 >> 8

// maxTypes bounds the types of a graph: what is counted type by type stays cheap.
const maxTypes = 1 << 10

// maxDepth bounds the levels of a graph.
const maxDepth = 128

// A loading is a graph that is being read.
type loading struct {
	g graph
	// way has the containment path of every vertex, by the order of the text; empty
	// for one that stands in other subsystems alone.
	way      []string
	from, to []vid // the edges of containment
	scratch  []byte
}

// read returns the graph that a text describes. Vertices that containment does not
// reach from the root are kept, and not walked; so are edges to a vertex that
// already stands in another.
func read(jgf []byte) (*graph, error) {
	l := loading{g: newGraph()}
	if err := resource.WalkJGF(jgf, l.vertex, l.edge); err != nil {
		return nil, err
	}
	if l.g.root == none {
		return nil, errNoRoot
	}
	if err := l.hang(); err != nil {
		return nil, err
	}
	return &l.g, nil
}

func (l *loading) vertex(v *resource.Vertex) error {
	g := &l.g
	u := vid(len(g.typ))
	if len(g.typ) >= maxVertices {
		return fmt.Errorf("more than %d vertices", maxVertices)
	}
	typ := g.typeOf(v.Type)
	if typ >= maxTypes {
		return fmt.Errorf("type: %q: more than %d types", v.Type, maxTypes)
	}
	if v.Size > maxTotal-g.total {
		return fmt.Errorf("size: %d: beside the others more than %d", v.Size, int64(maxTotal))
	}
	g.total += v.Size
	path := v.Path
	if path != "" && strings.LastIndexByte(path, '/') == 0 {
		if g.root != none {
			return fmt.Errorf("is a second root of %s, after vertex %d", resource.Containment, g.uniq[g.root])
		}
		g.root = u
	}
	g.typ = append(g.typ, uint16(typ)) //nolint:gosec // bounded above
	g.id = append(g.id, v.ID)
	g.uniq = append(g.uniq, v.UniqID)
	g.rank = append(g.rank, v.Rank)
	g.size = append(g.size, v.Size)
	flags := uint8(0)
	if v.Status == resource.Down {
		flags = isDown
	}
	g.flags = append(g.flags, flags)
	l.way = append(l.way, path)
	l.keepRare(u, v)
	return nil
}

// keepRare keeps what few vertices have.
func (l *loading) keepRare(u vid, v *resource.Vertex) {
	g := &l.g
	if v.Basename != v.Type {
		g.basenames[u] = v.Basename
	}
	if v.Name != string(l.defaultName(v)) {
		g.names[u] = v.Name
	}
	if v.Unit != "" {
		g.units[u] = v.Unit
	}
	if v.Exclusive {
		g.exclusive[u] = true
	}
	if len(v.Properties) > 0 {
		g.properties[u] = maps.Clone(v.Properties)
	}
	if len(v.Paths) > 0 {
		g.paths[u] = maps.Clone(v.Paths)
	}
}

// defaultName returns the name of a vertex that says none.
func (l *loading) defaultName(v *resource.Vertex) []byte {
	l.scratch = strconv.AppendInt(append(l.scratch[:0], v.Basename...), v.ID, 10)
	return l.scratch
}

func (l *loading) edge(e resource.Edge) error {
	if e.Subsystem != resource.Containment {
		l.g.aside = append(l.g.aside, aside{vid(e.Source), vid(e.Target), e.Subsystem}) //nolint:gosec // fewer than maxVertices
		return nil
	}
	l.from, l.to = append(l.from, vid(e.Source)), append(l.to, vid(e.Target)) //nolint:gosec // fewer than maxVertices
	return nil
}
