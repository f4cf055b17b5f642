package fluxion

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// Release 0.54.0 of flux-sched has one table of type names for the whole process. The first graph
// that a process loads closes the table, and a later graph with a further name does not load. So
// types get their names from a fixed supply, and the first graph names the whole supply in its
// filters (see probeOptions). Later releases need no supply and accept it.

// ownNames are the types with a name of their own in the library.
var ownNames = map[string]string{
	"core": "core", "gpu": "gpu", "memory": "memory", "pods": "pods",
	"ephemeral-storage": "ephemeral_storage", "nvidia.com/gpu": "nvidia_com_gpu",
}

const (
	// maxTypes is the number of names for all other types of one process.
	maxTypes = 64
	// maxLevels bounds the levels between the cluster and a node.
	maxLevels = 22
)

// neutralName returns the nth name for types without an own name. It does not end in a digit: a
// vertex is named after its type and number, so "type1" with number 2 would have the name of "type"
// with number 12.
func neutralName(n int) string { return fmt.Sprintf("type%02d_", n) }

// levelName returns the name of the type of a level. The cluster has depth 0.
func levelName(depth int) string { return levelType + strconv.Itoa(depth+1) }

// suppliedNames returns all names that a graph may use for types, without the types cluster and node.
func suppliedNames() []string {
	names := slices.Sorted(maps.Values(ownNames))
	for n := range maxTypes {
		names = append(names, neutralName(n))
	}
	for depth := 1; depth <= maxLevels; depth++ {
		names = append(names, levelName(depth))
	}
	return names
}

// typeNames has the names that types have in the library, by type. A name stays with its type until
// the process ends.
type typeNames map[string]string

func newTypeNames() typeNames { return maps.Clone(ownNames) }

// add gives a type a name if it has none. There must be a name left.
func (t typeNames) add(poolType string) {
	if _, ok := t[poolType]; !ok {
		t[poolType] = neutralName(len(t) - len(ownNames))
	}
}

// check fails if nodes need more names, or have more levels, than there are. It accepts malformed
// graphs.
func (t typeNames) check(nodes []*resource.Graph) error {
	wanted := maps.Clone(t)
	for i, g := range nodes {
		if g == nil {
			continue
		}
		types, levels, name := outline(g)
		if levels > maxLevels {
			return invalid("put node %d of %d: %q: %d levels above the node: at most %d have names in Fluxion's library", i+1, len(nodes), name, levels, maxLevels)
		}
		for _, poolType := range types {
			if wanted.add(poolType); len(wanted)-len(ownNames) > maxTypes {
				return invalid("put node %d of %d: %q: type %q: Fluxion's library has names for %d types besides %s in one process, and all are taken",
					i+1, len(nodes), name, poolType, maxTypes, strings.Join(slices.Sorted(maps.Keys(ownNames)), ", "))
			}
		}
	}
	return nil
}

// outline returns the sorted types of the pools below a node, the number of levels between the
// cluster and the node, and the node's name.
func outline(g *resource.Graph) (types []string, levels int, name string) {
	parents := make(map[int]int, len(g.Edges))
	inner := make(map[int]bool, len(g.Edges))
	for _, x := range g.Edges {
		if x.Subsystem == "" || x.Subsystem == resource.Containment {
			inner[x.Source], parents[x.Target] = true, x.Source
		}
	}
	seen := make(map[string]bool)
	for i := range g.Vertices {
		switch v := &g.Vertices[i]; {
		case v.Type == resource.TypeNode:
			name, levels = nameOf(v), -1
			// The bound ends the walk over a malformed graph with a cycle.
			for p, ok := parents[i]; ok && levels <= len(g.Vertices); p, ok = parents[p] {
				levels++
			}
		case !inner[i] && needsName(v):
			seen[v.Type] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), max(0, levels), name
}

// needsName reports whether the type of a pool needs a name. A pool without room has no vertices in
// the library's graph.
func needsName(pool *resource.Vertex) bool { return pool.Status == resource.Up && pool.Size > 0 }
