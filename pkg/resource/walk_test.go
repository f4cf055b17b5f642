package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// walked returns a graph of copies of what WalkJGF passes to its functions.
func walked(text []byte) (*Graph, error) {
	g := &Graph{}
	err := WalkJGF(text, func(v *Vertex) error {
		kept := *v
		kept.Paths, kept.Properties = maps.Clone(v.Paths), maps.Clone(v.Properties)
		g.Vertices = append(g.Vertices, kept)
		return nil
	}, func(e Edge) error {
		g.Edges = append(g.Edges, e)
		return nil
	})
	return g, err
}

func TestWalkJGFGivesWhatReadJGFKeeps(t *testing.T) {
	texts := map[string][]byte{"with every key": flat(20)}
	short, err := cluster(200).JGF()
	if err != nil {
		t.Fatal(err)
	}
	texts["without defaults"] = short
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			want, err := ReadJGF(text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := walked(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("WalkJGF (-read +walked):\n%s", diff)
			}
			clear(text) // the strings must not be a part of it
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after the text is gone:\n%s", diff)
			}
			if want.Vertices[1].Type != TypeNode {
				t.Errorf("after the text is gone: type %q", want.Vertices[1].Type)
			}
		})
	}
}

func TestWalkJGFLeavesTheWholeToItsCaller(t *testing.T) {
	cases := map[string]string{
		"no root":                    jgf("", item("1", nodeMeta)),
		"nothing at all":             jgf(""),
		"two roots":                  jgf("", item("0", rootMeta), item("1", `"type":"cluster","paths":{"containment":"/cluster1"}`)),
		"one place, two vertices":    jgf("", item("0", rootMeta), item("1", nodeMeta), item("2", nodeMeta)),
		"the same edge twice":        jgf(toNode+","+toNode, item("0", rootMeta), item("1", nodeMeta)),
		"a vertex of another system": jgf("", item("0", `"type":"pdu","paths":{"power":"/pdu0"}`)),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := walked([]byte(text)); err != nil {
				t.Errorf("WalkJGF: %v", err)
			}
		})
	}
}

func TestWalkJGFStopsWhereItsCallerDoes(t *testing.T) {
	text := []byte(jgf(toNode, item("0", rootMeta), item("1", nodeMeta)))
	enough := errors.New("enough")
	cases := map[string]struct {
		vertex, edge error
		want         string
	}{
		"at a vertex": {vertex: enough, want: `graph: nodes: item 0: vertex "0": enough`},
		"at an edge":  {edge: enough, want: "graph: edges: item 0: enough"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := WalkJGF(text, func(*Vertex) error { return tc.vertex }, func(Edge) error { return tc.edge })
			if !errors.Is(err, enough) || !strings.HasSuffix("graph: "+err.Error(), tc.want) {
				t.Errorf("WalkJGF: %v, want %s", err, tc.want)
			}
		})
	}
}

func TestWalkJGFFindsVerticesByAnyID(t *testing.T) {
	ids := []string{"0", "7", "007", "999999999", "1000000000", "-3", "12x", "a", ""}
	var nodes, edges []string
	for i, id := range ids {
		nodes = append(nodes, item(id, fmt.Sprintf(`"type":"core","uniq_id":%d,"paths":{"containment":"/c/core%[1]d"}`, i)))
		edges = append(edges, fmt.Sprintf(`{"source":%q,"target":%q}`, id, ids[len(ids)-1-i]))
	}
	g, err := walked([]byte(jgf(strings.Join(edges, ","), nodes...)))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range g.Edges {
		if want := (Edge{i, len(ids) - 1 - i, Containment}); e != want {
			t.Errorf("edge %d: %v, want %v", i, e, want)
		}
	}
	for _, id := range append(ids, "8", "1000000001", "b") {
		_, err := walked([]byte(jgf("", append(nodes, item(id, `"type":"core","uniq_id":1,"paths":{}`))...)))
		if taken := err != nil && strings.Contains(err.Error(), "appears twice"); taken != (id != "8" && id != "1000000001" && id != "b") {
			t.Errorf("one more vertex %q: %v", id, err)
		}
	}
}

// FuzzWalkJGF compares WalkJGF with a reader that is built on encoding/json.
func FuzzWalkJGF(f *testing.F) {
	f.Add([]byte(jgf(toNode, item("0", rootMeta), item("1", nodeMeta))))
	f.Add([]byte(jgf(toNode+`,{"source":"1","target":"0","metadata":{"subsystem":"power","name":{"a":[1.5e3,null]}}}`, item("0", rootMeta),
		item("1", `"type":"node","basename":"","name":"a\u00e417","uniq_id":-4,"size":0,"unit":"GB","exclusive":true,"status":1,"properties":{"a":"\ud83d\ude00"},"paths":{"containment":"/a/b","power":"/p"}`))))
	f.Add([]byte(`{"graph":{"edges":[{"source":"0","target":"0"}],"nodes":[{"metadata":{` + rootMeta + `},"id":"0"}]}}`))
	f.Add([]byte(`{"graph" : {"nodes":[{"id":"1 ","metadata":{"type":"a long type of text","id":-0,"rank":-9223372036854775808,"properties":null,"ephemeral":3,"fluence":{},"paths":{}}}] ,"edges":[ ]}} `))
	f.Add(flat(1))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := walked(text)
		if bytes.Contains(text, []byte("fluence")) || err != nil && strings.Contains(err.Error(), "nested deeper") {
			return // a key that only a Set has, and that only this reader checks
		}
		want, wantErr := plainly(text)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("WalkJGF: %v, and by encoding/json: %v, of %s", err, wantErr, text)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("WalkJGF of %s (-encoding/json +got):\n%s", text, diff)
		}
	})
}

