package reapitest_test

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// jgf is a graph of one node with one vertex of a type.
func jgf(poolType string) string {
	return `{"graph":{"nodes":[` +
		`{"id":"0","metadata":{"type":"cluster","id":0,"rank":-1,"paths":{"containment":"/cluster0"}}},` +
		`{"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/cluster0/node0"}}},` +
		`{"id":"2","metadata":{"type":"` + poolType + `","id":0,"rank":0,"paths":{"containment":"/cluster0/node0/` + poolType + `0"}}}],` +
		`"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}`
}

// options are options with filters for types.
func options(types ...string) string {
	return `{"load_format":"jgf","match_format":"jgf","matcher_policy":"low","prune_filters":"ALL:` + strings.Join(types, ",ALL:") + `"}`
}

// The facts of release 0.54.0: the table of type names belongs to the process, and the first graph
// that loads closes it, also for names in filters. Names in the filters of that graph are known.
func TestTheFirstGraphOfAProcessClosesItsTableOfTypes(t *testing.T) {
	type load struct{ poolType, options string }
	cases := map[string]struct {
		release reapitest.Release
		before  load
		then    load
		want    string // the new name that is refused
	}{
		"the same types":                {reapitest.V054, load{"memory", options("core")}, load{"memory", options("core")}, ""},
		"a name known from the start":   {reapitest.V054, load{"memory", options("core")}, load{"gpu", options("socket")}, ""},
		"a new type":                    {reapitest.V054, load{"core", options("core")}, load{"memory", options("core")}, "memory"},
		"a new type only in a filter":   {reapitest.V054, load{"core", options("core")}, load{"core", options("core", "pods")}, "pods"},
		"a type named in a filter once": {reapitest.V054, load{"core", options("core", "memory")}, load{"memory", options("core")}, ""},
		"release 0.52":                  {reapitest.V052, load{"core", options("core")}, load{"memory", options("core")}, "memory"},
		"release 0.46":                  {reapitest.V046, load{"core", options("core")}, load{"memory", options("core")}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := reapitest.NewProcess()
			first := p.Open(tc.release)
			if err := first.InitContext(jgf(tc.before.poolType), tc.before.options); err != nil {
				t.Fatalf("the first graph: %v: %s", err, first.GetErrMsg())
			}
			first.Destroy() // It does not open the table.
			second := p.Open(tc.release)
			err := second.InitContext(jgf(tc.then.poolType), tc.then.options)
			says := second.GetErrMsg()
			if (err != nil) != (tc.want != "") {
				t.Fatalf("the second graph: %v: %s", err, says)
			}
			if want := "This interner is finalized and must be open to add strings, found new string: '" + tc.want + "': Cannot allocate memory"; tc.want != "" && !strings.Contains(says, want) {
				t.Errorf("the text is %q, want it to contain %q", says, want)
			}
			if err := reapitest.NewProcess().Open(tc.release).InitContext(jgf(tc.then.poolType), tc.then.options); err != nil {
				t.Errorf("in another process: %v", err)
			}
		})
	}
}

func TestAJobspecWithATypeThatTheProcessDoesNotKnowIsInvalid(t *testing.T) {
	l := reapitest.NewProcess().Open(reapitest.V054)
	if err := l.InitContext(jgf("core"), options("core", "memory")); err != nil {
		t.Fatal(err)
	}
	ask := func(poolType string) (text string, err error) {
		l.ClearErrMsg()
		_, _, _, _, _, err = l.Match(1, `{"version":9999,"resources":[{"type":"slot","label":"s","count":1,"with":[{"type":"`+poolType+
			`","count":1}]}],"tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}}}`)
		return l.GetErrMsg(), err
	}
	if text, err := ask("unheard"); err == nil || !strings.Contains(text, "must be a resource type known to fluxion") {
		t.Errorf("an unknown type: %v, %q", err, text)
	}
	if text, err := ask("memory"); err == nil || text != "" {
		t.Errorf("a type that only the process knows: %v, %q, want no room", err, text)
	}
	if _, err := ask("core"); err != nil {
		t.Errorf("a type of the graph: %v", err)
	}
}

func TestAGraphThatGrows(t *testing.T) {
	p := reapitest.NewProcess()
	g := p.OpenGrower()
	if err := g.InitContext(jgf("core"), options("core")); err != nil {
		t.Fatal(err)
	}
	room := func(poolType string) bool {
		g.ClearErrMsg()
		_, r, _, _, _, err := g.Match(5, `{"version":9999,"resources":[{"type":"slot","label":"s","count":1,"with":[{"type":"`+poolType+
			`","count":1}]}],"tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}}}`)
		return err == nil && r != ""
	}
	grown := strings.ReplaceAll(jgf("memory"), "node0", "node1")
	grown = strings.ReplaceAll(strings.ReplaceAll(grown, `"id":"1"`, `"id":"11"`), `"id":"2"`, `"id":"12"`)
	grown = strings.ReplaceAll(strings.ReplaceAll(grown, `"target":"1"`, `"target":"11"`), `"source":"1","target":"2"`, `"source":"11","target":"12"`)
	for range 2 { // The same again adds nothing.
		if err := g.AddSubgraph(grown); err != nil {
			t.Fatalf("AddSubgraph() = %v: %s", err, g.GetErrMsg())
		}
		if !room("memory") || !room("core") {
			t.Error("what is new, or what was there, has no room")
		}
	}
	if err := g.RemoveSubgraph("/cluster0/node1"); err != nil || room("memory") {
		t.Errorf("RemoveSubgraph() = %v, and what was removed has room: %v", err, room("memory"))
	}
	if err := g.RemoveSubgraph("/cluster0/node1"); err == nil || !strings.Contains(g.GetErrMsg(), "node1") {
		t.Errorf("RemoveSubgraph() of no vertex = %v, %q", err, g.GetErrMsg())
	}
	// The new type stays known, and the table is closed for others.
	if err := p.Open(reapitest.V054).InitContext(jgf("memory"), options("core")); err != nil {
		t.Errorf("a graph with the type that came later: %v", err)
	}
	if err := p.Open(reapitest.V054).InitContext(jgf("pods"), options("core")); err == nil {
		t.Error("a graph with a new type loads")
	}
}
