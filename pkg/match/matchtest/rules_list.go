package matchtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var listRules = map[string]rule{
	"an empty graph lists nothing": {test: func(t *testing.T, s *subject) {
		s.load(t)
		s.lists(t, "", 9)
	}},
	"nodes are listed by name as they were put": {test: func(t *testing.T, s *subject) {
		n2 := WithProperties(Node("n2", [][2]string{{"zone", "z1"}, {"rack", "r1"}}, Cores(4), Memory(8)), "zone", "z1")
		n1 := WithStatus(Node("n1", [][2]string{{"zone", "z1"}, {"rack", "r2"}}, Cores(2), Memory(4)), resource.Down)
		s.load(t, n2, n1)
		nodes := s.page(t, "", 9)
		if len(nodes) != 2 {
			t.Fatalf("%d nodes are listed, want 2", len(nodes))
		}
		for i, put := range []*resource.Graph{n1, n2} {
			if nodes[i].Name != nodeOf(put).Name {
				t.Errorf("node %d is %q, want %q", i, nodes[i].Name, nodeOf(put).Name)
			}
			same(t, "node "+nodes[i].Name, outline(nodes[i].Graph), outline(put))
		}
	}},
	"what is listed can be put": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		before := s.page(t, "", 9)
		for _, n := range before {
			s.put(t, n.Graph)
		}
		for i, n := range s.page(t, "", 9) {
			same(t, "node "+n.Name, outline(n.Graph), outline(before[i].Graph))
		}
	}},
	"a page begins with a name and ends with its limit": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("b", nil, Cores(1)), Node("d", nil, Cores(1)), Node("a", nil, Cores(1)), Node("c", nil, Cores(1)))
		s.lists(t, "", 2, "a", "b")
		s.lists(t, "b", 2, "b", "c")
		s.lists(t, "b\x00", 2, "c", "d")
		s.lists(t, "bb", 1, "c")
		s.lists(t, "d", 2, "d")
		s.lists(t, "d\x00", 2)
	}},
	"nodes that come and go between pages are met where their names stand": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("b", nil, Cores(1)), Node("d", nil, Cores(1)))
		s.lists(t, "", 1, "b")
		s.put(t, Node("a", nil, Cores(1)), Node("c", nil, Cores(1)), Node("e", nil, Cores(1)))
		s.remove(t, "d")
		s.lists(t, "b\x00", 9, "c", "e")
		s.lists(t, "", 9, "a", "b", "c", "e")
		s.reset(t)
		s.lists(t, "", 9)
		s.put(t, Node("x", nil, Cores(1)))
		s.lists(t, "", 9, "x")
	}},
	"what a match gave out is listed where it stands, until it is released": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 2, Slots("a", 2, Cores(1)), keys("y", "x"))
		s.match(t, 1, Slots("a", 1, Cores(1)), keys("x"))
		s.lists(t, "", 9, "n1 2: x@n1 y@n1", "n2 1: x@n2")
		same(t, "what slot y holds", Amounts(s.page(t, "n1", 1)[0].Jobs[0].Slots[1].R), map[string]int64{"core": 1000})
		s.release(t, 2)
		s.lists(t, "", 9, "n1", "n2 1: x@n2")
	}},
	"a match that books nothing is not listed": {needs: ignores, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)))
		s.match(t, 1, Slots("a", 1, Cores(1)))
		s.match(t, 2, Slots("a", 1, Cores(1)), as(match.WithoutAllocating), without(1))
		s.lists(t, "", 9, "n1 1: 0@n1")
	}},
	"one slot of a job that is released is listed no more": {needs: partial, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 2, Cores(1)))
		s.release(t, 1, "0")
		s.lists(t, "", 9, "n1 1: 1@n1")
	}},
	"a slot that an update moved is listed where it is": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 2, Cores(1)))
		s.update(t, 1, Held("0", "n2", Cores(2)))
		s.lists(t, "", 9, "n1 1: 1@n1", "n2 1: 0@n2")
		same(t, "what slot 0 holds", Amounts(s.page(t, "n2", 1)[0].Jobs[0].Slots[0].R), map[string]int64{"core": 2000})
	}},
	"what is held where the graph has no node is listed all the same": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n3", nil, Cores(2)))
		s.update(t, 1, Held("a", "n2", Cores(1)), Held("b", "n3", Cores(1)))
		s.remove(t, "n3")
		s.lists(t, "", 9, "n1", "n2 (no node) 1: a@n2", "n3 (no node) 1: b@n3")
		s.put(t, Node("n2", nil, Cores(2)))
		s.release(t, 1)
		s.lists(t, "", 9, "n1", "n2")
	}},
	"a node's status is listed as it was set": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		for _, status := range []resource.Status{resource.Down, resource.Up} {
			s.setStatus(t, "n1", status)
			if got := nodeOf(s.page(t, "", 9)[0].Graph).Status; got != status {
				t.Errorf("the status is %d, want %d", got, status)
			}
		}
	}},
	"a holder and that a slot is shared are listed": {needs: wholeAndUpdates, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(1)), wanting("x"))
		shared := Held("d", "n1", Cores(1))
		shared.Shared = true
		s.update(t, 2, shared)
		jobs := s.page(t, "", 9)[0].Jobs
		if len(jobs) != 2 || jobs[0].Slots[0].Holder != "x" || jobs[0].Slots[0].Shared || !jobs[1].Slots[0].Shared {
			t.Errorf("listed is %+v, want a slot of the holder x and one that is shared", jobs)
		}
	}},
	"a limit out of its bounds is invalid": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		for _, limit := range []int{-1, 0, match.MaxNodesPerPage + 1} {
			_, err := s.Nodes(t.Context(), s.epoch, "", limit)
			if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("limit %d", limit)) {
				t.Errorf("Nodes(limit %d) = %v, want the error %q that names it", limit, err, match.ErrInvalid)
			}
		}
		s.lists(t, "", match.MaxNodesPerPage, "n1")
	}},
	"what is listed is the caller's own": {test: func(t *testing.T, s *subject) {
		s.load(t, WithProperties(Node("n1", nil, Cores(2)), "a", "b"))
		s.match(t, 1, Slots("a", 1, Cores(1)))
		n := s.page(t, "", 1)[0]
		nodeOf(n.Graph).Properties["a"] = "changed"
		n.Graph.Vertices[0].Name = "changed"
		n.Jobs[0].Slots[0].R.Vertices[0].Amount = 7
		n = s.page(t, "", 1)[0]
		same(t, "the node", outline(n.Graph), outline(WithProperties(Node("n1", nil, Cores(2)), "a", "b")))
		same(t, "what the slot holds", Amounts(n.Jobs[0].Slots[0].R), map[string]int64{"core": 1000})
	}},
}

