package store

import (
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// A nodeGraph is the graph of one node, checked and copied: the vertices above the node, the node,
// and the vertices below it.
type nodeGraph struct {
	ancestors   []*resource.Vertex // the root first
	node        *resource.Vertex
	descendants []descendant // parents before their children
}

// A descendant is a vertex below the node.
type descendant struct {
	res *resource.Vertex
	// parent is an index into descendants, or -1 for the node.
	parent int
}

// readNodeGraph copies the graph of one node. It fails with match.ErrInvalid if the graph is not a
// tree of one root, one node below the root, and the node's pools.
func readNodeGraph(g *resource.Graph) (*nodeGraph, error) {
	if g == nil {
		return nil, invalid("the node has no graph")
	}
	at, err := findNode(g)
	if err != nil {
		return nil, err
	}
	parents, err := parentsOf(g)
	if err != nil {
		return nil, err
	}
	pathToRoot := []int{at}
	for p := parents[at]; p >= 0; p = parents[p] {
		if len(pathToRoot) == len(g.Vertices) {
			return nil, invalid("node %q: the edges form a cycle", g.Vertices[at].Name)
		}
		pathToRoot = append(pathToRoot, p)
	}
	if len(pathToRoot) == 1 {
		return nil, invalid("node %q has no parent: a node must be below a root vertex", g.Vertices[at].Name)
	}
	s := &nodeGraph{}
	path := ""
	for i, w := range slices.Backward(pathToRoot) {
		v, err := readVertex(&g.Vertices[w], path)
		if err != nil {
			return nil, err
		}
		path = v.Path
		if i > 0 {
			s.ancestors = append(s.ancestors, v)
		} else {
			s.node = v
		}
	}
	if err := s.readDescendants(g, parents, at); err != nil {
		return nil, err
	}
	if n := len(s.ancestors) + 1 + len(s.descendants); n < len(g.Vertices) {
		return nil, invalid("node %q: %d vertices are neither above nor below it", s.node.Name, len(g.Vertices)-n)
	}
	return s, nil
}

// findNode returns the index of the vertex of type node. It fails if there is not exactly one.
func findNode(g *resource.Graph) (int, error) {
	at := -1
	for i := range g.Vertices {
		if g.Vertices[i].Type != resource.TypeNode {
			continue
		}
		if at >= 0 {
			return -1, invalid("the graph has more than one node: %q and %q", g.Vertices[at].Name, g.Vertices[i].Name)
		}
		at = i
	}
	if at < 0 {
		return -1, invalid("the graph has no vertex of type %s", resource.TypeNode)
	}
	return at, nil
}

// parentsOf returns for each vertex the index of its container, or -1 if there is none.
func parentsOf(g *resource.Graph) ([]int, error) {
	parents := make([]int, len(g.Vertices))
	for i := range parents {
		parents[i] = -1
	}
	for _, e := range g.Edges {
		if e.Subsystem != "" && e.Subsystem != resource.Containment {
			continue
		}
		if e.Source < 0 || e.Source >= len(parents) || e.Target < 0 || e.Target >= len(parents) {
			return nil, invalid("edge from vertex %d to vertex %d: the graph has only %d vertices", e.Source, e.Target, len(parents))
		}
		if parents[e.Target] >= 0 {
			return nil, invalid("vertex %q has two parents", g.Vertices[e.Target].Name)
		}
		parents[e.Target] = e.Source
	}
	return parents, nil
}

// readDescendants copies the vertices below the node, level by level.
func (s *nodeGraph) readDescendants(g *resource.Graph, parents []int, node int) error {
	children := make([][]int, len(g.Vertices))
	for i, p := range parents {
		if p >= 0 {
			children[p] = append(children[p], i)
		}
	}
	seen := make(map[string]bool)
	type step struct{ vertex, branch int }
	for queue := []step{{node, -1}}; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		path := s.node.Path
		if from.branch >= 0 {
			path = s.descendants[from.branch].res.Path
		}
		for _, c := range children[from.vertex] {
			v, err := readVertex(&g.Vertices[c], path)
			if err != nil {
				return err
			}
			if p := v.Path; seen[p] {
				return invalid("node %q: two vertices have the path %s", s.node.Name, p)
			}
			seen[v.Path] = true
			queue = append(queue, step{c, len(s.descendants)})
			s.descendants = append(s.descendants, descendant{res: v, parent: from.branch})
		}
	}
	return s.checkUnits()
}

// checkUnits fails if leaves of one type have different units, because these cannot be added up.
func (s *nodeGraph) checkUnits() error {
	units := make(map[string]string)
	inner := make(map[int]bool)
	for _, b := range s.descendants {
		inner[b.parent] = true
	}
	for i, b := range s.descendants {
		if inner[i] {
			continue
		}
		if u, ok := units[b.res.Type]; ok && u != b.res.Unit {
			return invalid("node %q: %s has two units, %q and %q", s.node.Name, b.res.Type, u, b.res.Unit)
		}
		units[b.res.Type] = b.res.Unit
	}
	return nil
}

// readVertex copies a vertex. parent is the path of its container, "" for the root. Names and the
// path are filled in if they are missing.
func readVertex(from *resource.Vertex, parent string) (*resource.Vertex, error) {
	v := cloneVertex(from)
	if v.Type == "" {
		return nil, invalid("vertex %q below %q has no type", v.Name, parent)
	}
	if v.Basename == "" {
		v.Basename = v.Type
	}
	if v.Name == "" {
		v.Name = v.Basename + strconv.FormatInt(v.ID, 10)
	}
	if v.Size < 0 {
		return nil, invalid("vertex %q below %q: size must be at least 0, is %d", v.Name, parent, v.Size)
	}
	if v.Status != resource.Up && v.Status != resource.Down {
		return nil, invalid("vertex %q below %q: unknown status %d", v.Name, parent, v.Status)
	}
	path := v.Path
	switch {
	case path == "":
		v.Path = parent + "/" + v.Name
	case !strings.HasPrefix(path, parent+"/") || len(path) == len(parent)+1:
		return nil, invalid("vertex %q has the path %s, which is not below %q", v.Name, path, parent)
	}
	return &v, nil
}
