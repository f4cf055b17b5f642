package fluxion

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// How vertices are called in the library's graph.
const (
	nodeBasename = "n"
	levelType    = "level"
	clusterName  = "cluster0"
)

// nodeStride parts the numbers of nodes. Fluxion's policies by node go by id and by
// the number modulo this, so all nodes have the same there and are told apart by
// id alone.
const nodeStride = 10000

// A drawing is the library's graph while it is drawn.
type drawing struct {
	graph  resource.Graph
	at     map[string]int // the levels, by their way
	uniq   int64
	levels int64
}

// draw writes the graph of these nodes in JGF: a cluster, the levels, the nodes in
// this order, and below each one vertex a unit.
func (e *Engine) draw(nodes []*node) (string, error) {
	d := drawing{at: make(map[string]int)}
	root := d.hang(-1, resource.TypeCluster, resource.TypeCluster, 0, d.next())
	for _, n := range nodes {
		at := root
		for i := 1; i < len(n.levels); i++ {
			at = d.level(at, n.levels[:i+1])
		}
		at = d.hang(at, resource.TypeNode, nodeBasename, n.number, n.number*nodeStride+1)
		d.graph.Vertices[at].Rank = n.number
		for _, a := range e.granules.needs(n.units) {
			for i := range a.n {
				k := d.hang(at, a.kind, a.kind, i, d.next())
				d.graph.Vertices[k].Rank = n.number
			}
		}
	}
	text, err := d.graph.JGF()
	return string(text), err
}

// level returns the vertex of the last of these levels.
func (d *drawing) level(parent int, way []level) int {
	key := wayKey(way)
	at, ok := d.at[key]
	if !ok {
		kind := levelType + strconv.Itoa(len(way))
		at = d.hang(parent, kind, kind, d.levels, d.next())
		d.levels++
		d.at[key] = at
	}
	return at
}

// next returns a number for a vertex that no node has.
func (d *drawing) next() int64 {
	d.uniq++
	if d.uniq%nodeStride == 1 {
		d.uniq++
	}
	return d.uniq
}

// hang adds a vertex and returns its index.
func (d *drawing) hang(parent int, kind, basename string, id, uniq int64) int {
	at := d.graph.Hang(parent, resource.Vertex{Type: kind, Name: basename + strconv.FormatInt(id, 10), ID: id, Size: 1})
	d.graph.Vertices[at].UniqID, d.graph.Vertices[at].Basename = uniq, basename
	return at
}

// loadOptions are the options of the library's graph. The defaults of releases
// differ, so all that matters is said.
func (e *Engine) loadOptions(nodes []*node) (string, error) {
	seen := make(map[string]bool)
	var filters []string
	for _, n := range nodes {
		for kind := range n.units {
			if !seen[kind] {
				seen[kind] = true
				filters = append(filters, "ALL:"+e.granules.name(kind))
			}
		}
	}
	slices.Sort(filters)
	text, err := json.Marshal(map[string]string{
		"load_format": "jgf", "match_format": "jgf", "matcher_policy": e.options.Policy,
		"prune_filters": strings.Join(filters, ","),
	})
	return string(text), err
}
