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

// A libraryNode is one node as the library's graph has it.
type libraryNode struct {
	// number is the number of the node in the library, and its id there. The policies order by it.
	number int64
	// levels are the vertices from the root to the node's parent.
	levels []level
	up     bool
	rank   int64
	// properties are the properties of the node vertex. Constraints see them and the name.
	properties map[string]string
	// units is the number of units, by type.
	units map[string]int64
}

// A host is the name of a node with its slots. node is nil while
// the graph has no such node. The slots are kept even then.
type host struct {
	name  string
	node  *libraryNode
	slots map[slotKey]*slot
	// others is the number of slots without a holder. Shared slots do not count.
	others int
	// holders is the number of slots of each holder of the whole node. Shared slots do not count.
	holders map[string]int
	// inGraph is true while the library's graph shows the node as it is. Its slots may have to be
	// booked still: see session.unbooked.
	inGraph bool
	// path is the path of the node's vertex in that graph.
	path string
	// restJob is the library's job for all slots here without a separate job. It is 0 if there is
	// none.
	restJob int64
	// restUnits are the units that restJob holds, by type.
	restUnits map[string]int64
}

// A slotKey identifies a slot among all jobs.
type slotKey struct {
	job match.JobID
	key string
}

// A slot is a slot on a host.
type slot struct {
	slotKey
	holder string
	shared bool
	// amounts are exact, by type.
	amounts map[string]int64
	// ownJob is the library's job for this slot alone. It is 0 if the slot is booked in the rest
	// job of its host, or not booked because there is no room. It is not 0 only on hosts in the graph.
	ownJob int64
	// units are the units that ownJob holds, by type. They are nil without ownJob.
	units map[string]int64
}

// readNode reads the graph of one node, which the shadow has accepted. If
// nodes differ in the status of a level, the node that was put last counts.
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
			if needsName(v) {
				e.granules.names.add(v.Type)
			}
			e.granules.measure[v.Type] = v.Unit
		}
	}
	for poolType, size := range sizes {
		if units := e.granules.roundDown(poolType, size); units > 0 {
			n.units[poolType] = units
		}
	}
	return name, n
}

// nameOf returns the name of a vertex. If it is empty it is made from the basename and the id.
func nameOf(v *resource.Vertex) string {
	if v.Name != "" {
		return v.Name
	}
	return cmp.Or(v.Basename, v.Type) + strconv.FormatInt(v.ID, 10)
}

// pathKey returns a unique key for the last of these levels.
func pathKey(way []level) string {
	var b strings.Builder
	for _, l := range way {
		fmt.Fprintf(&b, "%q/%q ", l.typeName, l.name)
	}
	return b.String()
}

// usable reports whether a node and all levels above it are up.
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

// sameLayout reports whether two nodes look the same in the library's graph.
func sameLayout(a, b *libraryNode) bool {
	return slices.Equal(a.levels, b.levels) && maps.Equal(a.units, b.units)
}

// covers reports whether have is at least want in every type of want.
func covers(have, want map[string]int64) bool {
	for poolType, n := range want {
		if have[poolType] < n {
			return false
		}
	}
	return true
}

// free returns the number of units of a type that no job of the library holds.
func (h *host) free(poolType string) int64 {
	n := h.node.units[poolType] - h.restUnits[poolType]
	for _, s := range h.slots {
		n -= s.units[poolType]
	}
	return n
}

// add adds a slot to the host.
func (h *host) add(s *slot) {
	h.slots[s.slotKey] = s
	h.count(s, 1)
}

// drop removes a slot from the host.
func (h *host) drop(s *slot) {
	delete(h.slots, s.slotKey)
	h.count(s, -1)
}

// count adds n to the count to which a slot belongs.
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

// shares reports whether a slot here is shared.
func (h *host) shares() bool {
	for _, s := range h.slots {
		if s.shared {
			return true
		}
	}
	return false
}

// allowsHolder reports whether a slot of this holder may go on the host. With whole it reports
// whether the holder may have the whole host.
func (h *host) allowsHolder(holder string, whole bool) bool {
	for other := range h.holders {
		if other != holder {
			return false
		}
	}
	return !whole || h.others == 0
}
