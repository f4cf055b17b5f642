package fluxion

import (
	"encoding/json"
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

// A graphBuilder builds the library's graph.
type graphBuilder struct {
	graph resource.Graph
	at    map[string]int // the levels, by pathKey
	// uniq is the last uniq_id that was given to a vertex.
	uniq int64
	// descending is true under the policy first, which begins with the highest number.
	// Then the numbers and the ids of units fall from node to node. Otherwise they rise.
	descending bool
	levels     int64
}

// buildJGF returns the graph of these nodes in JGF: a cluster, the levels,
// the nodes in this order, and one vertex for each unit below its node.
func buildJGF(policyName string, nodes []drawnNode) (string, error) {
	policy, _ := match.PolicyOf(policyName)
	d := graphBuilder{at: make(map[string]int), descending: policy.Order == match.DepthFirst}
	if d.descending {
		d.uniq = 1
		for _, x := range nodes {
			d.uniq += 1 + int64(len(x.node.levels))
			for _, units := range x.node.units {
				d.uniq += units
			}
		}
	}
	root := d.addVertex(-1, resource.TypeCluster, resource.TypeCluster, 0, d.next())
	for i, x := range nodes {
		at, n := root, x.node
		for depth := 1; depth < len(n.levels); depth++ {
			at = d.level(at, n.levels[:depth+1])
		}
		uniq, units := n.number*nodeStride+1, n.number*nodeStride
		if d.descending {
			uniq, units = d.next(), int64(len(nodes)-i)*nodeStride
		}
		at = d.addVertex(at, resource.TypeNode, nodeBasename, n.number, uniq)
		d.graph.Vertices[at].Rank = n.number
		for _, a := range x.need {
			for i := range a.n {
				k := d.addVertex(at, a.typeName, a.typeName, units+i, d.next())
				d.graph.Vertices[k].Rank = n.number
			}
		}
	}
	text, err := d.graph.JGF()
	return string(text), err
}

// level returns the vertex of the last of these levels. It adds the vertex if there is none.
func (d *graphBuilder) level(parent int, way []level) int {
	key := pathKey(way)
	at, ok := d.at[key]
	if !ok {
		vertexType := levelName(len(way) - 1)
		at = d.addVertex(parent, vertexType, vertexType, d.levels, d.next())
		d.levels++
		d.at[key] = at
	}
	return at
}

// next returns an unused uniq_id for a vertex. Ascending ids leave out the ids of nodes.
func (d *graphBuilder) next() int64 {
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
func (d *graphBuilder) addVertex(parent int, vertexType, basename string, id, uniq int64) int {
	at := d.graph.Hang(parent, resource.Vertex{Type: vertexType, Name: basename + strconv.FormatInt(id, 10), ID: id, Size: 1})
	d.graph.Vertices[at].UniqID, d.graph.Vertices[at].Basename = uniq, basename
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
