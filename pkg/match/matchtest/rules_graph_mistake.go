package matchtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A mistake is a graph that no engine accepts, and the words that the error must have.
type mistake struct{ nodes, edges, says string }

const (
	okRoot = `{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}}`
	okNode = `,{"id":"71","metadata":{"type":"node","id":7,"rank":7,"paths":{"containment":"/cluster0/node7"}}}`
	okEdge = `{"source":"0","target":"71"}`
)

var mistakes = map[string]mistake{
	"a vertex without a type": {okRoot + `,{"id":"71","metadata":{"paths":{"containment":"/cluster0/x7"}}}`, okEdge, "71"},
	"a vertex without paths":  {okRoot + `,{"id":"71","metadata":{"type":"node"}}`, okEdge, "71"},
	"a size in words": {
		okRoot + `,{"id":"71","metadata":{"type":"memory","size":"much","paths":{"containment":"/cluster0/m7"}}}`, okEdge, "much",
	},
	"a rank that is none":        {okRoot + `,{"id":"71","metadata":{"type":"node","rank":"r","paths":{"containment":"/cluster0/node7"}}}`, okEdge, "rank"},
	"a status not known":         {okRoot + `,{"id":"71","metadata":{"type":"node","status":5,"paths":{"containment":"/cluster0/node7"}}}`, okEdge, "5"},
	"properties that are a list": {okRoot + `,{"id":"71","metadata":{"type":"node","properties":["p"],"paths":{"containment":"/cluster0/node7"}}}`, okEdge, "properties"},
	"the same vertex twice":      {okRoot + okNode + okNode, okEdge, "71"},
	"an edge to nowhere":         {okRoot + okNode, `{"source":"0","target":"99"}`, "99"},
	"an edge from nowhere":       {okRoot + okNode, `{"source":"98","target":"71"}`, "98"},
	"an edge without a source":   {okRoot + okNode, `{"target":"71"}`, "source"},
	"the same edge twice":        {okRoot + okNode, okEdge + "," + okEdge, "71"},
	"a second root":              {okRoot + `,{"id":"71","metadata":{"type":"cluster","id":1,"paths":{"containment":"/cluster1"}}}`, ``, "root"},
	"no root":                    {okNode[1:], ``, "root"},
}

// texts are mistakes in the text itself.
var texts = map[string]struct{ text, says string }{
	"nothing":          {"", ""},
	"no JSON":          {"graph", ""},
	"half a text":      {`{"graph":{"nodes":[`, ""},
	"a list":           {"[]", ""},
	"no graph":         {"{}", "graph"},
	"no vertices":      {`{"graph":{"edges":[]}}`, "nodes"},
	"no edges":         {`{"graph":{"nodes":[` + okRoot + `]}}`, "edges"},
	"text after it":    {`{"graph":{"nodes":[` + okRoot + `],"edges":[]}} {}`, ""},
	"letters not UTF8": {`{"graph":{"nodes":[` + strings.Replace(okRoot, "cluster", "\xff", 1) + `],"edges":[]}}`, "UTF-8"},
}

var graphMistakeRules = map[string]graphRule{
	"a graph that is none is invalid, says what is wrong, and changes nothing": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)))
		check := s.unchanged(t)
		for _, name := range sortedKeys(mistakes) {
			m := mistakes[name]
			text := fmt.Sprintf(`{"graph":{"nodes":[%s],"edges":[%s]}}`, m.nodes, m.edges)
			wantInvalid(t, name+": AddSubgraph()", s.graphs.AddSubgraph(t.Context(), s.epoch, []byte(text)), m.says)
		}
		for _, name := range sortedKeys(texts) {
			wantInvalid(t, name+": AddSubgraph()", s.graphs.AddSubgraph(t.Context(), s.epoch, []byte(texts[name].text)), texts[name].says)
		}
		check()
	},
	"the first graph of an epoch may be refused, too": func(t *testing.T, s *graphSubject) {
		for _, name := range sortedKeys(mistakes) {
			m := mistakes[name]
			s.reset(t)
			text := fmt.Sprintf(`{"graph":{"nodes":[%s],"edges":[%s]}}`, m.nodes, m.edges)
			wantInvalid(t, name+": AddSubgraph()", s.graphs.AddSubgraph(t.Context(), s.epoch, []byte(text)), m.says)
			s.add(t, machine(1))
			s.ready(t)
			s.stands(t, 1, Slots("a", 1, whole("core", 2)), "0@node0")
		}
	},
	"a graph of another root is invalid": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		check := s.unchanged(t)
		other := `{"graph":{"nodes":[{"id":"0","metadata":{"type":"cluster","name":"elsewhere","paths":{"containment":"/elsewhere"}}}],"edges":[]}}`
		wantInvalid(t, "AddSubgraph()", s.graphs.AddSubgraph(t.Context(), s.epoch, []byte(other)), "elsewhere")
		check()
	},
	"arguments of a match that go only with nodes that were put": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		check := s.unchanged(t)
		s.fails(t, 1, Slots("a", 1, whole("core", 1)), match.ErrInvalid, nearTo("node0"))
		check()
		s.give(t, 1, Slots("a", 1, whole("core", 1)), forHolder("x"))
	},
	"an unknown policy is invalid": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		for _, policy := range []string{"elsewhere", "policy=elsewhere", "policy=low colour=red"} {
			_, err := s.try(t.Context(), 1, Slots("a", 1, whole("core", 1)), underPolicy(policy))
			if !errors.Is(err, match.ErrInvalid) {
				t.Errorf("under policy %q Match() = %v, want the error %q", policy, err, match.ErrInvalid)
			}
		}
		s.holding(t, "")
	},
	"a request without a jobspec, or for job 0, is invalid": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.fails(t, 1, nil, match.ErrInvalid)
		s.fails(t, 0, Slots("a", 1, whole("core", 1)), match.ErrInvalid)
		s.fails(t, 1, Slots("a", 1, whole("core", 1)), match.ErrInvalid, as(match.Op(99)))
		s.fails(t, 1, Slots("a", 2, whole("core", 1)), match.ErrInvalid, keys("x"))
		s.fails(t, 1, Slots("a", 2, whole("core", 1)), match.ErrInvalid, keys("x", "x"))
		s.holding(t, "")
	},
}