// page lists one page of nodes.
func (s *subject) page(t *testing.T, from string, limit int) []match.Node {
	t.Helper()
	nodes, err := s.Nodes(t.Context(), s.epoch, from, limit)
	if err != nil {
		t.Fatalf("Nodes(%q, %d) = %v", from, limit, err)
	}
	return nodes
}

// lists checks a page, one word list for each node: "n1 2: x@n1 y@n1" is node n1 where job 2 holds
// two slots.
func (s *subject) lists(t *testing.T, from string, limit int, want ...string) {
	t.Helper()
	var got []string
	for _, n := range s.page(t, from, limit) {
		words := []string{n.Name}
		if n.Graph == nil {
			words = append(words, "(no node)")
		}
		for _, j := range n.Jobs {
			words = append(words, fmt.Sprintf("%d: %s", j.ID, standing(j.Slots)))
		}
		got = append(got, strings.Join(words, " "))
	}
	same(t, fmt.Sprintf("the page of %d from %q", limit, from), got, want)
}

// outline renders the vertices of a graph in their order, each with its parent, without the numbers
// that an engine chooses.
func outline(g *resource.Graph) []string {
	parents := make([]string, len(g.Vertices))
	for _, e := range g.Edges {
		parents[e.Target] = g.Vertices[e.Source].Name
	}
	lines := make([]string, len(g.Vertices))
	for i, v := range g.Vertices {
		lines[i] = fmt.Sprintf("%s %s %d%s status %d properties %v at %s in %q",
			v.Type, v.Name, v.Size, v.Unit, v.Status, v.Properties, v.Path, parents[i])
	}
	return lines
}
