package traverser

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// maxVertices is the largest number of vertices, because a vid has 31 bits.
const maxVertices = math.MaxInt32 - 1

// maxTotal is the largest sum of the sizes of all vertices. It leaves room for sums
// of bookings: even if all were booked a hundred times, the sums would not overflow.
const maxTotal = math.MaxInt64 >> 8

// maxTypes is the largest number of types. It keeps tables with an entry per type small.
const maxTypes = 1 << 10

// maxDepth is the largest number of levels of a graph.
const maxDepth = 128

// A loading is a graph that is being read.
type loading struct {
	g graph
	// way has the containment path of every vertex, in the order of the
	// text. It is empty for a vertex that is only in other subsystems.
	way      []string
	from, to []vid // the ends of the containment edges
	scratch  []byte
}

// read returns the graph of a JGF text. It keeps vertices that containment does not reach from the
// root, but does not walk them. The same holds for an edge to a vertex that already has a parent.
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

// keepRare keeps the fields that few vertices have.
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

// defaultName returns the name that a vertex has by default.
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
