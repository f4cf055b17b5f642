package matchtest

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

var graphReplaceRules = map[string]graphRule{
	"a job takes over what another one holds": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, full())
		s.refuse(t, 2, full(), match.ErrBusy)
		b := s.give(t, 2, full(), replacing(1))
		same(t, "what is taken over", exclusives(b.R), exclusives(a.R))
		s.holding(t, "2: 0@node0 1@node1")
		s.stands(t, 3, Slots("a", 1, whole("core", 1)), "0@node0", replacing(2, "0"))
		same(t, "the cores that are free", len(leaves(s.find(t, "sched-now=free"), "core")), 3)
		s.release(t, 2)
		s.release(t, 3)
		same(t, "what is held", s.find(t, "sched-now=allocated"), []string{})
	},
	"with keys only these slots are replaced, and the others stay": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 4, whole("core", 2)), keys("w", "x", "y", "z"))
		s.refuse(t, 2, Slots("a", 3, whole("core", 2)), match.ErrBusy, replacing(1, "x", "y", "elsewhere"))
		s.refuse(t, 2, Slots("a", 1, whole("core", 1)), match.ErrBusy, replacing(1, "elsewhere"))
		s.stands(t, 2, Slots("a", 2, whole("core", 2)), "0@node0 1@node1", replacing(1, "x", "y", "elsewhere"))
		s.holding(t, "1: w@node0 z@node1; 2: 0@node0 1@node1")
		s.fails(t, 1, Slots("a", 4, whole("core", 2)), match.ErrConflict, lonode([]option{keys("w", "x", "y", "z")})...)
		s.release(t, 1)
		s.release(t, 2)
		same(t, "what is held", s.find(t, "sched-now=allocated"), []string{})
	},
	"a refusal, a mistake and a request that books nothing change nothing": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, full(), keys("x", "y"))
		check := s.unchanged(t)
		s.refuse(t, 2, full(), match.ErrBusy, replacing(1, "y"))
		s.refuse(t, 2, full(), match.ErrBusy, replacing(77))
		s.refuse(t, 2, Slots("a", 3, whole("core", 4)), match.ErrUnsatisfiable, replacing(1))
		s.fails(t, 2, Slots("a", 1, whole("nothing", 1)), match.ErrInvalid, replacing(1))
		s.fails(t, 2, full(), match.ErrInvalid, replacing(1), as(match.AllocateOrElseReserve))
		s.fails(t, 2, full(), match.ErrInvalid, replacing(2))
		s.fails(t, 2, full(), match.ErrInvalid, replacing(0, "x"))
		for _, op := range []match.Op{match.WithoutAllocating, match.WithoutAllocatingFuture} {
			s.stands(t, 2, full(), "0@node0 1@node1", replacing(1), as(op))
			s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node1", replacing(1, "y"), as(op))
		}
		s.refuse(t, 2, Slots("a", 3, whole("core", 4)), match.ErrUnsatisfiable, replacing(1), as(match.Satisfiability))
		check()
		same(t, "the allocation of job 1", s.give(t, 1, full(), keys("x", "y")), a)
	},
	"the same request again is the same allocation, whatever it replaces": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		s.give(t, 1, Slots("a", 3, whole("core", 4)), keys("x", "y", "z"))
		first := s.give(t, 2, Slots("a", 1, whole("core", 4)), replacing(1, "y"))
		check := s.unchanged(t)
		for _, again := range []option{replacing(1, "y"), replacing(1), replacing(77), as(match.Allocate)} {
			same(t, "the allocation again", s.give(t, 2, Slots("a", 1, whole("core", 4)), again), first)
		}
		check()
	},
	"what is expected counts as held where slots are replaced": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, full(), keys("x", "y"))
		expects := func(r *match.Request) { r.Expected = a.Slots[:1] }
		s.refuse(t, 2, full(), match.ErrBusy, expects, replacing(1))
		s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node1", expects, replacing(1))
		s.holding(t, "2: 0@node1")
		s.stands(t, 3, Slots("a", 1, whole("core", 4)), "0@node0")
	},
	"a whole node stays its job's until all of its slots are replaced": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.match(t, 1, Slots("a", 2, whole("core", 2)), underPolicy(match.PolicyLonodex), keys("x", "y"))
		js := asked(exclusive(vertices("node", 2, vertices("core", 1))))
		check := s.unchanged(t)
		s.refuse(t, 2, js, match.ErrBusy, replacing(1, "x"))
		check()
		s.give(t, 2, js, replacing(1))
	},
	"a promise to others is kept, and one to the job is replaced": func(t *testing.T, s *graphSubject) {
		s.reserved(t) // job 2, the hour after job 1
		s.refuse(t, 3, full(), match.ErrBusy, replacing(1))
		s.refuse(t, 3, full(), match.ErrBusy, replacing(1), lasting(2*time.Hour))
		s.stands(t, 3, full(), "0@node0 1@node1", replacing(1), lasting(time.Hour))
		s.holding(t, "2: x@node0 y@node1; 3: 0@node0 1@node1")
		s.release(t, 3)
		s.refuse(t, 4, full(), match.ErrBusy, replacing(2, "y"))
		s.stands(t, 4, Slots("a", 1, whole("core", 4)), "0@node1", replacing(2, "y"))
		s.holding(t, "2: x@node0; 4: 0@node1")
		s.stands(t, 5, Slots("a", 1, whole("core", 4)), "0@node0", replacing(2))
		s.holding(t, "4: 0@node1; 5: 0@node0")
		same(t, "what is reserved", s.find(t, "sched-future=reserved"), []string{})
	},
}
