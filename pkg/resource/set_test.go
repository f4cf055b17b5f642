package resource

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// setRoundTrip fails if Encode and ParseSet change s.
func setRoundTrip(t *testing.T, s *Set) string {
	t.Helper()
	text, err := s.Encode()
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	again, err := ParseSet(text)
	if err != nil {
		t.Fatalf("ParseSet(%s): %v", text, err)
	}
	if diff := cmp.Diff(s, again); diff != "" {
		t.Errorf("after Encode and ParseSet (-before +after):\n%s", diff)
	}
	return string(text)
}

// pod returns what a pod of Kubernetes holds: shares of pools that name no vertex.
func pod() *Set {
	pool := func(name, unit string, amount int64) Share {
		return Share{Vertex: Vertex{Type: name, Rank: NoRank, Size: amount, Unit: unit}, Amount: amount}
	}
	return &Set{
		Start:    time.Unix(1750000000, 123456789).UTC(),
		Vertices: []Share{pool("core", "m", 250), pool("memory", "B", 1<<33), pool("nvidia.com/gpu", "", 1), pool("pods", "", 1)},
	}
}

// placed returns a share of a vertex in a graph. The name is the end of the path.
func placed(uniq int64, vertexType, path string, id, rank int64) Share {
	return Share{
		Vertex: Vertex{
			UniqID: uniq, Type: vertexType, Basename: vertexType, Name: path[strings.LastIndexByte(path, '/')+1:], ID: id, Rank: rank, Size: 1,
			Path: path,
		},
		Amount: 1,
	}
}

func exclusively(s Share) Share {
	s.Exclusively = true
	return s
}

func TestSetsRoundTrip(t *testing.T) {
	part := placed(4, "memory", "/cluster0/node0/memory0", 0, NoRank)
	part.Size, part.Unit, part.Amount, part.Exclusive, part.Status = 1<<40, "B", 1<<30, true, Down
	part.Properties = map[string]string{"\"": "\\\n\x01", "ä": "😀"}
	part.Paths = map[string]string{"power": "/p/node0/memory0"}
	last := placed(math.MaxInt64, "core", "/cluster0/node0/core0", math.MinInt64, math.MaxInt64)
	last.Size, last.Amount = 0, math.MaxInt64

	cases := map[string]*Set{
		"nothing":                    {},
		"a pod, without vertices":    pod(),
		"from the beginning of time": {Start: time.Unix(0, 0).UTC(), Expiration: time.Unix(0, 1).UTC()},
		"to the end of time":         {Expiration: time.Unix(lastSecond, 999999999).UTC()},
		"a part of a pool":           {Vertices: []Share{part, placed(1, TypeNode, "/cluster0/node0", 0, NoRank)}},
		"numbers at their ends":      {Vertices: []Share{last}},
		"the same vertex twice":      {Vertices: []Share{part, part, placed(1, TypeNode, "/cluster0/node0", 0, NoRank)}},
		"children before their node": {Vertices: []Share{exclusively(placed(2, "core", "/cluster0/node0/core0", 0, 0)), placed(1, TypeNode, "/cluster0/node0", 0, 0)}},
		"a node, name and basename unset": {Vertices: []Share{
			{Vertex: Vertex{Type: TypeNode, Rank: NoRank, Size: 1}, Amount: 1},
		}},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) { setRoundTrip(t, s) })
	}
}

