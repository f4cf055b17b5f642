package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/traverser"
	"github.com/flux-k8s/fluence/test/golden"
)

// A graphTest is an engine with a graph that was added.
type graphTest struct {
	t     testing.TB
	e     *engine.Engine
	epoch match.Epoch
}

// begin returns an engine with an epoch and without a graph.
func begin(t testing.TB) graphTest {
	t.Helper()
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return 1 }, Graph: traverser.DefaultOptions()})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := e.Reset(t.Context())
	if err == nil {
		err = e.Ready(t.Context(), epoch)
	}
	if err != nil {
		t.Fatal(err)
	}
	return graphTest{t, e, epoch}
}

func (l graphTest) add(text []byte) error { return l.e.AddSubgraph(l.t.Context(), l.epoch, text) }

func (l graphTest) match(op match.Op, id match.JobID, js *jobspec.Jobspec) (*match.Allocation, error) {
	return l.e.Match(l.t.Context(), match.Request{
		Epoch: l.epoch, Op: op, ID: id, Jobspec: js, Now: time.Unix(0, 0), Duration: time.Hour,
	})
}

// bookSomeJobs books some jobs and a reservation.
func (l graphTest) bookSomeJobs() {
	l.t.Helper()
	for id, r := range []jobspec.Resource{
		several("slot", 1, several("core", 1)),
		several("slot", 1, several("node", 1)),
		several("slot", 1, several("cluster", 1)),
	} {
		_, err := l.match(match.AllocateOrElseReserve, match.JobID(id+1), &jobspec.Jobspec{Version: 1, Resources: []jobspec.Resource{r}})
		if refusal := (*match.Refusal)(nil); err != nil && !errors.As(err, &refusal) && !errors.Is(err, match.ErrInvalid) {
			l.t.Fatal(err)
		}
	}
}

// state renders everything that an engine lists, and what it would answer.
func (l graphTest) state() string {
	l.t.Helper()
	var b strings.Builder
	ctx := l.t.Context()
	write := func(what string, value any, err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
		text, err := json.Marshal(value)
		if err != nil {
			l.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s: %s\n", what, text)
	}
	fmt.Fprintf(&b, "jobs: %s\n", l.jobs())
	nodes, err := l.e.Nodes(ctx, l.epoch, "", match.MaxNodesPerPage)
	write("nodes", nodes, err)
	for _, criteria := range []string{"status=up", "status=down", "sched-now=allocated", "sched-future=reserved"} {
		set, err := l.e.Find(ctx, l.epoch, criteria, time.Unix(0, 0))
		write(criteria, set, err)
	}
	for _, r := range []jobspec.Resource{
		several("slot", 1, several("core", 1)), several("slot", 1, several("node", 1)), several("slot", 2, several("gpu", 1)),
		several("node", 1, several("slot", 2, several("core", 1))),
	} {
		a, err := l.match(match.WithoutAllocatingFuture, 99, &jobspec.Jobspec{Version: 1, Resources: []jobspec.Resource{r}})
		fmt.Fprintf(&b, "answer: %v\n", err)
		write("answer", a, nil)
	}
	return b.String()
}

// jobs renders the allocations and reservations.
func (l graphTest) jobs() string {
	l.t.Helper()
	jobs, err := l.e.Jobs(l.t.Context(), l.epoch)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(asJSON(l.t, jobs))
}

// wantUnchanged fails unless an engine's state is still the same.
func (l graphTest) wantUnchanged(before string) {
	l.t.Helper()
	after := l.state()
	if after == before {
		return
	}
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			l.t.Fatalf("the engine's state has changed:\n was: %.500s\n  is: %.500s", was[i], is[i])
		}
	}
}

// releaseAll releases all jobs, and checks that the graph is free then.
func (l graphTest) releaseAll() {
	l.t.Helper()
	jobs, err := l.e.Jobs(l.t.Context(), l.epoch)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, j := range jobs {
		if err := l.e.Release(l.t.Context(), l.epoch, j.ID); err != nil {
			l.t.Fatal(err)
		}
	}
	set, err := l.e.Find(l.t.Context(), l.epoch, "sched-now=allocated or sched-future=reserved", time.Unix(0, 0))
	if err != nil || len(set.Vertices) > 0 {
		l.t.Errorf("after all jobs are released %d vertices are held, %v", len(set.Vertices), err)
	}
}

