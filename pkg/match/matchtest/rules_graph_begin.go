package matchtest

import (
	"context"
	"errors"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var graphBeginRules = map[string]graphRule{
	"where nodes were put no graph is added": func(t *testing.T, s *graphSubject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(1)))
		before := s.page(t, "", 9)
		wantInvalid(t, "AddSubgraph()", s.graphs.AddSubgraph(t.Context(), s.epoch, jgf(t, machine(1))))
		same(t, "the nodes", s.page(t, "", 9), before)
		s.places(t, 2, Slots("a", 1, Cores(1)), "0@n1")
	},
	"where a graph was added no node is put": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)))
		check := s.unchanged(t)
		wantInvalid(t, "PutNode()", s.PutNode(t.Context(), s.epoch, Node("n1", nil, Cores(2))))
		check()
	},
	"a new epoch may begin the other way": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)))
		s.load(t, Node("n1", nil, Cores(2)))
		s.holding(t, "")
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1")
		s.loadGraph(t, machine(2))
		s.holding(t, "")
		s.stands(t, 1, Slots("a", 1, whole("core", 2)), "0@node0")
	},
	"a graph that is refused does not begin an epoch": func(t *testing.T, s *graphSubject) {
		s.reset(t)
		wantInvalid(t, "AddSubgraph()", s.graphs.AddSubgraph(t.Context(), s.epoch, []byte(`{"graph":{}}`)))
		s.put(t, Node("n1", nil, Cores(2)))
		s.ready(t)
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1")
	},
	"an engine that was never reset is stale": func(t *testing.T, s *graphSubject) {
		for _, s.epoch = range []match.Epoch{0, 7} {
			s.allFail(t.Context(), t, match.ErrStale)
		}
	},
	"a call of an earlier epoch is stale and changes nothing": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		earlier := s.epoch
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)))
		check, now := s.unchanged(t), s.epoch
		s.epoch = earlier
		s.allFail(t.Context(), t, match.ErrStale)
		s.epoch = now
		check()
	},
	"a context that has ended is its own error and changes nothing": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		check := s.unchanged(t)
		s.allFail(gone(t), t, context.Canceled)
		check()
	},
	"before ready all but a match is taken": func(t *testing.T, s *graphSubject) {
		s.reset(t)
		s.add(t, part(machine(3), func(path string) bool { return !below(path, "/cluster0/rack2") }))
		s.add(t, part(machine(3), func(path string) bool { return path == "/cluster0" || below(path, "/cluster0/rack2") }))
		s.removeSubgraph(t, "/cluster0/rack1")
		s.setStatus(t, "/cluster0/rack0/node0", resource.Down)
		same(t, "the nodes", leaves(s.find(t, everything), "node"), []string{"/rack0/node0", "/rack0/node1", "/rack2/node4", "/rack2/node5"})
		s.fails(t, 1, Slots("a", 1, whole("core", 1)), match.ErrUnavailable)
		s.ready(t)
		s.stands(t, 1, Slots("a", 3, whole("core", 4)), "0@node1 1@node4 2@node5")
	},
	"the text of a graph is read during the call alone": func(t *testing.T, s *graphSubject) {
		s.reset(t)
		text := jgf(t, machine(1))
		if err := s.graphs.AddSubgraph(t.Context(), s.epoch, text); err != nil {
			t.Fatal(err)
		}
		before := s.find(t, everything)
		for i := range text {
			text[i] = 'x'
		}
		same(t, "the graph", s.find(t, everything), before)
		s.ready(t)
		s.stands(t, 1, Slots("a", 1, whole("core", 2)), "0@node0")
	},
}

// allFail calls every method of graphs, and checks that each fails with want. The arguments would
// change a graph of one rack.
func (s *graphSubject) allFail(ctx context.Context, t *testing.T, want error) {
	t.Helper()
	_, found := s.graphs.Find(ctx, s.epoch, everything, Now)
	for name, err := range map[string]error{
		"AddSubgraph":    s.graphs.AddSubgraph(ctx, s.epoch, jgf(t, machine(3))),
		"RemoveSubgraph": s.graphs.RemoveSubgraph(ctx, s.epoch, "/cluster0/rack0/node1"),
		"SetStatus":      s.SetStatus(ctx, s.epoch, "/cluster0/rack0/node1", resource.Down),
		"Find":           found,
	} {
		if !errors.Is(err, want) {
			t.Errorf("in epoch %d %s = %v, want the error %q", s.epoch, name, err, want)
		}
	}
}
