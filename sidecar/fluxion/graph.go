package fluxion

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Names of vertices in the library's graph.
const (
	nodeBasename = "n"
	levelType    = "level"
	clusterName  = "cluster0"
)

// nodeStride separates the numbers of nodes and of their units. Fluxion's policies order by ids.
// Some order by the ids of units, so the ids of units follow the number of their node. Other
// policies compare the ids of the nodes first, combined with the uniq_id of the node modulo
// nodeStride. So the uniq_ids of all nodes have the same remainder.
const nodeStride = 10000

// growRoom is the number of nodes for which there are lower numbers, where numbers fall from node to
// node and the graph may grow.
const growRoom = 1 << 16

// A drawing draws the library's graph, and later parts of it with the same numbers for the same
// vertices.
type drawing struct {
	root   int64 // its uniq_id
	levels map[string]drawnLevel
	// uniq is the last uniq_id that was given to a vertex.
	uniq int64
	// descending is true under the policy first, which begins with the highest number.
	// Then the numbers and the ids of units fall from node to node. Otherwise they rise.
	descending bool
	// units is the id of the first unit of the node before, if ids fall.
	units int64
}

// A drawnLevel has the numbers of a level.
type drawnLevel struct{ id, uniq int64 }

// A drawnNode is a node as it is drawn in the library's graph.
type drawnNode struct {
	name string
	node *libraryNode
	need []unitCount
	// path is the path of the node's vertex, once it is drawn.
	path string
}

// newDrawing returns a drawing that begins with these nodes. If it may grow, there is room for the
// numbers of further nodes.
func newDrawing(policyName string, nodes []drawnNode, mayGrow bool) *drawing {
	policy, _ := match.PolicyOf(policyName)
	d := &drawing{levels: make(map[string]drawnLevel), descending: policy.Order == match.DepthFirst}
	if d.descending {
		d.uniq, d.units = 2, int64(len(nodes)+1)*nodeStride
		for _, x := range nodes {
			d.uniq += 1 + int64(len(x.node.levels))
			for _, units := range x.node.units {
				d.uniq += units
			}
		}
		if mayGrow {
			d.uniq += 1 << 40
			d.units += growRoom * nodeStride
		}
	}
	d.root = d.next()
	return d
}

// draw returns a graph of these nodes in JGF: the cluster, the levels above the nodes, the nodes in
// this order, and one vertex for each unit below its node. It sets the paths of the nodes.
func (d *drawing) draw(nodes []drawnNode) (string, error) {
	var g resource.Graph
	at := make(map[string]int)
	root := addVertex(&g, -1, resource.TypeCluster, resource.TypeCluster, 0, d.root)
	for i := range nodes {
		x, parent := &nodes[i], root
		for depth := 1; depth < len(x.node.levels); depth++ {
			key := pathKey(x.node.levels[:depth+1])
			if _, there := at[key]; !there {
				l := d.level(key)
				at[key] = addVertex(&g, parent, levelName(depth), levelName(depth), l.id, l.uniq)
			}
			parent = at[key]
		}
		uniq, units := x.node.number*nodeStride+1, x.node.number*nodeStride
		if d.descending {
			d.units -= nodeStride
			uniq, units = d.next(), d.units
			if units <= 0 {
				return "", errNoNumbers
			}
		}
		k := addVertex(&g, parent, resource.TypeNode, nodeBasename, x.node.number, uniq)
		g.Vertices[k].Rank, x.path = x.node.number, g.Vertices[k].Path
		for _, a := range x.need {
			for i := range a.n {
				u := addVertex(&g, k, a.typeName, a.typeName, units+i, d.next())
				g.Vertices[u].Rank = x.node.number
			}
		}
	}
	text, err := g.JGF()
	return string(text), err
}

// errNoNumbers means that a graph has grown so often that there are no lower numbers left.
var errNoNumbers = errors.New("no numbers are left for further nodes")

// level returns the numbers of a level. It gives them if the level has none.
func (d *drawing) level(key string) drawnLevel {
	l, ok := d.levels[key]
	if !ok {
		l = drawnLevel{int64(len(d.levels)), d.next()}
		d.levels[key] = l
	}
	return l
}

// next returns an unused uniq_id for a vertex. Ascending ids leave out the ids of nodes.
func (d *drawing) next() int64 {
	if d.descending {
		d.uniq--
		return d.uniq
	}
	d.uniq++
	if d.uniq%nodeStride == 1 {
		d.uniq++
	}
	return d.uniq
}

// addVertex adds a vertex below its parent, and returns its index.
func addVertex(g *resource.Graph, parent int, vertexType, basename string, id, uniq int64) int {
	at := g.Hang(parent, resource.Vertex{Type: vertexType, Name: basename + strconv.FormatInt(id, 10), ID: id, Size: 1})
	g.Vertices[at].UniqID, g.Vertices[at].Basename = uniq, basename
	return at
}

// loadOptions returns the options of the library's graph. It sets
// all that matter, because the defaults differ between releases.
func loadOptions(policyName string, nodes []drawnNode) (string, error) {
	seen := make(map[string]bool)
	for _, n := range nodes {
		for _, a := range n.need {
			seen["ALL:"+a.typeName] = true
		}
	}
	text, err := json.Marshal(map[string]string{
		"load_format": "jgf", "match_format": "jgf", "matcher_policy": policyName,
		"prune_filters": strings.Join(slices.Sorted(maps.Keys(seen)), ","),
	})
	return string(text), err
}
