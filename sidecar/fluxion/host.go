package fluxion

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A level is a vertex above the nodes.
type level struct{ typeName, name string }

// A node is what the library's graph has of one node.
type libraryNode struct {
	// number names the node in the library, and is its id there: the policies go by
	// it.
	number int64
	// levels lead from the root to what the node stands in.
	levels []level
	up     bool
	rank   int64
	// properties are those of the node vertex; constraints see them and the name.
	properties map[string]string
	// units is how many there are, by type.
	units map[string]int64
}

// A host is a node's name: with the node while the graph has it, and with the
// slots that stand there in any case.
type host struct {
	name  string
	node  *libraryNode
	slots map[slotKey]*slot
	// others counts the slots that leave the rest of the node to others, holders
	// those of every holder of the whole node; shared slots count in neither.
	others  int
	holders map[string]int
	// rest is the library's job for all that slots without a job of their own hold
	// here, 0 for none, and charged what it books.
	rest    int64
	charged map[string]int64
}

// A slotKey names a slot across jobs.
type slotKey struct {
	job match.JobID
	key string
}

// A slot is what stands on a host.
type slot struct {
	slotKey
	holder string
	shared bool
	// amounts are exact, by type.
	amounts map[string]int64
	// own is the library's job for this slot alone, which books units; 0 where the
	// slot is booked with the rest of its host, or not at all for lack of room.
	own   int64
	units map[string]int64
	// order counts the slots as they came.
	order uint64
}

// readNode reads a graph that the book has taken as one of a node. A level's
// status is what the node put last says of it.
func (e *Engine) readNode(g *resource.Graph) (string, *libraryNode) {
	inner := make([]bool, len(g.Vertices))
	parents := make([]int, len(g.Vertices))
	for i := range parents {
		parents[i] = -1
	}
	for _, x := range g.Edges {
		if x.Subsystem == "" || x.Subsystem == resource.Containment {
			inner[x.Source], parents[x.Target] = true, x.Source
		}
	}
	n := &libraryNode{units: make(map[string]int64)}
	name, sizes := "", make(map[string]int64)
	for i := range g.Vertices {
		v := &g.Vertices[i]
		switch {
		case v.Type == resource.TypeNode:
			name, n.up, n.rank, n.properties = nameOf(v), v.Status == resource.Up, v.Rank, maps.Clone(v.Properties)
			var way []*resource.Vertex
			for p := parents[i]; p >= 0; p = parents[p] {
				way = append(way, &g.Vertices[p])
			}
			slices.Reverse(way)
			for _, above := range way {
				n.levels = append(n.levels, level{above.Type, nameOf(above)})
				e.levelUp[pathKey(n.levels)] = above.Status == resource.Up
			}
		case !inner[i] && v.Status == resource.Up:
			sizes[v.Type] = plus(sizes[v.Type], v.Size)
			e.granules.unit[v.Type] = v.Unit
		}
	}
	for kind, size := range sizes {
		if units := e.granules.down(kind, size); units > 0 {
			n.units[kind] = units
		}
	}
	return name, n
}

// nameOf returns the name of a vertex, which may be left to its basename.
func nameOf(v *resource.Vertex) string {
	if v.Name != "" {
		return v.Name
	}
	return cmp.Or(v.Basename, v.Type) + strconv.FormatInt(v.ID, 10)
}

// pathKey names the last of these levels by all that it stands in.
func pathKey(way []level) string {
	var b strings.Builder
	for _, l := range way {
		fmt.Fprintf(&b, "%q/%q ", l.typeName, l.name)
	}
	return b.String()
}

// usable says whether a node and all that it stands in are up.
func (e *Engine) usable(n *libraryNode) bool {
	if !n.up {
		return false
	}
	for i := range n.levels {
		if !e.levelUp[pathKey(n.levels[:i+1])] {
			return false
		}
	}
	return true
}

// sameLayout says whether the library's graph serves for both.
func sameLayout(a, b *libraryNode) bool {
	return slices.Equal(a.levels, b.levels) && maps.Equal(a.units, b.units)
}

// free returns how many units of a type no job of the library holds.
func (h *host) free(kind string) int64 {
	n := h.node.units[kind] - h.charged[kind]
	for _, s := range h.slots {
		n -= s.units[kind]
	}
	return n
}

// add has a slot stand on the host.
func (h *host) add(s *slot) {
	h.slots[s.slotKey] = s
	h.count(s, 1)
}

// drop takes a slot off the host.
func (h *host) drop(s *slot) {
	delete(h.slots, s.slotKey)
	h.count(s, -1)
}

// count counts a slot as one more or less of its holder's.
func (h *host) count(s *slot, n int) {
	switch {
	case s.shared:
	case s.holder == "":
		h.others += n
	default:
		if h.holders[s.holder] += n; h.holders[s.holder] == 0 {
			delete(h.holders, s.holder)
		}
	}
}

// shares says whether something stands on the host that runs on every node.
func (h *host) shares() bool {
	for _, s := range h.slots {
		if s.shared {
			return true
		}
	}
	return false
}

// open says whether a holder may be given something on the host, and with whole
// the host as a whole.
func (h *host) open(holder string, whole bool) bool {
	for other := range h.holders {
		if other != holder {
			return false
		}
	}
	return !whole || h.others == 0
}
