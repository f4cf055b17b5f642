package golden

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// A drawnVertex is a vertex of a graph that is being drawn.
type drawnVertex struct {
	metadata map[string]any
	typ      string
	parent   int
}

// A drawnGraph is a tree. Its first vertex is the root.
type drawnGraph struct {
	r        *rand.Rand
	vertices []drawnVertex
	global   map[string]int // the next id of each type, for ids unique in the graph
	byParent bool           // ids begin at 0 below every parent
	shuffled bool           // edges are not in the order of the vertices
	reverse  bool           // each edge exists in both directions
	rankless bool           // only some nodes have a rank
	nodes    int
	stride   int  // from one id to the next
	oddIDs   bool // some ids are -1
	plain    bool // paths are made of the ids
}

// drawGraph draws a containment tree of up to about 200 vertices.
func drawGraph(r *rand.Rand) *drawnGraph {
	g := &drawnGraph{r: r, global: map[string]int{}, byParent: r.IntN(3) == 0, shuffled: r.IntN(3) == 0, reverse: r.IntN(8) == 0, rankless: r.IntN(5) == 0}
	g.oddIDs, g.stride = r.IntN(10) == 0, pickOf(r, 1, 1, 1, 1, 3, 40000)
	g.plain = !g.oddIDs && r.IntN(5) > 0
	g.add(-1, "cluster", 1)
	var kinds []kind
	for range 1 + r.IntN(3) {
		kinds = append(kinds, drawKind(r))
	}
	levels := pickOf(r, nil, nil, []string{"rack"}, []string{"zone", "rack"}, []string{"zone"})
	g.fill(0, levels, kinds)
	return g
}

// A kind is what a node contains.
type kind struct {
	sockets                 int
	cores, gpus, pools, ssd int
	pool                    int
	uneven                  bool
}

func drawKind(r *rand.Rand) kind {
	k := kind{
		sockets: pickOf(r, 0, 0, 0, 1, 2), cores: pickOf(r, 0, 1, 2, 3, 4, 4, 8, 20), gpus: pickOf(r, 0, 0, 0, 1, 2),
		pools: pickOf(r, 0, 0, 1, 2, 3), ssd: pickOf(r, 0, 0, 0, 1), pool: pickOf(r, 1, 2, 8, 16), uneven: r.IntN(4) == 0,
	}
	if k.sockets == 2 && k.cores > 8 {
		k.cores = 8
	}
	return k
}

func (g *drawnGraph) fill(at int, levels []string, kinds []kind) {
	r := g.r
	if len(levels) > 0 {
		for range 1 + r.IntN(3) {
			g.fill(g.add(at, levels[0], 1), levels[1:], kinds)
		}
		if r.IntN(3) > 0 {
			return
		}
		if r.IntN(3) == 0 {
			g.add(at, "ssd", int64(1+r.IntN(4)))
		}
	}
	limit := pickOf(r, 2, 4, 6)
	if at == 0 && len(levels) == 0 && r.IntN(4) == 0 {
		limit = 24 // more than insertion sort is used for
	}
	for range r.IntN(limit) + 1 {
		if len(g.vertices) < 180 {
			g.node(at, kinds[r.IntN(len(kinds))])
		}
	}
}

