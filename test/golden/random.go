package golden

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Random draws a case without answers: a graph, options, jobspecs and steps. The
// same seed gives the same case. See Record for the answers.
func Random(seed uint64) Case {
	r := rand.New(rand.NewPCG(seed, 0))
	g := drawGraph(r)
	c := Case{
		ID: fmt.Sprintf("random-%d", seed), Family: "random", Title: fmt.Sprintf("drawn with seed %d", seed),
		GraphText: g.text(), Jobspecs: map[string]string{}, Seed: int64(seed >> 1),
	}
	options := drawOptions(r)
	c.Options, _ = json.Marshal(options) // of texts alone
	policy := options["matcher_policy"]
	d := &drawer{Rand: r, graph: g, whole: strings.HasSuffix(policy, "nodex") || strings.Contains(policy, "node_exclusive=true")}
	n := 2 + r.IntN(8)
	for i := range n {
		c.Jobspecs[fmt.Sprintf("j%d", i+1)] = d.jobspec()
	}
	matches := 0
	for range 5 + r.IntN(25) {
		s := Step{Op: OpMatch, Jobspec: fmt.Sprintf("j%d", 1+r.IntN(n))}
		switch k := r.IntN(20); {
		case k < 7:
			s.MatchOp = Allocate
		case k < 11:
			s.MatchOp = AllocateOrElseReserve
		case k < 13:
			s.MatchOp = AllocateWithSatisfy
		case k < 14:
			s.MatchOp = WithoutAllocating
		case k < 15:
			s.MatchOp = WithoutAllocatingFuture
		case k < 16:
			s.Op = OpSatisfy
		case k < 19:
			s = Step{Op: OpCancel, JobID: uint64(1 + r.IntN(matches/2+1)), NoentOK: r.IntN(2) == 0}
		default:
			s = Step{Op: OpInfo, JobID: uint64(1 + r.IntN(matches/2+1))}
		}
		if s.Op == OpMatch {
			matches++
		}
		c.Steps = append(c.Steps, s)
	}
	return c
}

// pick returns one of several, each as likely as it is there often.
func pickOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func drawOptions(r *rand.Rand) map[string]string {
	o := map[string]string{
		"load_format": "jgf", "match_format": pickOf(r, "jgf", "jgf", "jgf", "jgf", "jgf", "jgf", "rv1", "rv1_nosched", "rlite", "simple"),
		"matcher_policy": pickOf(r, "first", "first", "low", "high", "lonode", "hinode", "lonodex", "hinodex", "firstnodex", "locality", "variation",
			"policy=high", "policy=low node_centric=true", "policy=low stop_on_1_matches=true",
			"policy=low node_centric=true node_exclusive=true stop_on_1_matches=true", "policy=high node_centric=false node_exclusive=true"),
	}
	o["prune_filters"] = pickOf(r, "ALL:core", "ALL:core", "ALL:core,ALL:node", "ALL:core,ALL:node", "", "ALL:gpu,ALL:core",
		"ALL:memory,ALL:core", "node:gpu", "cluster:node,rack:core", "ALL:core,node:gpu,cluster:node", "ALL:core,ALL:gpu,ALL:memory")
	return o
}

// A drawnVertex is a vertex of a graph that is being drawn.
type drawnVertex struct {
	metadata map[string]any
	typ      string
	parent   int
}

// A drawnGraph is a tree with the root first.
type drawnGraph struct {
	r        *rand.Rand
	vertices []drawnVertex
	global   map[string]int // ids that count through the whole graph
	byParent bool           // ids begin at 0 below every parent
	shuffled bool           // edges are not in the order of the vertices
	reverse  bool           // each edge is there in both directions
	rankless bool           // only some nodes have a rank
	nodes    int
}

// drawGraph draws a containment tree of up to some 200 vertices.
func drawGraph(r *rand.Rand) *drawnGraph {
	g := &drawnGraph{r: r, global: map[string]int{}, byParent: r.IntN(3) == 0, shuffled: r.IntN(3) == 0, reverse: r.IntN(8) == 0, rankless: r.IntN(5) == 0}
	g.add(-1, "cluster", 1)
	var kinds []kind
	for range 1 + r.IntN(3) {
		kinds = append(kinds, drawKind(r))
	}
	levels := pickOf(r, nil, nil, []string{"rack"}, []string{"zone", "rack"}, []string{"zone"})
	g.fill(0, levels, kinds)
	return g
}

// A kind says what a node holds.
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
		limit = 24 // more than are sorted by insertion
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
	m := map[string]any{"type": typ, "id": id, "size": size}
	path := fmt.Sprintf("/%s%d", typ, id)
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
	for i := range uniq {
		uniq[i] = i * step
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
		panic(err) // the values are all of kinds that JSON has
	}
	return text
}

// A drawer draws jobspecs for a graph.
type drawer struct {
	*rand.Rand
	graph *drawnGraph
	label int
	// exclusive says that what is drawn stands below something exclusive.
	exclusive bool
	// whole says that the policy gives out whole nodes.
	whole bool
}

// chain returns the types on the way down to a vertex that was drawn.
func (d *drawer) chain() []string {
	var types []string
	for i := d.IntN(len(d.graph.vertices)); i >= 0; i = d.graph.vertices[i].parent {
		types = append([]string{d.graph.vertices[i].typ}, types...)
	}
	return types
}

// siblings are the types of the children of vertices of a type.
func (d *drawer) siblings(typ string) []string {
	seen := map[string]bool{}
	var list []string
	for _, v := range d.graph.vertices {
		if v.parent >= 0 && d.graph.vertices[v.parent].typ == typ && !seen[v.typ] {
			seen[v.typ] = true
			list = append(list, v.typ)
		}
	}
	return list
}