// tiny returns a graph of a cluster and two nodes, each with two cores and a gpu.
func tiny() map[string]any {
	const text = `{"graph":{"nodes":[
		{"id":"0","metadata":{"type":"cluster","basename":"cluster","name":"cluster0","id":0,"uniq_id":0,"rank":-1,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0"}}},
		{"id":"1","metadata":{"type":"node","basename":"node","name":"node0","id":0,"uniq_id":1,"rank":0,"size":1,"unit":"","exclusive":false,"properties":{"fast":""},"paths":{"containment":"/cluster0/node0"}}},
		{"id":"2","metadata":{"type":"core","basename":"core","name":"core0","id":0,"uniq_id":2,"rank":0,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0/node0/core0"}}},
		{"id":"3","metadata":{"type":"core","basename":"core","name":"core1","id":1,"uniq_id":3,"rank":0,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0/node0/core1"}}},
		{"id":"4","metadata":{"type":"gpu","basename":"gpu","name":"gpu0","id":0,"uniq_id":4,"rank":0,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0/node0/gpu0"}}},
		{"id":"5","metadata":{"type":"node","basename":"node","name":"node1","id":1,"uniq_id":5,"rank":1,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0/node1"}}},
		{"id":"6","metadata":{"type":"core","basename":"core","name":"core0","id":0,"uniq_id":6,"rank":1,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0/node1/core0"}}},
		{"id":"7","metadata":{"type":"core","basename":"core","name":"core1","id":1,"uniq_id":7,"rank":1,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0/node1/core1"}}},
		{"id":"8","metadata":{"type":"gpu","basename":"gpu","name":"gpu0","id":0,"uniq_id":8,"rank":1,"size":1,"unit":"","exclusive":false,"paths":{"containment":"/cluster0/node1/gpu0"}}}],
	"edges":[
		{"source":"0","target":"1"},{"source":"1","target":"2"},{"source":"1","target":"3"},{"source":"1","target":"4"},
		{"source":"0","target":"5"},{"source":"5","target":"6"},{"source":"5","target":"7"},{"source":"5","target":"8"}]}}`
	var g map[string]any
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		panic(err)
	}
	return g
}

