package traverser

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// path returns the containment path of a vertex.
func (g *graph) path(u vid) string {
	if g.flags[u]&isOdd != 0 {
		return g.odd[u]
	}
	if g.parent[u] == none {
		return "/" + g.name(u)
	}
	return g.path(g.parent[u]) + "/" + g.name(u)
}

// maxKept is the longest path, in bytes, of a vertex whose children's paths are kept.
// With this limit, the kept paths take about as much memory as the names in them.
const maxKept = 256

// composed returns the parent's path and the vertex's name, which is the
// vertex's path unless the vertex is odd. Results name the same vertices
// often, so the first call for a vertex keeps the paths of all its siblings.
func (g *graph) composed(u vid) string {
	p := g.parent[u]
	if p == none {
		return "/" + g.name(u)
	}
	in := g.in(p)
	if in.ends == nil && !g.keepPaths(p, in) {
		return g.path(p) + "/" + g.name(u)
	}
	from, at := 0, g.position[u]
	if at > 0 {
		from = in.ends[at-1]
	}
	return in.text[from:in.ends[at]]
}

// keepPaths keeps the paths of the children of u. It returns false if they are too long.
func (g *graph) keepPaths(u vid, in *inner) bool {
	prefix := g.path(u)
	if len(prefix) > maxKept {
		return false
	}
	const name = 8 // about the size of a name
	text := make([]byte, 0, len(in.children)*(len(prefix)+name))
	ends := make([]int, len(in.children))
	for i, c := range in.children {
		text = append(text, prefix...)
		text = append(text, '/')
		text = append(text, g.name(c)...)
		ends[i] = len(text)
	}
	in.text, in.ends = string(text), ends
	return true
}

// anyRank means that the rank is not known.
const anyRank = math.MinInt64

// find returns the vertex with this containment path, or none. If there are several,
// it returns the one with the given rank, or the first if none has that rank.
func (g *graph) find(path string, rank int64) vid {
	if g.root == none || !strings.HasPrefix(path, "/") {
		return none
	}
	if first, rest, more := strings.Cut(path[1:], "/"); g.flags[g.root]&isOdd == 0 && first == g.name(g.root) {
		if !more {
			return g.root
		}
		if at := g.descend(g.root, rest, rank); at != none {
			return at
		}
	}
	return g.findOdd(path, rank)
}

// findOdd is find for vertices that are odd or below an odd vertex.
func (g *graph) findOdd(path string, rank int64) vid {
	if len(g.odd) == 0 {
		return none
	}
	if g.byPath == nil {
		g.byPath = make(map[string][]vid, len(g.odd))
		for _, u := range slices.Sorted(maps.Keys(g.odd)) {
			if g.attached(u) {
				g.byPath[g.odd[u]] = append(g.byPath[g.odd[u]], u)
			}
		}
	}
	if u := g.ofRank(g.byPath[path], rank); u != none {
		return u
	}
	for end := strings.LastIndexByte(path, '/'); end > 0; end = strings.LastIndexByte(path[:end], '/') {
		if u := g.ofRank(g.byPath[path[:end]], rank); u != none {
			if at := g.descend(u, path[end+1:], rank); at != none {
				return at
			}
		}
	}
	return none
}

// ofRank returns the first vertex of a list with this
// rank. If there is none, it returns the first vertex.
func (g *graph) ofRank(list []vid, rank int64) vid {
	for _, u := range list {
		if g.rank[u] == rank {
			return u
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return none
}

// descend follows the names in a path from u down.
func (g *graph) descend(u vid, path string, rank int64) vid {
	for more := true; more && u != none; {
		var name string
		name, path, more = strings.Cut(path, "/")
		u = g.childNamed(u, name, rank)
	}
	return u
}

// manyChildren is the number of children above which childNamed uses a map.
const manyChildren = 32

// childNamed returns the child with this name that is not odd, or none. If there are
// several, it returns the one with the given rank, or the first if none has that rank.
func (g *graph) childNamed(u vid, name string, rank int64) vid {
	in := g.in(u)
	if in == nil {
		return none
	}
	if len(in.children) > manyChildren {
		if in.byName == nil {
			g.index(in)
		}
		c, ok := in.byName[name]
		if !ok {
			return none
		}
		for _, twin := range in.twins {
			if g.rank[c] != rank && g.rank[twin] == rank && g.name(twin) == name {
				return twin
			}
		}
		return c
	}
	first := none
	for _, c := range in.children {
		if g.flags[c]&isOdd != 0 || g.name(c) != name {
			continue
		}
		if g.rank[c] == rank {
			return c
		}
		if first == none {
			first = c
		}
	}
	return first
}

// index makes byName and twins.
func (g *graph) index(in *inner) {
	in.byName, in.twins = make(map[string]vid, len(in.children)), nil
	for _, c := range in.children {
		if g.flags[c]&isOdd != 0 {
			continue
		}
		n := g.name(c)
		if _, twice := in.byName[n]; twice {
			in.twins = append(in.twins, c)
			continue
		}
		in.byName[n] = c
	}
}
