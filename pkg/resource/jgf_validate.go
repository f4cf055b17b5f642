package resource

import (
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// Validate returns an error, which names the vertices,
// if an engine could not load the graph. It fails for:
//
//	a vertex without a type, with a negative size or with an unknown status
//	a path that is no path
//	no root of containment, or two roots of one subsystem (a root has a path of one step)
//	two vertices with the same path and rank
//	an edge to a vertex that is not there
//	an edge without a subsystem
//	the same edge twice
//	two children of one vertex with the same UniqID
//	a text that is not UTF-8
func (g *Graph) Validate() error {
	for i := range g.Vertices {
		v := &g.Vertices[i]
		err := v.checkTexts()
		if err == nil {
			err = v.check()
		}
		if err != nil {
			return g.about(i, err)
		}
	}
	for i, e := range g.Edges {
		if !utf8.ValidString(e.Subsystem) {
			return fmt.Errorf("edge %d: %q is not a subsystem", i, e.Subsystem)
		}
	}
	if err := g.checkPlaces(); err != nil {
		return err
	}
	return g.checkEdges()
}

// checkPlaces fails unless there is exactly one root of containment, at most
// one root of every other subsystem, and at most one vertex at every place.
func (g *Graph) checkPlaces() error {
	roots := map[string]int{}
	places := make(map[place]int, len(g.Vertices))
	for i := range g.Vertices {
		v := &g.Vertices[i]
		for subsystem, path := range v.everyPath() {
			at := place{subsystem, path, v.Rank}
			if j, taken := places[at]; taken {
				return g.about(i, fmt.Errorf("has the %s path %q and the rank of vertex %d", subsystem, path, g.Vertices[j].UniqID))
			}
			places[at] = i
			if strings.LastIndexByte(path, '/') > 0 {
				continue
			}
			if j, taken := roots[subsystem]; taken {
				return g.about(i, fmt.Errorf("is a second root of %s, after vertex %d", subsystem, g.Vertices[j].UniqID))
			}
			roots[subsystem] = i
		}
	}
	if _, ok := roots[Containment]; !ok {
		return fmt.Errorf("graph has no root of %s", Containment)
	}
	return nil
}

// A place is the position of a vertex in a subsystem. Two vertices cannot have the same place.
type place struct {
	subsystem, path string
	rank            int64
}

// A bond identifies an edge by the UniqID of the child, which must be unique among siblings.
type bond struct {
	source    int
	uniq      int64
	subsystem string
}

func (g *Graph) checkEdges() error {
	bonds := make(map[bond]int, len(g.Edges))
	for i, e := range g.Edges {
		switch {
		case e.Source < 0 || e.Source >= len(g.Vertices):
			return fmt.Errorf("edge %d: no vertex with index %d", i, e.Source)
		case e.Target < 0 || e.Target >= len(g.Vertices):
			return fmt.Errorf("edge %d: no vertex with index %d", i, e.Target)
		case e.Subsystem == "":
			return fmt.Errorf("edge %d: %q is not a subsystem", i, e.Subsystem)
		}
		b := bond{e.Source, g.Vertices[e.Target].UniqID, e.Subsystem}
		j, taken := bonds[b]
		switch {
		case taken && g.Edges[j].Target == e.Target:
			return fmt.Errorf("edge %d: from vertex %d to %d, as edge %d", i, g.Vertices[e.Source].UniqID, b.uniq, j)
		case taken:
			return g.about(e.Source, fmt.Errorf("has two children with the uniq_id %d", b.uniq))
		}
		bonds[b] = i
	}
	return nil
}

// about adds the number and the path of a vertex to an error.
func (g *Graph) about(i int, err error) error {
	v := &g.Vertices[i]
	return fmt.Errorf("vertex %d (%s): %w", v.UniqID, v.Path, err)
}

// check checks a vertex by itself, whether it is in a graph or in a Set.
func (v *Vertex) check() error {
	switch {
	case v.Type == "":
		return fmt.Errorf("type is empty")
	case v.Size < 0:
		return fmt.Errorf("size: %d: less than 0", v.Size)
	case v.Paths[Containment] != "":
		return fmt.Errorf("paths: %s: %q must be in Path, not in Paths", Containment, v.Paths[Containment])
	case v.Status != Up && v.Status != Down:
		return fmt.Errorf("status: %d: must be 0 (up) or 1 (down)", v.Status)
	}
	for subsystem, path := range v.everyPath() {
		if !isPath(path) {
			return fmt.Errorf("paths: %s: %q is not a path", subsystem, path)
		}
	}
	return nil
}

func isPath(path string) bool { return len(path) >= 2 && path[0] == '/' }

// everyPath returns the paths of a vertex by subsystem. The path of containment comes first.
func (v *Vertex) everyPath() iter.Seq2[string, string] {
	return func(yield func(subsystem, path string) bool) {
		if v.Path != "" && !yield(Containment, v.Path) {
			return
		}
		for subsystem, path := range v.Paths {
			if !yield(subsystem, path) {
				return
			}
		}
	}
}

// checkTexts fails for a text that JSON cannot hold.
func (v *Vertex) checkTexts() error {
	for _, text := range [...]string{v.Type, v.Basename, v.Name, v.Unit, v.Path} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q: not UTF-8", text)
		}
	}
	for _, m := range [...]map[string]string{v.Properties, v.Paths} {
		for key, value := range m {
			if !utf8.ValidString(key) || !utf8.ValidString(value) {
				return fmt.Errorf("%q: %q: not UTF-8", key, value)
			}
		}
	}
	return nil
}