// object returns the object at a place in a JSON value.
func object(v any, path ...any) map[string]any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			v = v.(map[string]any)[key]
		case int:
			v = v.([]any)[key]
		}
	}
	return v.(map[string]any)
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestGraphsWrongInOnePlace adds graphs that are wrong in one place, to an engine with a graph and
// to one without. The error has to name the place, and what is held has to stay. A graph that is
// accepted all the same has to be usable.
func TestGraphsWrongInOnePlace(t *testing.T) {
	meta := func(i int, key string, value any) func(g map[string]any) {
		return func(g map[string]any) { object(g, "graph", "nodes", i, "metadata")[key] = value }
	}
	edge := func(i int, key string, value any) func(g map[string]any) {
		return func(g map[string]any) { object(g, "graph", "edges", i)[key] = value }
	}
	appended := func(list string, v any) func(g map[string]any) {
		return func(g map[string]any) {
			in := object(g, "graph")
			in[list] = append(in[list].([]any), v)
		}
	}
	cases := map[string]struct {
		change func(g map[string]any)
		want   string // in the error; empty if the graph may be accepted
	}{
		"two vertices of one id":     {func(g map[string]any) { object(g, "graph", "nodes", 7)["id"] = "6" }, "6"},
		"two children of one number": {meta(7, "uniq_id", 6), "uniq_id 6"},
		"an edge from nowhere":       {edge(3, "source", "77"), "77"},
		"an edge to nowhere":         {edge(3, "target", "78"), "78"},
		"an edge twice":              {appended("edges", map[string]any{"source": "5", "target": "8"}), "twice"},
		"a second root":              {meta(5, "paths", map[string]any{"containment": "/cluster1"}), "second root"},
		"no root":                    {meta(0, "paths", map[string]any{"containment": "/a/b"}), "root"},
		"one path twice": {func(g map[string]any) {
			meta(7, "paths", map[string]any{"containment": "/cluster0/node1/core0"})(g)
			meta(7, "name", "core0")(g)
			meta(7, "id", 0)(g)
		}, "/cluster0/node1/core0"},
		"a circle":                     {appended("edges", map[string]any{"source": "4", "target": "1"}), ""},
		"a circle by the root":         {appended("edges", map[string]any{"source": "4", "target": "0"}), ""},
		"an edge to itself":            {appended("edges", map[string]any{"source": "4", "target": "4"}), ""},
		"a negative size":              {meta(6, "size", -1), "-1"},
		"a size of zero":               {meta(6, "size", 0), ""},
		"a size beyond all numbers":    {meta(6, "size", json.Number("9223372036854775808")), "9223372036854775808"},
		"sizes whose sum is too large": {func(g map[string]any) { meta(6, "size", math.MaxInt64)(g); meta(7, "size", math.MaxInt64)(g) }, "9223372036854775807"},
		"a rank beyond all numbers":    {meta(6, "rank", json.Number("1e300")), "rank"},
		"a number beyond all numbers":  {meta(6, "uniq_id", json.Number("-9223372036854775809")), "-9223372036854775809"},
		"an id at the end of numbers":  {meta(6, "id", math.MaxInt64), ""},
		"the least id":                 {meta(6, "id", math.MinInt64), ""},
		"a node's id at the end":       {meta(5, "id", math.MaxInt64), ""},
		"a path that is none":          {meta(6, "paths", map[string]any{"containment": "core0"}), "core0"},
	}
	for _, of := range []struct {
		name string
		at   func(g map[string]any) map[string]any
	}{
		{"vertex", func(g map[string]any) map[string]any { return object(g, "graph", "nodes", 6) }},
		{"metadata", func(g map[string]any) map[string]any { return object(g, "graph", "nodes", 6, "metadata") }},
		{"root's metadata", func(g map[string]any) map[string]any { return object(g, "graph", "nodes", 0, "metadata") }},
		{"edge", func(g map[string]any) map[string]any { return object(g, "graph", "edges", 3) }},
		{"graph", func(g map[string]any) map[string]any { return object(g, "graph") }},
		{"all", func(g map[string]any) map[string]any { return g }},
	} {
		for key := range of.at(tiny()) {
			cases[of.name+" without "+key] = struct {
				change func(g map[string]any)
				want   string
			}{func(g map[string]any) { delete(of.at(g), key) }, ""}
			for what, value := range map[string]any{"a list": []any{1}, "an object": map[string]any{"x": 1}, "null": nil, "true": true, "1.5": 1.5, "text": "text"} {
				cases[of.name+" with "+key+" as "+what] = struct {
					change func(g map[string]any)
					want   string
				}{func(g map[string]any) { of.at(g)[key] = value }, ""}
			}
		}
	}
	refused := 0
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		tc := cases[name]
		t.Run(name, func(t *testing.T) {
			g := tiny()
			tc.change(g)
			text := asJSON(t, g)
			fresh := begin(t)
			err := fresh.add(text)
			if err == nil && tc.want != "" {
				t.Fatalf("is taken, want an error that says %q", tc.want)
			}
			if err == nil {
				fresh.bookSomeJobs()
				fresh.releaseAll()
				return
			}
			refused++
			wantErrorNames(t, err, text, tc.want)
			before := fresh.state()
			fresh.wantUnchanged(before)
			if err := fresh.add(asJSON(t, tiny())); err != nil {
				t.Fatalf("after the wrong graph the right one: %v", err)
			}
			fresh.bookSomeJobs()
			before = fresh.state()
			if err := fresh.add(text); err == nil {
				t.Error("is taken by an engine that has the right one")
			} else {
				wantErrorNames(t, err, text, "")
			}
			fresh.wantUnchanged(before)
			fresh.releaseAll()
		})
	}
	t.Logf("%d of %d are refused", refused, len(cases))
}

var word = regexp.MustCompile(`[\pL\d_/-]+`)