func (g *drawnGraph) node(at int, k kind) {
	n := g.add(at, "node", 1)
	v := g.vertices[n].metadata
	if !g.rankless || g.r.IntN(4) == 0 {
		v["rank"] = g.nodes
	}
	g.nodes++
	properties := map[string]string{}
	for _, p := range []string{"amd", "big", "zone"} {
		if g.r.IntN(3) == 0 {
			properties[p] = pickOf(g.r, "", "a", "b")
		}
	}
	if g.r.IntN(2) == 0 {
		properties["perf_class"] = pickOf(g.r, "0", "1", "2", "17", "x")
	}
	if len(properties) > 0 {
		v["properties"] = properties
	}
	inside := []int{n}
	if k.sockets > 0 {
		inside = nil
		for range k.sockets {
			inside = append(inside, g.add(n, "socket", 1))
		}
	}
	for _, p := range inside {
		cores := k.cores
		if k.uneven {
			cores = g.r.IntN(k.cores + 1)
		}
		g.leaves(p, "core", cores, 1)
		g.leaves(p, "gpu", k.gpus, 1)
	}
	for range k.pools {
		size := int64(k.pool)
		if k.uneven {
			size = int64(g.r.IntN(2 * k.pool))
		}
		g.add(pickOf(g.r, inside[0], n), "memory", size)
	}
	g.leaves(n, "ssd", k.ssd, 1)
}

func (g *drawnGraph) leaves(at int, typ string, n int, size int64) {
	for range n {
		g.add(at, typ, size)
	}
}

// add adds a vertex and returns its index.
func (g *drawnGraph) add(parent int, typ string, size int64) int {
	i := len(g.vertices)
	id := g.global[typ]
	g.global[typ]++
	if g.byParent && parent >= 0 {
		id = 0
		for _, v := range g.vertices {
			if v.parent == parent && v.typ == typ {
				id++
			}
		}
	}
	id *= g.stride
	if g.oddIDs && g.r.IntN(20) == 0 {
		id = -1
	}
	m := map[string]any{"type": typ, "id": id, "size": size}
	path := fmt.Sprintf("/%s%d", typ, i)
	if g.plain {
		path = fmt.Sprintf("/%s%d", typ, id)
	}
	if parent >= 0 {
		up := g.vertices[parent].metadata
		path = up["paths"].(map[string]string)["containment"] + path
		if rank, ok := up["rank"]; ok {
			m["rank"] = rank
		}
	}
	m["paths"] = map[string]string{"containment": path}
	odds := 60
	if typ == "node" {
		odds = 12
	}
	if parent >= 0 && g.r.IntN(odds) == 0 {
		m["status"] = 1
	}
	g.vertices = append(g.vertices, drawnVertex{m, typ, parent})
	return i
}

// text writes the graph as JGF.
func (g *drawnGraph) text() json.RawMessage {
	uniq := make([]int, len(g.vertices))
	step := pickOf(g.r, 1, 1, 7, 10007)
	from := pickOf(g.r, 0, 0, 0, 0, 0, 0, 0, 5, -3)
	for i := range uniq {
		uniq[i] = from + i*step
	}
	if g.r.IntN(3) == 0 {
		g.r.Shuffle(len(uniq), func(i, j int) { uniq[i], uniq[j] = uniq[j], uniq[i] })
	}
	var nodes, edges []any
	for i, v := range g.vertices {
		id := fmt.Sprint(uniq[i])
		v.metadata["uniq_id"] = uniq[i]
		if g.r.IntN(10) == 0 {
			delete(v.metadata, "uniq_id")
		}
		if node := v.typ == "node"; node && g.r.IntN(3) == 0 || g.r.IntN(40) == 0 {
			v.metadata["name"] = fmt.Sprintf("%s-%d", pickOf(g.r, "a", "host"), i)
		}
		nodes = append(nodes, map[string]any{"id": id, "metadata": v.metadata})
		if v.parent < 0 {
			continue
		}
		up := fmt.Sprint(uniq[v.parent])
		edges = append(edges, map[string]any{"source": up, "target": id})
		if g.reverse {
			edges = append(edges, map[string]any{"source": id, "target": up, "metadata": map[string]any{"subsystem": "containment"}})
		}
	}
	if g.shuffled {
		g.r.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
	}
	if edges == nil {
		edges = []any{}
	}
	text, err := json.Marshal(map[string]any{"graph": map[string]any{"nodes": nodes, "edges": edges}})
	if err != nil {
		panic(err) // all values can be encoded in JSON
	}
	return text
}
