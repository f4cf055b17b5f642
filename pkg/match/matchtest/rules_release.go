package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

var releaseRules = map[string]rule{
	"without keys all slots of the job are given back, and of no other": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(3)))
		s.match(t, 1, Slots("a", 2, Cores(1)))
		s.match(t, 2, Slots("a", 1, Cores(1)))
		s.release(t, 1)
		s.holding(t, "2: 0@n1")
		s.places(t, 3, Slots("a", 2, Cores(1)), "0@n1 1@n1")
		s.refuses(t, 4, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"with keys those slots are given back": {needs: partial, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 4, Cores(1)), keys("w", "x", "y", "z"))
		s.release(t, 1, "x", "y")
		s.holding(t, "1: w@n1 z@n2")
		s.places(t, 2, Slots("a", 2, Cores(1)), "0@n1 1@n2")
	}},
	"a job whose last slot was given back is forgotten": {needs: partial, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 2, Cores(1)))
		s.release(t, 1, "0")
		s.release(t, 1, "1")
		s.holding(t, "")
	}},
	"what is not held is no error": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(1)))
		s.release(t, 2)
		s.release(t, 1)
		s.release(t, 1)
		s.holding(t, "")
	}},
	"keys that are not held are no error": {needs: partial, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(1)))
		s.release(t, 1, "elsewhere")
		s.release(t, 2, "0")
		s.holding(t, "1: 0@n1")
	}},
	"a hundred jobs made and released leave the graph free": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		for range 10 {
			for id := match.JobID(1); id <= 10; id++ {
				s.match(t, id, Slots("a", 1, Cores(1), Memory(1), Pods(1)))
			}
			for id := match.JobID(1); id <= 10; id++ {
				s.release(t, id)
			}
		}
		s.holding(t, "")
		s.places(t, 1, Slots("all", 4, Cores(4), Memory(8), Pods(10)), "0@n1 1@n2 2@n3 3@n4")
	}},
}