// plainWords are words that errors and their subjects have in common.
var plainWords = []string{"graph", "jobspec", "id", "a", "in", "version", "resources"}

// wantErrorNames fails unless an error is ErrInvalid, or a parser's, and names something from the text, a
// place in it, or a key that is missing.
func wantErrorNames(t testing.TB, err error, text []byte, want string) {
	t.Helper()
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an error that says %q", err, want)
	}
	in := word.FindAllString(string(text), -1)
	for _, w := range word.FindAllString(err.Error(), -1) {
		if slices.Contains(in, w) && !slices.Contains(plainWords, w) {
			return
		}
	}
	for _, place := range []string{"byte ", "line ", "no ", "missing", "root", "empty", "load_format"} {
		if strings.Contains(err.Error(), place) {
			return
		}
	}
	t.Errorf("the error names nothing that is in the text: %v\n%.1000s", err, text)
}

// TestDeepGraph checks that a chain of vertices is accepted as deep as the engine walks, and
// refused if it is deeper.
func TestDeepGraph(t *testing.T) {
	chain := func(n int) []byte {
		var vertices, edges []any
		path := ""
		for i := range n {
			path += fmt.Sprintf("/box%d", i)
			vertices = append(vertices, map[string]any{"id": fmt.Sprint(i), "metadata": map[string]any{
				"type": "box", "id": i, "uniq_id": i, "rank": -1, "size": 1, "paths": map[string]any{"containment": path},
			}})
			if i > 0 {
				edges = append(edges, map[string]any{"source": fmt.Sprint(i - 1), "target": fmt.Sprint(i)})
			}
		}
		return asJSON(t, map[string]any{"graph": map[string]any{"nodes": vertices, "edges": edges}})
	}
	l := begin(t)
	if err := l.add(chain(100)); err != nil {
		t.Fatalf("100 levels: %v", err)
	}
	l.bookSomeJobs()
	before := l.state()
	for _, n := range []int{1000, 3000} {
		err := l.add(chain(n))
		if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), "deeper") {
			t.Errorf("%d levels: %.200s, want ErrInvalid that says so", n, err)
		}
		l.wantUnchanged(before)
	}
}

// TestGoldenErrors checks that what Fluxion refuses is refused here too: each recorded graph,
// options or jobspec. The error has to name what is wrong, and nothing may change.
func TestGoldenErrors(t *testing.T) {
	cases, err := golden.Load("../../test/testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i := range cases {
		c := &cases[i]
		if !slices.Contains([]string{"bad", "yaml", "graph", "option"}, c.Family) {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			options, err := c.OptionsText()
			if err != nil {
				t.Fatal(err)
			}
			l := begin(t)
			if !c.Expect.Init.OK {
				count[c.Family+" refused at once"]++
				if _, err := traverser.ParseOptions(options); err != nil {
					wantErrorNames(t, err, options, "")
					return
				}
				if err := l.add(asJSON(t, tiny())); err != nil {
					t.Fatal(err)
				}
				l.bookSomeJobs()
				before := l.state()
				err := l.add(c.GraphText)
				if !errors.Is(err, match.ErrInvalid) {
					t.Fatalf("AddSubgraph() = %v, want ErrInvalid", err)
				}
				wantErrorNames(t, err, c.GraphText, "")
				l.wantUnchanged(before)
				return
			}
			if err := l.add(c.GraphText); err != nil {
				t.Fatal(err)
			}
			l.bookSomeJobs()
			before := l.state()
			for k, s := range c.Steps {
				text := c.Jobspecs[s.Jobspec]
				if status := c.Expect.Steps[k].Status; status != golden.Invalid && status != "error" {
					continue
				}
				js, err := jobspec.Parse([]byte(text))
				if err == nil {
					_, err = l.match(match.Allocate, 50, js)
				}
				if err == nil {
					t.Fatalf("%q is answered", text)
				}
				if refusal := (*match.Refusal)(nil); errors.As(err, &refusal) {
					continue // the graph is too full to decide
				}
				count[c.Family+" jobspecs"]++
				wantErrorNames(t, err, []byte(text), "")
				l.wantUnchanged(before)
			}
		})
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%-24s %d", what, count[what])
	}
}
