package matchtest

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

var repeatRules = map[string]rule{
	"the same request again is the same allocation": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := func() *jobspec.Jobspec { return Slots("a", 3, Cores(2), Memory(1)) }
		first := s.match(t, 1, js(), keys("x", "y", "z"), lasting(time.Hour))
		again := s.match(t, 1, js(), keys("x", "y", "z"), lasting(time.Hour))
		same(t, "the second allocation", again, first)
		s.holding(t, "1: x@n1 y@n1 z@n2")
	}},
	"the time of the request does not make it another": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		first := s.match(t, 1, Slots("a", 1, Cores(2)), lasting(time.Hour))
		again := s.match(t, 1, Slots("a", 1, Cores(2)), lasting(time.Hour), at(Now.Add(time.Minute)))
		same(t, "the second allocation", again, first)
	}},
	"another request of the job is a conflict": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 2, Cores(1)), keys("x", "y"))
		s.fails(t, 1, Slots("a", 3, Cores(1)), match.ErrConflict, keys("x", "y", "z"))
		s.fails(t, 1, Slots("a", 2, Cores(2)), match.ErrConflict, keys("x", "y"))
		s.fails(t, 1, Slots("b", 2, Cores(1)), match.ErrConflict, keys("x", "y"))
		s.fails(t, 1, Slots("a", 2, Cores(1)), match.ErrConflict, keys("y", "x"))
		s.fails(t, 1, Slots("a", 2, Cores(1)), match.ErrConflict, keys("x", "y"), lasting(time.Hour))
		s.holding(t, "1: x@n1 y@n1")
	}},
	"another nearness of the job is a conflict": {needs: near, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 1, Cores(1)))
		s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrConflict, nearTo("n2"))
	}},
	"a request that was refused may be made otherwise": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.refuses(t, 1, Slots("a", 2, Cores(2)), match.ErrUnsatisfiable)
		s.places(t, 1, Slots("a", 1, Cores(2)), "0@n1")
	}},
	"a request after a release is a new one": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.release(t, 1)
		s.match(t, 2, Slots("a", 1, Cores(2)))
		s.places(t, 1, Slots("a", 1, Cores(2)), "0@n2")
	}},
	"a repeat after nodes were brought up to date is the same allocation": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		first := s.match(t, 1, Slots("a", 3, Cores(2)))
		s.put(t, inRacks()...)
		s.put(t, Node("n0", nil, Cores(64)))
		same(t, "the second allocation", s.match(t, 1, Slots("a", 3, Cores(2))), first)
	}},
	"without allocating for a job that holds something answers as allocate would": {test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.places(t, 1, Slots("a", 1, Cores(2)), "0@n1", as(match.WithoutAllocating))
		s.fails(t, 1, Slots("a", 1, Cores(3)), match.ErrConflict, as(match.WithoutAllocating))
	}},
	"a job that the cluster brought conflicts with a request": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.update(t, 1, Held("0", "n1", Cores(1)))
		s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrConflict)
		s.holding(t, "1: 0@n1")
	}},
	"an update that says what is held does not break the repeat": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Slots("a", 2, Cores(3), Memory(1))
		first := s.match(t, 1, js)
		s.update(t, 1, Held("0", "n1", Memory(1), Cores(3)), first.Slots[1])
		same(t, "the second allocation", s.match(t, 1, js), first)
		s.places(t, 2, Slots("a", 2, Cores(1)), "0@n1 1@n2")
	}},
	"after an update moved a slot the repeat says where it stands": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Slots("a", 3, Cores(3))
		s.match(t, 1, js)
		s.update(t, 1, Held("1", "n4", Cores(3)))
		s.update(t, 1, Held("2", "n4", Cores(1)))
		a := s.places(t, 1, js, "0@n1 1@n4 2@n4")
		same(t, "the whole", Amounts(a.R, "zone", "rack"), map[string]int64{"core": 7000})
	}},
	"after an update added a slot the request is another": {needs: updates, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 1, Cores(1)))
		s.update(t, 1, Held("later", "n1", Cores(1)))
		s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrConflict)
		s.holding(t, "1: 0@n1 later@n1")
	}},
	"after a slot was released the request is another": {needs: partial, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 2, Cores(1)))
		s.release(t, 1, "0")
		s.fails(t, 1, Slots("a", 2, Cores(1)), match.ErrConflict)
		s.release(t, 1, "1")
		s.places(t, 1, Slots("a", 2, Cores(1)), "0@n1 1@n1")
	}},
	"the release of a slot that is not there leaves the request as it was": {needs: partial, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 2, Cores(1)))
		s.release(t, 1, "elsewhere")
		s.places(t, 1, Slots("a", 2, Cores(1)), "0@n1 1@n1")
	}},
}
