package resource

import (
	"maps"
	"slices"
	"strconv"
)

// JGF returns the graph in the form that ReadJGF reads. It keeps the order and
// leaves out defaults. It fails if Validate does. The text takes some 200 bytes
// per vertex, and Validate takes as much meanwhile. A JGFWriter takes neither.
func (g *Graph) JGF() ([]byte, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	const vertexSize, edgeSize = 160, 32 // about the size of each
	b := make([]byte, 0, len(g.Vertices)*vertexSize+len(g.Edges)*edgeSize)
	ids := numbering(len(g.Vertices), func(i int) int64 { return g.Vertices[i].UniqID })
	var share Share
	b = append(b, `{"graph":{"nodes":[`...)
	for i := range g.Vertices {
		if i > 0 {
			b = append(b, ',')
		}
		share.Vertex = g.Vertices[i]
		share.Amount, share.Exclusively = share.Size, share.Exclusive
		b = ids.appendNode(b, i, &share, extra{})
	}
	b = append(b, `],"edges":[`...)
	for i, e := range g.Edges {
		if i > 0 {
			b = append(b, ',')
		}
		b = ids.appendEdge(b, e)
	}
	return append(b, "]}}"...), nil
}

// A vertexIDs has the id of every vertex, to which edges refer. The id is
// the UniqID as in Fluxion if all are unique, and the index otherwise.
type vertexIDs struct {
	uniq   func(i int) int64
	unique bool
}

func numbering(n int, uniq func(i int) int64) vertexIDs {
	seen := make([]int64, n)
	for i := range seen {
		seen[i] = uniq(i)
	}
	slices.Sort(seen)
	return vertexIDs{uniq: uniq, unique: len(slices.Compact(seen)) == n}
}

func (ids vertexIDs) append(b []byte, i int) []byte {
	n := int64(i)
	if ids.unique {
		n = ids.uniq(i)
	}
	return append(strconv.AppendInt(append(b, '"'), n, 10), '"')
}

// appendNode writes a vertex with the keys of Fluxion, in the order
// of Fluxion. Only Fluence writes uniq_id, unit, status and fluence.
func (ids vertexIDs) appendNode(b []byte, i int, v *Share, x extra) []byte {
	b = ids.append(append(b, `{"id":`...), i)
	b = appendText(append(b, `,"metadata":{"type":`...), v.Type)
	if v.Basename != v.Type {
		b = appendText(append(b, `,"basename":`...), v.Basename)
	}
	if !v.defaultName() {
		b = appendText(append(b, `,"name":`...), v.Name)
	}
	b = strconv.AppendInt(append(b, `,"id":`...), v.ID, 10)
	if !ids.unique {
		b = strconv.AppendInt(append(b, `,"uniq_id":`...), v.UniqID, 10)
	}
	b = strconv.AppendInt(append(b, `,"rank":`...), v.Rank, 10)
	if len(v.Properties) > 0 {
		b = appendTexts(append(b, `,"properties":`...), v.Properties)
	}
	if v.Exclusively {
		b = append(b, `,"exclusive":true`...)
	}
	if v.Amount != 1 {
		b = strconv.AppendInt(append(b, `,"size":`...), v.Amount, 10)
	}
	if v.Unit != "" {
		b = appendText(append(b, `,"unit":`...), v.Unit)
	}
	if v.Status != Up {
		b = strconv.AppendInt(append(b, `,"status":`...), int64(v.Status), 10)
	}
	b = v.appendPaths(append(b, `,"paths":`...))
	if v.Label != "" {
		b = append(appendText(append(b, `,"ephemeral":{"label":`...), v.Label), '}')
	}
	return append(appendExtra(b, x), "}}"...)
}

func (v *Vertex) appendPaths(b []byte) []byte {
	if len(v.Paths) == 0 { // nearly always
		b = append(b, '{')
		if v.Path != "" {
			b = appendText(append(b, `"containment":`...), v.Path)
		}
		return append(b, '}')
	}
	paths := maps.Clone(v.Paths)
	if v.Path != "" {
		paths[Containment] = v.Path
	}
	return appendTexts(b, paths)
}

func appendExtra(b []byte, x extra) []byte {
	if !x.sized && !x.exclusive {
		return b
	}
	b = append(b, `,"fluence":{`...)
	if x.sized {
		b = strconv.AppendInt(append(b, `"size":`...), x.size, 10)
	}
	if x.exclusive {
		if x.sized {
			b = append(b, ',')
		}
		b = append(b, `"exclusive":true`...)
	}
	return append(b, '}')
}

func (ids vertexIDs) appendEdge(b []byte, e Edge) []byte {
	b = ids.append(append(b, `{"source":`...), e.Source)
	b = ids.append(append(b, `,"target":`...), e.Target)
	if e.Subsystem != Containment {
		b = appendText(append(b, `,"metadata":{"subsystem":`...), e.Subsystem)
		b = append(b, '}')
	}
	return append(b, '}')
}

// defaultName reports whether a reader would give the vertex its name by default.
func (v *Vertex) defaultName() bool {
	if len(v.Name) <= len(v.Basename) || v.Name[:len(v.Basename)] != v.Basename {
		return false
	}
	var digits [20]byte
	return v.Name[len(v.Basename):] == string(strconv.AppendInt(digits[:0], v.ID, 10))
}
