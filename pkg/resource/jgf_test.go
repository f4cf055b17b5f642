package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// item returns one vertex of a JGF text. metadata has no braces.
func item(id, metadata string) string {
	return fmt.Sprintf(`{"id":%q,"metadata":{%s}}`, id, metadata)
}

func jgf(edges string, nodes ...string) string {
	return `{"graph":{"nodes":[` + strings.Join(nodes, ",") + `],"edges":[` + edges + `]}}`
}

const (
	rootMeta = `"type":"cluster","id":0,"paths":{"containment":"/cluster0"}`
	nodeMeta = `"type":"node","id":0,"rank":0,"paths":{"containment":"/cluster0/node0"}`
	toNode   = `{"source":"0","target":"1"}`
)

func TestReadJGFFillsInDefaults(t *testing.T) {
	cases := map[string]struct {
		metadata string
		want     Vertex
	}{
		"all that may be is left out": {
			`"type":"core","paths":{"containment":"/cluster0/core3"}`,
			Vertex{UniqID: 3, Type: "core", Basename: "core", Name: "core3", ID: 3, Rank: NoRank, Size: 1, Path: "/cluster0/core3"},
		},
		"all is there": {
			`"type":"memory","basename":"m","name":"mem","id":-1,"uniq_id":70,"rank":5,"size":16,"unit":"GB","exclusive":true,"status":1,` +
				`"properties":{"amd":"","zone":"a"},"paths":{"containment":"/cluster0/mem","power":"/p/mem"}`,
			Vertex{
				UniqID: 70, Type: "memory", Basename: "m", Name: "mem", ID: -1, Rank: 5, Size: 16, Unit: "GB", Exclusive: true, Status: Down,
				Properties: map[string]string{"amd": "", "zone": "a"}, Path: "/cluster0/mem", Paths: map[string]string{"power": "/p/mem"},
			},
		},
		"a node's id is at the end of its name": {
			`"type":"node","name":"rack1-host17","paths":{"containment":"/cluster0/rack1-host17"}`,
			Vertex{UniqID: 3, Type: "node", Basename: "node", Name: "rack1-host17", ID: 17, Rank: NoRank, Size: 1, Path: "/cluster0/rack1-host17"},
		},
		"a node whose name has no number": {
			`"type":"node","name":"login","paths":{"containment":"/cluster0/login"}`,
			Vertex{UniqID: 3, Type: "node", Basename: "node", Name: "login", ID: 3, Rank: NoRank, Size: 1, Path: "/cluster0/login"},
		},
		"only nodes have their ids in their names": {
			`"type":"rack","name":"rack17","paths":{"containment":"/cluster0/rack17"}`,
			Vertex{UniqID: 3, Type: "rack", Basename: "rack", Name: "rack17", ID: 3, Rank: NoRank, Size: 1, Path: "/cluster0/rack17"},
		},
		"the name follows basename and id": {
			`"type":"subnet","basename":"zone-","id":2,"paths":{"containment":"/cluster0/zone-2"}`,
			Vertex{UniqID: 3, Type: "subnet", Basename: "zone-", Name: "zone-2", ID: 2, Rank: NoRank, Size: 1, Path: "/cluster0/zone-2"},
		},
		"properties that are null, and keys that nobody knows": {
			`"type":"core","size":0,"properties":null,"extra":[{"a":[1,-2.5e3,"\u00e4",true,false,null]}],"paths":{"containment":"/cluster0/core3"}`,
			Vertex{UniqID: 3, Type: "core", Basename: "core", Name: "core3", ID: 3, Rank: NoRank, Path: "/cluster0/core3"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g, err := ReadJGF([]byte(jgf("", item("0", rootMeta), item(" 3x", tc.metadata))))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, g.Vertices[1]); diff != "" {
				t.Errorf("vertex (-want +got):\n%s", diff)
			}
			graphRoundTrip(t, g)
		})
	}
}

