package resource

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRListsWhatExecutionSays(t *testing.T) {
	at := func(vertexType string, rank, id int64) Share {
		v := Vertex{Type: vertexType, Basename: vertexType, Name: vertexType + strconv.FormatInt(id, 10), ID: id, Rank: rank, Size: 1}
		return Share{Vertex: v, Amount: 1, Exclusively: true}
	}
	node := func(name string, rank, id int64, properties map[string]string) Share {
		s := at(TypeNode, rank, id)
		s.Name, s.Properties, s.Exclusively = name, properties, false
		return s
	}
	cases := map[string]struct {
		execution string
		want      Set
	}{
		"nothing": {`{"R_lite":[]}`, Set{}},
		"cores and gpus of several ranks": {
			`{"R_lite":[{"rank":"1,7","children":{"core":"0-1","gpu":"3"}},{"children":{"core":"[5]"},"rank":"0"}],"starttime":5,"expiration":6.5}`,
			Set{
				Start: time.Unix(5, 0).UTC(), Expiration: time.Unix(6, 5e8).UTC(),
				Vertices: []Share{at("core", 0, 5), at("core", 1, 0), at("core", 1, 1), at("gpu", 1, 3), at("core", 7, 0), at("core", 7, 1), at("gpu", 7, 3)},
			},
		},
		"hosts in several lists, with properties": {
			`{"R_lite":[{"rank":"0-2","node":"x","children":{"core":"0"}}],"nodelist":["a[8-9]","login"],"properties":{"amd":"0-1","zone=x=y":"1","none":""}}`,
			Set{Vertices: []Share{
				at("core", 0, 0), node("a8", 0, 8, map[string]string{"amd": ""}),
				at("core", 1, 0), node("a9", 1, 9, map[string]string{"amd": "", "zone": "x=y"}),
				at("core", 2, 0), node("login", 2, 2, nil),
			}},
		},
		"no hosts at all":           {`{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":[]}`, Set{Vertices: []Share{at("core", 0, 0)}}},
		"a node without children":   {`{"R_lite":[{"rank":"3","children":{}}],"nodelist":["n3"]}`, Set{Vertices: []Share{node("n3", 3, 3, nil)}}},
		"children of another type":  {`{"R_lite":[{"rank":"3","children":{"ssd":"1"}}]}`, Set{Vertices: []Share{at("ssd", 3, 1)}}},
		"the queue, and other keys": {`{"R_lite":[],"x":1},"attributes":{"user":1,"system":{"scheduler":{"y":[],"queue":"batch"}}}`, Set{Queue: "batch"}},
		"scheduling that is null":   {`{"R_lite":[{"rank":"0","children":{"core":"0"}}]},"scheduling":null`, Set{Vertices: []Share{at("core", 0, 0)}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text := `{"version":1,"execution":` + tc.execution + `}`
			got, err := ParseR([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("ParseR (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRPrefersTheGraph(t *testing.T) {
	graph := jgf(toNode, item("0", rootMeta), item("1", nodeMeta))
	bare, err := ParseR([]byte(graph))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ParseR([]byte(`{"scheduling":` + graph + `,"version":1,"execution":{"R_lite":"not looked at"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Share{placed(0, TypeCluster, "/cluster0", 0, NoRank), placed(1, TypeNode, "/cluster0/node0", 0, 0)}
	for name, s := range map[string]*Set{"bare": bare, "whole": whole} {
		if diff := cmp.Diff(want, s.Vertices); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseRRefuses(t *testing.T) {
	of := func(execution string) string { return `{"version":1,"execution":` + execution + `}` }
	entry := func(rank, children string) string {
		return of(`{"R_lite":[{"rank":"` + rank + `","children":` + children + `}]}`)
	}
	cases := map[string]struct{ text, want string }{
		"a list":                    {"[]", "[]: not an object"},
		"what is not UTF-8":         {"\"\xff\"", "resource set is not UTF-8"},
		"no version":                {`{"execution":{"R_lite":[]}}`, "no version"},
		"nothing but a version":     {`{"version":1}`, "neither execution nor scheduling"},
		"no R_lite":                 {of(`{}`), "execution: no R_lite"},
		"a graph twice":             {`{"version":1,"graph":{"nodes":[],"edges":[]}}`, "graph beside version, execution or scheduling"},
		"R_lite twice":              {of(`{"R_lite":[],"R_lite":[]}`), "execution: R_lite appears twice"},
		"R_lite that is an object":  {of(`{"R_lite":{}}`), "execution: R_lite: {}: not an array"},
		"an entry without rank":     {of(`{"R_lite":[{"children":{}}]}`), "execution: R_lite: item 0: no rank"},
		"an entry without children": {of(`{"R_lite":[{"rank":"0"}]}`), "execution: R_lite: item 0: no children"},
		"a rank that is a number":   {of(`{"R_lite":[{"rank":0,"children":{}}]}`), "execution: R_lite: item 0: rank: 0: not a string"},
		"a rank in words":           {entry("zero", "{}"), `execution: R_lite: item 0: rank: "zero": "zero" is no id`},
		"ids that run backwards":    {entry("0", `{"core":"3-1"}`), `execution: R_lite: item 0: children: core: "3-1": "3-1" runs backwards`},
		"a type that appears twice": {entry("0", `{"core":"0","core":"1"}`), "execution: R_lite: item 0: children: core appears twice"},
		"a type without a name":     {entry("0", `{"":"0"}`), "vertex 0 ( 0): type is empty"},
		"a rank that appears twice": {of(`{"R_lite":[{"rank":"0-1","children":{}},{"rank":"1","children":{}}]}`), "execution: R_lite: rank 1 appears twice"},
		"ranks without end":         {entry("0-999999999999999999", `{"core":"0-999999999999999999"}`), "execution: R_lite: item 0: more than 1048576 vertices in all"},
		"ids without end":           {entry("0-1023", `{"core":"0-1023"}`), "execution: R_lite: item 0: more than 1048576 vertices in all"},
		"fewer hosts than ranks":    {of(`{"R_lite":[{"rank":"0-2","children":{}}],"nodelist":["a[0-1]"]}`), "execution: nodelist: 2 hosts, and R_lite has 3 ranks"},
		"more hosts than ranks":     {of(`{"R_lite":[{"rank":"0-2","children":{}}],"nodelist":["a","b[0-999999999]"]}`), `execution: nodelist: item 1: "b[0-999999999]": more hosts than R_lite has ranks, which is 3`},
		"a malformed hostlist":      {of(`{"R_lite":[],"nodelist":["a["]}`), `execution: nodelist: item 0: "a[": brackets do not match`},
		"properties of no ranks":    {of(`{"R_lite":[],"properties":{"amd":"x"}}`), `execution: properties: amd: "x": "x" is no id`},
		"a queue that is a number":  {`{"version":1,"execution":{"R_lite":[]},"attributes":{"system":{"scheduler":{"queue":1}}}}`, "attributes: system: scheduler: queue: 1: not a string"},
		"an end before the start":   {of(`{"R_lite":[],"starttime":5,"expiration":4}`), "expiration: 1970-01-01 00:00:04 +0000 UTC: not after the start, 1970-01-01 00:00:05 +0000 UTC"},
		"a bad graph":               {`{"graph":{"nodes":[]}}`, "graph: graph has no edges"},
		"text after the end":        {of(`{"R_lite":[]}`) + "x", "text after the end"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParseR([]byte(tc.text))
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("ParseR: %v\nwant: %s", err, tc.want)
			}
		})
	}
}

func TestParseRTakesAsManyVerticesAsAreAllowed(t *testing.T) {
	s, err := ParseR([]byte(`{"version":1,"execution":{"R_lite":[{"rank":"0-1023","children":{"core":"0-1022"}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(s.Vertices), 1024*1023; got != want {
		t.Errorf("%d vertices, want %d", got, want)
	}
}

// FuzzParseR checks that no text makes ParseR panic, and that
// what it accepts has an R with the same cores and gpus.
func FuzzParseR(f *testing.F) {
	f.Add([]byte(`{"version":1,"execution":{"R_lite":[{"rank":"0-2,5","children":{"core":"0-3","gpu":"1"}}],"nodelist":["a[0-2],login"],"properties":{"amd":"0","z=y":"0-5"},"starttime":1,"expiration":2}}`))
	f.Add([]byte(`{"version":1,"execution":{"R_lite":[]},"scheduling":` + jgf(toNode, item("0", rootMeta), item("1", nodeMeta+`,"ephemeral":{"label":"x"}`)) + `,"attributes":{"system":{"scheduler":{"queue":"q"}}}}`))
	f.Add([]byte(jgf(toNode, item("0", rootMeta), item("1", nodeMeta))))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseR(text)
		if err != nil || len(s.Vertices) > 1000 {
			return
		}
		for _, format := range Formats() {
			written, err := s.Format(format)
			if err != nil || len(written) == 0 || !slices.Contains([]string{FormatRV1, FormatRV1NoSched}, format) {
				continue
			}
			again, err := ParseR(written)
			if err != nil {
				t.Fatalf("Format(%s) of %s: %s: %v", format, text, written, err)
			}
			if twice, err := again.Format(format); err != nil || string(twice) != string(written) {
				t.Errorf("Format(%s): %s, and again: %s, %v", format, written, twice, err)
			}
		}
	})
}
