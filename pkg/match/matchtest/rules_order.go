package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

var orderRules = map[string]rule{
	"nodes put before ready stand in the order of their names": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n3", nil, Cores(1)), Node("n1", nil, Cores(2)), Node("n2", nil, Cores(3)))
		s.places(t, 1, Slots("a", 6, Cores(1)), "0@n1 1@n1 2@n2 3@n2 4@n2 5@n3", underPolicy(match.PolicyLonode))
	}},
	"nodes that come later stand behind, as they come": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n5", nil, Cores(1)))
		s.put(t, Node("n2", nil, Cores(1)))
		s.put(t, Node("n1", nil, Cores(1)), Node("n0", nil, Cores(1)))
		s.places(t, 1, Slots("a", 4, Cores(1)), "0@n5 1@n2 2@n1 3@n0", underPolicy(match.PolicyLonode))
	}},
	"a node keeps its place while it is in the graph": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)), Node("n2", nil, Cores(1)))
		s.put(t, Node("n1", [][2]string{{"rack", "r9"}}, Cores(2)))
		s.places(t, 1, Slots("a", 3, Cores(1)), "0@n1 1@n1 2@n2", underPolicy(match.PolicyLonode))
	}},
	"a node that went and came back is a new one": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)), Node("n2", nil, Cores(1)))
		s.remove(t, "n1")
		s.put(t, Node("n1", nil, Cores(1)))
		s.places(t, 1, Slots("a", 2, Cores(1)), "0@n2 1@n1", underPolicy(match.PolicyLonode))
	}},
	"a node is filled before the next is begun": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1", underPolicy(match.PolicyLonode))
		s.places(t, 2, Slots("a", 2, Cores(1)), "0@n1 1@n2", underPolicy(match.PolicyLonode))
	}},
	"the nodes closest to the near ones are taken first": {needs: near, test: func(t *testing.T, s *subject) {
		s.load(t,
			Node("n1", [][2]string{{"zone", "z1"}, {"rack", "r1"}}, Cores(1)),
			Node("n2", [][2]string{{"zone", "z2"}, {"rack", "r2"}}, Cores(1)),
			Node("n3", [][2]string{{"zone", "z2"}, {"rack", "r3"}}, Cores(1)),
			Node("n4", [][2]string{{"zone", "z2"}, {"rack", "r3"}}, Cores(1)),
		)
		s.places(t, 1, Slots("a", 4, Cores(1)), "0@n4 1@n3 2@n2 3@n1", nearTo("n4"))
	}},
	"of several near nodes the closest counts": {needs: near, test: func(t *testing.T, s *subject) {
		s.load(t, append(inRacks(), Node("n0", [][2]string{{"zone", "y"}, {"rack", "r0"}}, Cores(4)))...)
		s.places(t, 1, Slots("a", 5, Cores(4)), "0@n0 1@n3 2@n4 3@n1 4@n2", nearTo("n3", "n0"))
	}},
	"a near node that is full or not there does not stand in the way": {needs: near, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.places(t, 1, Slots("a", 1, Cores(4)), "0@n4", nearTo("n4", "elsewhere"))
		s.places(t, 2, Slots("a", 2, Cores(4)), "0@n3 1@n1", nearTo("n4"))
	}},
}