// plainly reads JGF in a simple and slow way.
func plainly(text []byte) (g *Graph, err error) {
	defer func() {
		if fault, ok := recover().(plainFault); ok {
			err = fault
		}
	}()
	demand(utf8.Valid(text) && json.Valid(text), "not JSON")
	g = &Graph{}
	indexes := map[string]int{}
	graph := plainObject(plainObject(text, "graph")["graph"], "nodes", "edges")
	for i, item := range plain[[]json.RawMessage](graph["nodes"]) {
		o := plainObject(item, "id", "metadata")
		id := plain[string](o["id"])
		_, taken := indexes[id]
		demand(!taken, "id twice")
		indexes[id] = i
		g.Vertices = append(g.Vertices, plainVertex(id, o["metadata"]))
	}
	for _, item := range plain[[]json.RawMessage](graph["edges"]) {
		g.Edges = append(g.Edges, plainEdge(item, indexes))
	}
	return g, nil
}

// A plainFault is the reason for which plainly gives up.
type plainFault string

func (f plainFault) Error() string { return string(f) }

func demand(ok bool, what string) {
	if !ok {
		panic(plainFault(what))
	}
}

// plain decodes a value that must be of type T and not null.
func plain[T any](text json.RawMessage) T {
	var v T
	demand(string(text) != "null" && json.Unmarshal(text, &v) == nil, "another kind of value")
	return v
}

// plainObject decodes an object that must have these keys.
// The keys that WalkJGF knows may be there only once.
func plainObject(text json.RawMessage, required ...string) map[string]json.RawMessage {
	o := plain[map[string]json.RawMessage](text)
	for _, key := range required {
		demand(o[key] != nil, "no "+key)
	}
	plainOnce(text, plainKeys)
	return o
}

// plainOnce fails if one of these keys appears twice. Without keys it checks all keys.
func plainOnce(text json.RawMessage, keys []string) {
	d := json.NewDecoder(bytes.NewReader(text))
	_, err := d.Token()
	for seen := map[any]bool{}; err == nil && d.More(); {
		var key json.Token
		if key, err = d.Token(); err != nil {
			break
		}
		demand(!seen[key] || keys != nil && !slices.Contains(keys, key.(string)), "a key twice")
		seen[key] = true
		var value json.RawMessage
		err = d.Decode(&value)
	}
	demand(err == nil, "malformed")
}

var plainKeys = strings.Fields("graph nodes edges id metadata type basename name uniq_id rank size unit exclusive status properties paths fluence ephemeral source target subsystem")

func plainTexts(text json.RawMessage) map[string]string {
	var texts map[string]string
	plainOnce(text, nil)
	for key, value := range plainObject(text) {
		if texts == nil {
			texts = map[string]string{}
		}
		texts[key] = plain[string](value)
	}
	return texts
}

func plainVertex(id string, metadata json.RawMessage) Vertex {
	o := plainObject(metadata, "type", "paths")
	v := Vertex{Type: plain[string](o["type"]), Paths: plainTexts(o["paths"]), Rank: NoRank, Size: 1}
	if path, there := v.Paths[Containment]; there {
		demand(path != "", "no path")
		v.Path = path
		if delete(v.Paths, Containment); len(v.Paths) == 0 {
			v.Paths = nil
		}
	}
	for key, to := range map[string]*int64{"rank": &v.Rank, "size": &v.Size, "uniq_id": &v.UniqID, "id": &v.ID} {
		if o[key] != nil {
			*to = plain[int64](o[key])
		}
	}
	for key, to := range map[string]*string{"basename": &v.Basename, "name": &v.Name, "unit": &v.Unit} {
		if o[key] != nil {
			*to = plain[string](o[key])
		}
	}
	if o["exclusive"] != nil {
		v.Exclusive = plain[bool](o["exclusive"])
	}
	if o["status"] != nil {
		v.Status = Status(plain[int](o["status"]))
	}
	if p := o["properties"]; p != nil && string(p) != "null" {
		v.Properties = plainTexts(p)
	}
	v.plainDefaults(id, o)
	demand(v.Type != "" && v.Size >= 0 && (v.Status == Up || v.Status == Down), "an unsound vertex")
	for _, path := range v.Paths {
		demand(len(path) > 1 && path[0] == '/', "no path")
	}
	return v
}

func (v *Vertex) plainDefaults(id string, o map[string]json.RawMessage) {
	if o["uniq_id"] == nil {
		_, err := fmt.Sscanf(regexp.MustCompile(`^[ \t\n\v\f\r]*([+-]?[0-9]+)`).FindString(id), "%d", &v.UniqID)
		demand(err == nil, "no uniq_id")
	}
	if o["basename"] == nil {
		v.Basename = v.Type
	}
	if o["id"] == nil {
		v.ID = v.UniqID
		digits := regexp.MustCompile(`[0-9]+$`).FindString(v.Name)
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && v.Type == TypeNode && o["name"] != nil {
			v.ID = n
		}
	}
	if o["name"] == nil {
		v.Name = fmt.Sprintf("%s%d", v.Basename, v.ID)
	}
}

func plainEdge(item json.RawMessage, indexes map[string]int) Edge {
	o := plainObject(item, "source", "target")
	e := Edge{Subsystem: Containment}
	for key, to := range map[string]*int{"source": &e.Source, "target": &e.Target} {
		at, ok := indexes[plain[string](o[key])]
		demand(ok, "no such vertex")
		*to = at
	}
	if o["metadata"] != nil {
		if m := plainObject(o["metadata"]); m["subsystem"] != nil {
			e.Subsystem = plain[string](m["subsystem"])
			demand(e.Subsystem != "", "no subsystem")
		}
	}
	return e
}