// graphRoundTrip fails if JGF and ReadJGF change g.
func graphRoundTrip(t *testing.T, g *Graph) {
	t.Helper()
	text, err := g.JGF()
	if err != nil {
		t.Fatalf("JGF: %v", err)
	}
	again, err := ReadJGF(text)
	if err != nil {
		t.Fatalf("ReadJGF(%s): %v", text, err)
	}
	if diff := cmp.Diff(g, again); diff != "" {
		t.Errorf("after JGF and ReadJGF (-before +after):\n%s", diff)
	}
}

func TestReadJGFReadsEdges(t *testing.T) {
	cases := map[string]struct {
		text string
		want []Edge
	}{
		"without metadata": {
			jgf(toNode, item("0", rootMeta), item("1", nodeMeta)),
			[]Edge{{0, 1, Containment}},
		},
		"in the older style, both ways": {
			jgf(`{"source":"0","target":"1","metadata":{"name":{"containment":"contains"}}},{"source":"1","target":"0","metadata":{"subsystem":"containment"}}`,
				item("0", rootMeta), item("1", nodeMeta)),
			[]Edge{{0, 1, Containment}, {1, 0, Containment}},
		},
		"of another subsystem": {
			jgf(toNode+`,{"metadata":{"subsystem":"power"},"target":"1","source":"0"}`, item("0", rootMeta), item("1", nodeMeta)),
			[]Edge{{0, 1, Containment}, {0, 1, "power"}},
		},
		"before the nodes, and metadata before the id": {
			`{"graph":{"edges":[` + toNode + `],"nodes":[{"metadata":{` + rootMeta + `},"id":"0"},` + item("1", nodeMeta) + `]}}`,
			[]Edge{{0, 1, Containment}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g, err := ReadJGF([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, g.Edges); diff != "" {
				t.Errorf("edges (-want +got):\n%s", diff)
			}
			graphRoundTrip(t, g)
		})
	}
}

func TestReadJGFRefuses(t *testing.T) {
	root, node := item("0", rootMeta), item("1", nodeMeta)
	with := func(metadata string) string { return jgf("", root, item("7", metadata)) }
	const core = `"type":"core","paths":{"containment":"/cluster0/core7"}`
	cases := map[string]struct{ text, want string }{
		"nothing":                {"", "byte 0: a value expected"},
		"no graph":               {`{}`, "no graph"},
		"no nodes":               {`{"graph":{"edges":[]}}`, "graph has no nodes"},
		"no edges":               {`{"graph":{"nodes":[]}}`, "graph has no edges"},
		"an empty graph":         {jgf(""), "graph has no root of containment"},
		"text after the end":     {jgf("", root) + "x", "text after the end"},
		"half a text":            {jgf("", root)[:60], `nodes: item 0: vertex "0": byte 58: string without an end`},
		"no root":                {jgf("", node), "graph has no root of containment"},
		"a second root":          {jgf("", root, item("1", `"type":"node","paths":{"containment":"/node0"}`)), "vertex 1 (/node0): is a second root of containment, after vertex 0"},
		"a vertex without id":    {jgf("", `{"metadata":{`+rootMeta+`}}`), "nodes: item 0: no id"},
		"an id that is a number": {jgf("", `{"id":3}`), "nodes: item 0: id: 3: not a string"},
		"a vertex that is there again": {
			jgf("", root, root), `nodes: item 1: vertex "0" appears twice`,
		},
		"a vertex without metadata":  {jgf("", `{"id":"3"}`), `nodes: item 0: vertex "3": no metadata`},
		"a vertex without type":      {with(`"paths":{}`), `nodes: item 1: vertex "7": no type`},
		"a type that is empty":       {with(`"type":"","paths":{}`), `nodes: item 1: vertex "7": type is empty`},
		"a vertex without paths":     {with(`"type":"core"`), `nodes: item 1: vertex "7": no paths`},
		"paths that are a list":      {with(`"type":"core","paths":["/a"]`), `nodes: item 1: vertex "7": paths: ["/a"]: not an object`},
		"a path that is none":        {with(`"type":"core","paths":{"containment":"core7"}`), `nodes: item 1: vertex "7": paths: containment: "core7" is not a path`},
		"a size in words":            {with(core + `,"size":"x"`), `nodes: item 1: vertex "7": size: "x": not a whole number`},
		"a size with a fraction":     {with(core + `,"size":1.0`), `nodes: item 1: vertex "7": size: 1.0: not a whole number of 64 bits`},
		"a size beyond 64 bits":      {with(core + `,"size":9223372036854775808`), `nodes: item 1: vertex "7": size: 9223372036854775808: not a whole number of 64 bits`},
		"a negative size":            {with(core + `,"size":-1`), `nodes: item 1: vertex "7": size: -1: less than 0`},
		"a number that is none":      {with(core + `,"size":01`), `"01": malformed number`},
		"a rank that is null":        {with(core + `,"rank":null`), `nodes: item 1: vertex "7": rank: null: not a whole number`},
		"exclusive in words":         {with(core + `,"exclusive":"true"`), `nodes: item 1: vertex "7": exclusive: "true": not true or false`},
		"a status that there is not": {with(core + `,"status":2`), `nodes: item 1: vertex "7": status: 2: must be 0 (up) or 1 (down)`},
		"properties that are a list": {with(core + `,"properties":["a"]`), `nodes: item 1: vertex "7": properties: ["a"]: not an object`},
		"a property of no text":      {with(core + `,"properties":{"a":1}`), `nodes: item 1: vertex "7": properties: a: 1: not a string`},
		"a property twice":           {with(core + `,"properties":{"a":"","b":"","a":""}`), `nodes: item 1: vertex "7": properties: a: appears twice`},
		"a path twice":               {with(`"type":"core","paths":{"containment":"/a/b","containment":"/a/b"}`), `nodes: item 1: vertex "7": paths: containment: appears twice`},
		"an edge's source twice":     {jgf(`{"source":"0","source":"0","target":"0"}`, root), "edges: item 0: source: appears twice"},
		"an edge's metadata twice":   {jgf(`{"source":"0","target":"0","metadata":{},"metadata":{}}`, root), "edges: item 0: metadata appears twice"},
		"a subsystem twice":          {jgf(`{"source":"0","target":"0","metadata":{"subsystem":"a","subsystem":"a"}}`, root), "edges: item 0: metadata: subsystem: appears twice"},
		"a subsystem that is empty":  {jgf(`{"source":"0","target":"0","metadata":{"subsystem":""}}`, root), "edges: item 0: metadata: subsystem: is empty"},
		"a key that appears twice":   {with(core + `,"rank":1,"rank":1`), `nodes: item 1: vertex "7": rank: appears twice`},
		"no number to go by":         {jgf("", root, item("x7", core)), `nodes: item 1: vertex "x7": no uniq_id, and the vertex id begins with no number`},
		"one place, two vertices":    {jgf("", root, node, item("2", nodeMeta)), `vertex 2 (/cluster0/node0): has the containment path "/cluster0/node0" and the rank of vertex 1`},
		"an edge without source":     {jgf(`{"target":"0"}`, root), "edges: item 0: no source"},
		"an edge without target":     {jgf(`{"source":"0"}`, root), "edges: item 0: no target"},
		"an edge to nowhere":         {jgf(`{"source":"0","target":"999"}`, root), `edges: item 0: target: no vertex "999"`},
		"a subsystem of no text":     {jgf(`{"source":"0","target":"1","metadata":{"subsystem":1}}`, root, node), `edges: item 0: metadata: subsystem: 1: not a string`},
		"the same edge twice":        {jgf(toNode+","+toNode, root, node), "edge 1: from vertex 0 to 1, as edge 0"},
		"siblings of one number":     {jgf(toNode+`,{"source":"0","target":"2"}`, root, node, item("2", `"type":"core","uniq_id":1,"paths":{"containment":"/cluster0/core1"}`)), "vertex 0 (/cluster0): has two children with the uniq_id 1"},
		"a string without end":       {`{"graph`, "string without an end"},
		"an escape that is none":     {`{"a\x":1}`, "malformed string"},
		"a control character":        {"{\"a\n\":1}", "malformed string"},
		"what is not UTF-8":          {"{\"\xff\":1}", "graph is not UTF-8"},
		"a word that JSON lacks":     {`{"a":nil}`, "a value expected"},
		"a nest without end":         {`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}", "nested deeper than 128"},
		"a long value, in short":     {`{"graph":"` + strings.Repeat("x", 1000) + `"}`, `"` + strings.Repeat("x", 59) + "...: not an object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ReadJGF([]byte(tc.text))
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("ReadJGF: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestJGFIsCompact(t *testing.T) {
	g := cluster(1)
	const want = `{"graph":{"nodes":[{"id":"0","metadata":{"type":"cluster","id":0,"rank":-1,"paths":{"containment":"/cluster0"}}},` +
		`{"id":"1","metadata":{"type":"node","name":"ip-10-0-0-0.internal","id":0,"rank":-1,"properties":{"zone":"a"},"status":1,"paths":{"containment":"/cluster0/ip-10-0-0-0.internal"}}},` +
		`{"id":"2","metadata":{"type":"core","id":0,"rank":-1,"size":64000,"unit":"m","paths":{"containment":"/cluster0/ip-10-0-0-0.internal/core0"}}}],` +
		`"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}`
	got, err := g.JGF()
	if err != nil || string(got) != want {
		t.Errorf("JGF: %s, %v\nwant: %s", got, err, want)
	}
}

func TestJGFKeepsNumbersThatAreNotUnique(t *testing.T) {
	g := cluster(2)
	for i := range g.Vertices {
		g.Vertices[i].UniqID %= 3 // as parts of a graph, each numbered by itself
	}
	graphRoundTrip(t, g)
}

func TestJGFRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*Graph)
		want   string
	}{
		"an edge to no index":      {func(g *Graph) { g.Edges[0].Target = 3 }, "edge 0: no vertex with index 3"},
		"an edge from no index":    {func(g *Graph) { g.Edges[0].Source = -1 }, "edge 0: no vertex with index -1"},
		"an edge of no subsystem":  {func(g *Graph) { g.Edges[1].Subsystem = "" }, `edge 1: "" is not a subsystem`},
		"a name that is not UTF-8": {func(g *Graph) { g.Vertices[1].Name = "\xff" }, "vertex 1 (/cluster0/ip-10-0-0-0.internal): \"\\xff\": not UTF-8"},
		"a property that is not":   {func(g *Graph) { g.Vertices[1].Properties["\xff"] = "" }, "vertex 1 (/cluster0/ip-10-0-0-0.internal): \"\\xff\": \"\": not UTF-8"},
		"a status that is unknown": {func(g *Graph) { g.Vertices[0].Status = 7 }, "vertex 0 (/cluster0): status: 7: must be 0 (up) or 1 (down)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := cluster(1)
			tc.change(g)
			_, err := g.JGF()
			if err == nil || err.Error() != tc.want {
				t.Errorf("JGF: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

// cluster returns a graph of Kubernetes nodes with one pool each.
func cluster(nodes int) *Graph {
	g := &Graph{Vertices: []Vertex{{Type: TypeCluster, Basename: TypeCluster, Name: "cluster0", Rank: NoRank, Size: 1, Path: "/cluster0"}}}
	for i := range nodes {
		name := fmt.Sprintf("ip-10-0-%d-%d.internal", i/256, i%256)
		n := len(g.Vertices)
		g.Vertices = append(g.Vertices, Vertex{
			UniqID: int64(n), Type: TypeNode, Basename: TypeNode, Name: name, ID: int64(i), Rank: NoRank, Size: 1, Status: Down,
			Properties: map[string]string{"zone": "a"}, Path: "/cluster0/" + name,
		}, Vertex{
			UniqID: int64(n + 1), Type: "core", Basename: "core", Name: "core0", Rank: NoRank, Size: 64000, Unit: "m", Path: "/cluster0/" + name + "/core0",
		})
		g.Edges = append(g.Edges, Edge{0, n, Containment}, Edge{n, n + 1, Containment})
	}
	return g
}