type mapping = map[string]any

func (d *drawer) jobspec() string {
	var resources []any
	n := pickOf(d.Rand, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3)
	asked := map[any]bool{}
	for range n {
		one := d.resource()
		if n > 1 && (one["type"] == "slot" || asked[one["type"]]) {
			continue // a contradiction where the two meet
		}
		asked[one["type"]] = true
		resources = append(resources, one)
	}
	if len(resources) == 0 {
		resources = append(resources, d.resource())
	}
	system := mapping{}
	switch d.IntN(8) {
	case 0:
	case 1:
		system["duration"] = 0
	case 2:
		system["duration"] = pickOf(d.Rand, 0.5, 1.5, 3600.25)
	case 3:
		system["duration"] = pickOf[any](d.Rand, 3153600000, 1000000)
	default:
		system["duration"] = pickOf(d.Rand, 5, 10, 20, 30, 100, 3600)
	}
	if d.IntN(7) == 0 {
		system["constraints"] = d.constraint(2)
	}
	if d.IntN(12) == 0 {
		system["queue"] = pickOf(d.Rand, "batch", "debug")
	}
	text, err := json.Marshal(mapping{
		"version": 1, "resources": resources, "attributes": mapping{"system": system},
		"tasks": []any{mapping{"command": []string{"app"}, "slot": "s0", "count": mapping{"per_slot": 1}}},
	})
	if err != nil {
		panic(err) // the values are all of kinds that JSON has
	}
	return string(text)
}

// resource draws a request: a way down that there is in the graph, of which
// leading levels may be left out, with a slot somewhere on it.
func (d *drawer) resource() mapping {
	d.exclusive = false
	types := d.chain()
	if d.IntN(4) > 0 {
		types = types[1:] // the root is asked for rarely
	}
	if len(types) == 0 {
		types = []string{"node"}
	}
	types = types[d.IntN(len(types)):]
	if len(types) > 2 && d.IntN(20) == 0 {
		types = append(types[:1:1], types[2:]...) // a level left out in between
	}
	if d.IntN(40) == 0 {
		types[len(types)-1] = pickOf(d.Rand, "gpu", "rack", "fpga", "socket")
	}
	slot := d.IntN(len(types))
	if d.IntN(25) == 0 {
		slot = len(types) // none
	}
	return d.build(types, slot)
}

func (d *drawer) build(types []string, slot int) mapping {
	if slot == 0 {
		content := []any{d.build(types, -1)}
		up := d.parentOf(types[0])
		for _, t := range d.siblings(up) {
			if t != types[0] && d.IntN(3) == 0 {
				content = append(content, d.build([]string{t}, -1))
			}
		}
		label := fmt.Sprintf("s%d", d.label)
		d.label++
		return mapping{"type": "slot", "label": label, "count": d.count(4), "with": content}
	}
	m := mapping{"type": types[0], "count": d.count(3)}
	switch d.IntN(20) {
	case 0:
		m["exclusive"], d.exclusive = true, true
	case 1:
		if slot > 0 && len(types) > slot && !d.exclusive {
			m["exclusive"] = false // below what is exclusive it is an error, found or not
		}
	}
	if d.IntN(25) == 0 && !d.exclusive && !d.whole {
		m["label"] = pickOf(d.Rand, "foo", "bar")
	}
	if len(types) > 1 {
		with := []any{d.build(types[1:], slot-1)}
		if slot != 1 && d.IntN(6) == 0 {
			for _, t := range d.siblings(types[0]) {
				if t != types[1] && d.IntN(2) == 0 {
					with = append(with, d.build([]string{t}, -1))
				}
			}
		}
		m["with"] = with
	}
	return m
}

func (d *drawer) parentOf(typ string) string {
	for _, v := range d.graph.vertices {
		if v.typ == typ && v.parent >= 0 {
			return d.graph.vertices[v.parent].typ
		}
	}
	return ""
}

func (d *drawer) count(most int) any {
	switch d.IntN(30) {
	case 0:
		if d.IntN(4) == 0 {
			return 0
		}
	case 1, 2, 3:
		low := 1 + d.IntN(most)
		return mapping{"min": low, "max": low + d.IntN(2*most), "operator": "+", "operand": 1 + d.IntN(3)}
	case 4:
		low := 1 + d.IntN(2)
		return mapping{"min": low, "max": low * 8, "operator": "*", "operand": 2 + d.IntN(2)}
	case 5:
		return mapping{"min": 2, "max": 2 + d.IntN(20), "operator": "^", "operand": 2}
	case 6:
		return 4 + d.IntN(12)
	case 7, 8, 9, 10, 11, 12:
		return 1 + d.IntN(most)
	}
	return 1
}

func (d *drawer) constraint(depth int) any {
	if d.IntN(3) > 0 {
		depth = 0
	}
	if depth > 0 {
		args := []any{d.constraint(depth - 1)}
		if d.IntN(2) == 0 {
			args = append(args, d.constraint(depth-1))
		}
		return mapping{pickOf(d.Rand, "and", "or", "not"): args}
	}
	switch d.IntN(6) {
	case 0:
		return mapping{"hostlist": []string{fmt.Sprintf("node[%d-%d],a-1", d.IntN(3), 3+d.IntN(5))}}
	case 1:
		return mapping{"ranks": []string{fmt.Sprintf("%d-%d", d.IntN(3), 3+d.IntN(4))}}
	case 2:
		return mapping{}
	}
	p := pickOf(d.Rand, "amd", "big", "zone", "perf_class")
	return mapping{"properties": []string{strings.Repeat("^", d.IntN(2)) + p}}
}