func TestEncodeWritesR(t *testing.T) {
	gpu := placed(9, "nvidia.com/gpu", "/c/a0/nvidia.com:gpu0", 0, NoRank)
	gpu.Size = 8
	cases := map[string]struct {
		set  *Set
		want string
	}{
		"nothing": {
			&Set{},
			`{"version":1,"execution":{"R_lite":[],"nodelist":[]},"scheduling":{"graph":{"nodes":[],"edges":[]}}}`,
		},
		"times": {
			&Set{Start: time.Unix(10, 5e8), Expiration: time.Unix(20, 1)},
			`{"version":1,"execution":{"R_lite":[],"nodelist":[],"starttime":10.5,"expiration":20.000000001},"scheduling":{"graph":{"nodes":[],"edges":[]}}}`,
		},
		"ranks that hold the same go together, and edges follow the paths": {
			&Set{Start: time.Unix(0, 0), Vertices: []Share{
				exclusively(placed(4, "core", "/c/n1/core0", 0, 1)), placed(3, TypeNode, "/c/n1", 1, 1),
				exclusively(placed(2, "core", "/c/n0/core0", 0, 0)), placed(1, TypeNode, "/c/n0", 0, 0), placed(0, "c", "/c", 0, NoRank),
			}},
			`{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0"}}],"nodelist":["n[0-1]"],"starttime":0},"scheduling":{"graph":{"nodes":[` +
				`{"id":"4","metadata":{"type":"core","id":0,"rank":1,"exclusive":true,"paths":{"containment":"/c/n1/core0"}}},` +
				`{"id":"3","metadata":{"type":"node","name":"n1","id":1,"rank":1,"paths":{"containment":"/c/n1"}}},` +
				`{"id":"2","metadata":{"type":"core","id":0,"rank":0,"exclusive":true,"paths":{"containment":"/c/n0/core0"}}},` +
				`{"id":"1","metadata":{"type":"node","name":"n0","id":0,"rank":0,"paths":{"containment":"/c/n0"}}},` +
				`{"id":"0","metadata":{"type":"c","name":"c","id":0,"rank":-1,"paths":{"containment":"/c"}}}],"edges":[` +
				`{"source":"3","target":"4"},{"source":"0","target":"3"},{"source":"1","target":"2"},{"source":"0","target":"1"}]}}}`,
		},
		"a part of a pool keeps the size of the whole aside": {
			&Set{Vertices: []Share{gpu}},
			`{"version":1,"execution":{"R_lite":[],"nodelist":[]},"scheduling":{"graph":{"nodes":[` +
				`{"id":"9","metadata":{"type":"nvidia.com/gpu","name":"nvidia.com:gpu0","id":0,"rank":-1,"paths":{"containment":"/c/a0/nvidia.com:gpu0"},"fluence":{"size":8}}}],"edges":[]}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.set.Encode()
			if err != nil || string(got) != tc.want {
				t.Errorf("Encode: %s, %v\nwant: %s", got, err, tc.want)
			}
		})
	}
}

func TestExecution(t *testing.T) {
	node := func(name string, rank int64) Share {
		n := placed(rank+100, TypeNode, "/c/"+name, rank, rank)
		n.Name = name
		return n
	}
	core := func(rank, id int64) Share { return placed(1000*rank+id, "core", "/c/x/core", id, rank) }
	gpu := func(rank, id int64) Share { return placed(2000*rank+id, "gpu", "/c/x/gpu", id, rank) }
	milli := core(0, 0)
	milli.Unit = "m"
	labelled := func(s Share, properties map[string]string) Share {
		s.Properties = properties
		return s
	}
	cases := map[string]struct {
		shares []Share
		want   string
	}{
		"cores and gpus, in runs":            {[]Share{core(0, 3), core(0, 1), core(0, 2), core(0, 9), gpu(0, 1)}, `"R_lite":[{"rank":"0","children":{"core":"1-3,9","gpu":"1"}}],"nodelist":[]`},
		"ranks that hold different things":   {[]Share{core(2, 0), core(0, 0), core(1, 1), gpu(3, 0)}, `"R_lite":[{"rank":"0,2","children":{"core":"0"}},{"rank":"1","children":{"core":"1"}},{"rank":"3","children":{"gpu":"0"}}],"nodelist":[]`},
		"the same core twice":                {[]Share{core(0, 0), core(0, 0)}, `"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":[]`},
		"an amount of cores is no core":      {[]Share{milli}, `"R_lite":[],"nodelist":[]`},
		"a core of no broker":                {[]Share{core(NoRank, 0)}, `"R_lite":[],"nodelist":[]`},
		"nodes without ranks, in order":      {[]Share{node("b", NoRank), node("a", NoRank)}, `"R_lite":[],"nodelist":["b,a"]`},
		"nodes by rank":                      {[]Share{node("b", 1), node("a", 0), node("z", NoRank)}, `"R_lite":[],"nodelist":["z,a,b"]`},
		"properties by rank, with values":    {[]Share{labelled(node("a", 1), map[string]string{"amd": "", "zone": "x"}), labelled(node("b", 0), map[string]string{"amd": ""})}, `"R_lite":[],"nodelist":["b,a"],"properties":{"amd":"0-1","zone=x":"1"}`},
		"properties of a node without rank":  {[]Share{labelled(node("a", NoRank), map[string]string{"amd": ""})}, `"R_lite":[],"nodelist":["a"]`},
		"a node without name is not on list": {[]Share{node("", 0), node("a", 1)}, `"R_lite":[],"nodelist":["a"]`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text, err := (&Set{Vertices: tc.shares}).Encode()
			if err != nil || !strings.Contains(string(text), `"execution":{`+tc.want+"}") {
				t.Errorf("Encode: %s, %v\nwant in it: %s", text, err, tc.want)
			}
		})
	}
}

func TestParseSetReadsTimes(t *testing.T) {
	cases := map[string]struct {
		execution string
		start     time.Time
		end       time.Time
	}{
		"none":                     {`{"R_lite":[]}`, time.Time{}, time.Time{}},
		"whole seconds":            {`{"starttime":0,"expiration":3600}`, time.Unix(0, 0), time.Unix(3600, 0)},
		"fractions":                {`{"starttime":1750000000.123456789}`, time.Unix(1750000000, 123456789), time.Time{}},
		"finer than a nanosecond":  {`{"starttime":1.0000000019}`, time.Unix(1, 1), time.Time{}},
		"an exponent":              {`{"starttime":1.5e1}`, time.Unix(15, 0), time.Time{}},
		"an expiration of 0":       {`{"starttime":5,"expiration":0.0}`, time.Unix(5, 0), time.Time{}},
		"an expiration, no start":  {`{"expiration":5}`, time.Time{}, time.Unix(5, 0)},
		"the start after the rest": {`{"expiration":5,"R_lite":[{"rank":"0"}],"starttime":4}`, time.Unix(4, 0), time.Unix(5, 0)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := ParseSet([]byte(`{"version":1,"execution":` + tc.execution + `,"scheduling":` + jgf("") + `}`))
			if err != nil || !s.Start.Equal(tc.start) || !s.Expiration.Equal(tc.end) {
				t.Errorf("ParseSet: %+v, %v, want from %v to %v", s, err, tc.start, tc.end)
			}
		})
	}
}

func TestParseSetRefuses(t *testing.T) {
	of := func(execution, graph string) string {
		return `{"version":1,"execution":` + execution + `,"scheduling":` + graph + `}`
	}
	cases := map[string]struct{ text, want string }{
		"nothing":                   {"", "byte 0: a value expected"},
		"no version":                {`{"scheduling":` + jgf("") + `}`, "no version"},
		"another version":           {`{"version":2}`, "version: 2: not 1"},
		"no scheduling":             {`{"version":1,"execution":{}}`, "no scheduling"},
		"a key that appears twice":  {`{"version":1,"version":1}`, "version appears twice"},
		"text after the end":        {of("{}", jgf("")) + "{}", "text after the end"},
		"what is not UTF-8":         {"\"\xff\"", "resource set is not UTF-8"},
		"execution that is a list":  {of("[]", jgf("")), "execution: []: not an object"},
		"a start in words":          {of(`{"starttime":"now"}`, jgf("")), `execution: starttime: "now": not a number`},
		"a start before 1970":       {of(`{"starttime":-1}`, jgf("")), "execution: starttime: -1: not a time from 1970 to 9999, in seconds"},
		"a start beyond 9999":       {of(`{"starttime":253402300800}`, jgf("")), "execution: starttime: 253402300800: not a time from 1970 to 9999, in seconds"},
		"an end at the start":       {of(`{"starttime":5,"expiration":5}`, jgf("")), "expiration: 1970-01-01 00:00:05 +0000 UTC: not after the start, 1970-01-01 00:00:05 +0000 UTC"},
		"a vertex without type":     {of("{}", jgf("", item("1", `"paths":{}`))), `scheduling: nodes: item 0: vertex "1": no type`},
		"a negative amount":         {of("{}", jgf("", item("1", `"type":"core","size":-1,"paths":{}`))), "vertex 0 (core core1): size: -1: less than 0"},
		"a negative amount of some": {of("{}", jgf("", item("1", `"type":"core","size":-1,"paths":{},"fluence":{"size":1}`))), "vertex 0 (core core1): amount: -1: less than 0"},
		"a size of the whole, text": {of("{}", jgf("", item("1", `"type":"core","paths":{},"fluence":{"size":"x"}`))), `scheduling: nodes: item 0: vertex "1": fluence: size: "x": not a whole number`},
		"a node that is no host":    {of("{}", jgf("", item("1", `"type":"node","name":"a,b","paths":{}`))), `vertex 0 (node a,b): name: "a,b": cannot stand in a hostlist`},
		"an edge to nowhere":        {of("{}", jgf(`{"source":"1","target":"1"}`)), `scheduling: edges: item 0: source: no vertex "1"`},
		"a vertex that is there again": {
			of("{}", jgf("", item("1", `"type":"core","paths":{}`), item("1", `"type":"core","paths":{}`))),
			`scheduling: nodes: item 1: vertex "1" appears twice`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSet([]byte(tc.text))
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("ParseSet: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	cases := map[string]struct {
		set  Set
		want string
	}{
		"a start before 1970":       {Set{Start: time.Unix(-1, 0).UTC()}, "starttime: 1969-12-31 23:59:59 +0000 UTC: not from 1970 to 9999"},
		"an end that reads as none": {Set{Expiration: time.Unix(0, 0).UTC()}, "expiration: 1970-01-01 00:00:00 +0000 UTC: not from 1970 to 9999"},
		"an end beyond 9999":        {Set{Expiration: time.Unix(lastSecond+1, 0).UTC()}, "expiration: 10000-01-01 00:00:00 +0000 UTC: not from 1970 to 9999"},
		"a share of no type":        {Set{Vertices: []Share{{}}}, "vertex 0 ( ): type is empty"},
		"a negative amount":         {Set{Vertices: []Share{{Vertex: Vertex{Type: "core"}, Amount: -1}}}, "vertex 0 (core ): amount: -1: less than 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tc.set.Encode()
			if err == nil || err.Error() != tc.want {
				t.Errorf("Encode: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

// TestParseSetReadsFluxion reads the answer of Fluxion
// 0.54 to a request for three cores and memory.
func TestParseSetReadsFluxion(t *testing.T) {
	const text = `{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}], "nodelist": ["node0"], "starttime": 0, "expiration": 3600}, ` +
		`"scheduling": {"graph": {"nodes": [{"id": "3", "metadata": {"type": "core", "id": 0, "rank": 0, "exclusive": true, "paths": {"containment": "/cluster0/node0/core0"}}}, ` +
		`{"id": "8", "metadata": {"type": "memory", "id": 0, "rank": 0, "exclusive": true, "size": 16, "paths": {"containment": "/cluster0/node0/memory0"}}}, ` +
		`{"id": "1", "metadata": {"type": "node", "id": 0, "rank": 0, "paths": {"containment": "/cluster0/node0"}}}, ` +
		`{"id": "0", "metadata": {"type": "cluster", "id": 0, "rank": -1, "paths": {"containment": "/cluster0"}}}], ` +
		`"edges": [{"source": "1", "target": "3"}, {"source": "1", "target": "8"}, {"source": "0", "target": "1"}]}}}` + "\n"
	memory := exclusively(placed(8, "memory", "/cluster0/node0/memory0", 0, 0))
	memory.Size, memory.Amount = 16, 16
	want := &Set{Start: time.Unix(0, 0).UTC(), Expiration: time.Unix(3600, 0).UTC(), Vertices: []Share{
		exclusively(placed(3, "core", "/cluster0/node0/core0", 0, 0)), memory,
		placed(1, TypeNode, "/cluster0/node0", 0, 0), placed(0, TypeCluster, "/cluster0", 0, NoRank),
	}}
	got, err := ParseSet([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseSet (-want +got):\n%s", diff)
	}
	if again := setRoundTrip(t, got); again != compact(text) {
		t.Errorf("Encode: %s\nwant the same as Fluxion: %s", again, compact(text))
	}
}

// compact removes the blanks from a text whose strings have none.
func compact(text string) string { return strings.Join(strings.Fields(text), "") }
