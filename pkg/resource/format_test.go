package resource

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// An answer is a match of Fluxion 0.54, in the formats that it was asked for.
type answer struct {
	Name       string
	Start, End int64
	Queue      string
	Vertices   []struct {
		Item        json.RawMessage // of the graph
		Amount      int64
		Exclusively bool
		Label       string
	}
	Formats map[string]string
}

func answers(t *testing.T) []answer {
	t.Helper()
	text, err := os.ReadFile("testdata/formats.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []answer
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (a *answer) set(t *testing.T) *Set {
	t.Helper()
	s := &Set{Start: time.Unix(a.Start, 0).UTC(), Expiration: time.Unix(a.End, 0).UTC(), Queue: a.Queue}
	for _, v := range a.Vertices {
		text := `{"graph":{"nodes":[` + string(v.Item) + `],"edges":[]}}`
		err := walkJGF([]byte(text), false, func(vertex *Vertex) error {
			s.Vertices = append(s.Vertices, Share{Vertex: *vertex, Amount: v.Amount, Exclusively: v.Exclusively, Label: v.Label})
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestFormatWritesAsFluxion(t *testing.T) {
	written := map[string]int{}
	for _, a := range answers(t) {
		t.Run(a.Name, func(t *testing.T) {
			s := a.set(t)
			for format, want := range a.Formats {
				written[format]++
				got, err := s.Format(format)
				if err != nil || string(got) != want {
					t.Errorf("Format(%s): %s, %v\nwant: %s", format, got, err, want)
				}
			}
		})
	}
	for _, format := range append(Formats(), "an unknown one") {
		if written[format] == 0 {
			t.Errorf("no answer is in format %s", format)
		}
	}
}

// TestFormatWritesAgainWhatParseRReads checks that JGF,
// and R with a graph, have all that Format needs of a set.
func TestFormatWritesAgainWhatParseRReads(t *testing.T) {
	for _, a := range answers(t) {
		for _, format := range []string{FormatJGF, FormatRV1, FormatRV1NoSched} {
			text, ok := a.Formats[format]
			if !ok {
				continue
			}
			t.Run(a.Name+" "+format, func(t *testing.T) {
				s, err := ParseR([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := s.Format(format); err != nil || string(got) != text {
					t.Errorf("Format(%s): %s, %v\nwant: %s", format, got, err, text)
				}
			})
		}
	}
}

func TestFormatOfWhatHasNoPlaceInR(t *testing.T) {
	core := exclusively(placed(2, "core", "/c/n1/core0", 0, 1))
	node := placed(1, TypeNode, "/c/n1", 1, 1)
	milli := placed(2, "core", "/c/n1/core0", 0, 1)
	milli.Unit, milli.Amount = "m", 250
	strange := func(change func(*Share), s Share) Share { change(&s); return s }
	const R = `{"version": 1, "execution": {"R_lite": [{"rank": "1", "children": {"core": "0"}}], "nodelist": ["n1"], "starttime": 0, "expiration": 3153600000}}` + "\n"
	cases := map[string]struct {
		shares         []Share
		rlite, nosched string
		err            string
	}{
		"a core below a node":       {shares: []Share{core, node}, rlite: `[{"rank": "1", "children": {"core": "0"}}]` + "\n", nosched: R},
		"nothing":                   {rlite: "", nosched: ""},
		"a node alone":              {shares: []Share{node}},
		"a core without a node":     {shares: []Share{core}},
		"a core behind the node":    {shares: []Share{node, core}},
		"an amount":                 {shares: []Share{milli, node}},
		"a node without cores more": {shares: []Share{core, node, placed(7, TypeNode, "/c/n2", 2, 2)}, rlite: `[{"rank": "1", "children": {"core": "0"}}]` + "\n", nosched: R},
		"no rank":                   {shares: []Share{core, strange(func(s *Share) { s.Rank = NoRank }, node)}, err: "vertex 1 (node n1): rank: -1: R_lite goes by rank"},
		"an id below 0":             {shares: []Share{strange(func(s *Share) { s.ID = -1 }, core), node}, err: "vertex 0 (core core0): id: -1: R_lite has no negative ids"},
		"no name for a hostlist":    {shares: []Share{core, strange(func(s *Share) { s.Name = "a,b" }, node)}, err: `vertex 1 (node a,b): name: "a,b": cannot stand in a hostlist`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &Set{Vertices: tc.shares}
			want := map[string]string{FormatRLite: tc.rlite, FormatRV1NoSched: tc.nosched}
			for format, text := range want {
				wantErr := cmp.Or(tc.err, "<nil>")
				if tc.err == "" && format == FormatRLite && text == "" {
					wantErr = "rlite: neither cores nor gpus of a node to write"
				}
				got, err := s.Format(format)
				if string(got) != text || fmt.Sprint(err) != wantErr {
					t.Errorf("Format(%s): %s, %v\nwant: %s, %s", format, got, err, text, wantErr)
				}
			}
			if _, err := s.Format(FormatJGF); err != nil {
				t.Errorf("Format(jgf): %v", err)
			}
		})
	}
}

func TestFormatOfNoEndIsTheEndOfTheGraph(t *testing.T) {
	cases := map[string]struct {
		start time.Time
		want  string
	}{
		"no start":       {time.Time{}, `"starttime": 0, "expiration": 3153600000}`},
		"a later start":  {time.Unix(20, 0), `"starttime": 20, "expiration": 3153600000}`},
		"before the end": {time.Unix(3153599999, 5e8), `"starttime": 3153599999.5, "expiration": 3153600000}`},
		"at the end":     {time.Unix(3153600000, 0), `"starttime": 3153600000, "expiration": 6307200000}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &Set{Start: tc.start, Vertices: []Share{exclusively(placed(2, "core", "/c/n1/core0", 0, 1)), placed(1, TypeNode, "/c/n1", 1, 1)}}
			text, err := s.Format(FormatRV1NoSched)
			if err != nil || !bytes.Contains(text, []byte(tc.want)) {
				t.Errorf("Format: %s, %v\nwant in it: %s", text, err, tc.want)
			}
		})
	}
}

func TestFormatSpacesOutsideTextsOnly(t *testing.T) {
	node := placed(1, TypeNode, "/c/n1", 1, 1)
	node.Properties = map[string]string{`a:"b",\`: `{"c":1,"d":2}`}
	text, err := (&Set{Vertices: []Share{node}}).Format(FormatJGF)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"properties": {"a:\"b\",\\": "{\"c\":1,\"d\":2}"}`; !bytes.Contains(text, []byte(want)) {
		t.Errorf("Format(jgf): %s\nwant in it: %s", text, want)
	}
	if s, err := ParseR(text); err != nil || s.Vertices[0].Properties[`a:"b",\`] != `{"c":1,"d":2}` {
		t.Errorf("ParseR: %+v, %v", s, err)
	}
}
