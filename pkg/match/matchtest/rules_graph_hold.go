package matchtest

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

var graphRepeatRules = map[string]graphRule{
	"the same request again is the same allocation": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		js := func() *jobspec.Jobspec { return Slots("a", 3, whole("core", 2)) }
		first := s.give(t, 1, js(), keys("x", "y", "z"), lasting(time.Hour))
		check := s.unchanged(t)
		again := s.give(t, 1, js(), keys("x", "y", "z"), lasting(time.Hour), at(Now.Add(time.Minute)))
		same(t, "the second allocation", again, first)
		check()
	},
	"another request of the job is a conflict": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		s.give(t, 1, Slots("a", 2, whole("core", 1)), keys("x", "y"))
		check := s.unchanged(t)
		s.fails(t, 1, Slots("a", 3, whole("core", 1)), match.ErrConflict, lonode([]option{keys("x", "y", "z")})...)
		s.fails(t, 1, Slots("a", 2, whole("core", 2)), match.ErrConflict, lonode([]option{keys("x", "y")})...)
		s.fails(t, 1, Slots("b", 2, whole("core", 1)), match.ErrConflict, lonode([]option{keys("x", "y")})...)
		s.fails(t, 1, Slots("a", 2, whole("core", 1)), match.ErrConflict, lonode([]option{keys("y", "x")})...)
		s.fails(t, 1, Slots("a", 2, whole("core", 1)), match.ErrConflict, lonode([]option{keys("x", "y"), lasting(time.Hour)})...)
		s.fails(t, 1, Slots("a", 2, whole("core", 1)), match.ErrConflict, keys("x", "y"), underPolicy(match.PolicyHigh))
		check()
	},
	"without allocating for a job that holds something answers as allocate would": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 1, whole("core", 2)))
		check := s.unchanged(t)
		for _, op := range []match.Op{match.WithoutAllocating, match.WithoutAllocatingFuture} {
			b := s.give(t, 1, Slots("a", 1, whole("core", 2)), as(op))
			same(t, "what is answered", exclusives(b.R), exclusives(a.R))
			s.fails(t, 1, Slots("a", 1, whole("core", 3)), match.ErrConflict, lonode([]option{as(op)})...)
			c := s.give(t, 1, Slots("a", 2, whole("core", 4)), as(op), without(1))
			same(t, "the cores it could have if it held nothing", len(leaves(pathsOf(c.R), "core")), 8)
		}
		check()
	},
	"a request that was refused may be made otherwise": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.refuse(t, 1, Slots("a", 1, whole("core", 5)), match.ErrUnsatisfiable)
		s.stands(t, 1, Slots("a", 1, whole("core", 4)), "0@node0")
	},
	"what an allocation holds is the caller's own": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 1, whole("core", 2)))
		check := s.unchanged(t)
		a.R.Vertices[0].Name, a.R.Vertices[0].Path = "changed", "/changed"
		a.Slots[0].R.Vertices[0].Path, a.Slots[0].Key = "/changed", "changed"
		check()
		s.stands(t, 1, Slots("a", 1, whole("core", 2)), "0@node0")
	},
}

var graphReleaseRules = map[string]graphRule{
	"what is released whole is free again": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 2, whole("core", 4), whole("gpu", 1)))
		s.refuse(t, 2, Slots("a", 1, whole("core", 1)), match.ErrBusy)
		s.release(t, 1)
		s.holding(t, "")
		same(t, "what is held", s.find(t, "sched-now=allocated"), []string{})
		b := s.give(t, 2, Slots("a", 2, whole("core", 4), whole("gpu", 1)))
		same(t, "what another job is given", exclusives(b.R), exclusives(a.R))
	},
	"a slot is released by its key": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 4, whole("core", 2)), keys("w", "x", "y", "z"))
		s.release(t, 1, "x", "y", "elsewhere")
		s.holding(t, "1: w@node0 z@node1")
		same(t, "the cores that are free", len(leaves(s.find(t, "sched-now=free"), "core")), 4)
		s.stands(t, 2, Slots("a", 2, whole("core", 2)), "0@node0 1@node1")
		s.refuse(t, 3, Slots("a", 1, whole("core", 1)), match.ErrBusy)
		s.release(t, 1, "w")
		s.release(t, 1, "z")
		s.holding(t, "2: 0@node0 1@node1")
		s.release(t, 2)
		same(t, "what is held", s.find(t, "sched-now=allocated"), []string{})
	},
	"a whole node is its job's until all of the job is released": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.match(t, 1, Slots("a", 2, whole("core", 2)), underPolicy(match.PolicyLonodex), keys("x", "y"))
		s.release(t, 1, "x")
		js := asked(exclusive(vertices("node", 2, vertices("core", 1))))
		s.refuse(t, 2, js, match.ErrBusy)
		s.refuse(t, 2, Slots("a", 5, whole("core", 1)), match.ErrBusy)
		s.release(t, 1)
		s.give(t, 2, js)
	},
	"the release of what is not held changes nothing": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)))
		check := s.unchanged(t)
		s.release(t, 9)
		s.release(t, 9, "0")
		s.release(t, 1, "elsewhere")
		check()
	},
	"series of matches and releases leave the graph as it was": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		for round := range 20 {
			for id := match.JobID(1); id <= 6; id++ {
				s.give(t, id, Slots("a", 2, whole("core", 1)), keys("x", "y"), lasting(time.Duration(round)*time.Minute))
			}
			for id := match.JobID(6); id >= 1; id-- {
				s.release(t, id, "y")
				s.release(t, id)
			}
		}
		s.stands(t, 1, Slots("all", 4, whole("core", 4), whole("gpu", 1), whole("memory", 16)), "0@node0 1@node1 2@node2 3@node3")
	},
}

var graphUpdateRules = map[string]graphRule{
	"what was held is booked anew in another epoch": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 2, whole("core", 2)), keys("x", "y"))
		s.give(t, 2, Slots("a", 1, whole("core", 3)), lasting(time.Hour))
		jobs, held := s.jobs(t), leaves(s.find(t, "sched-now=allocated"), "core")
		s.reset(t)
		s.add(t, machine(1))
		s.rebook(t, jobs...)
		s.ready(t)
		same(t, "the cores that are held", leaves(s.find(t, "sched-now=allocated"), "core"), held)
		s.holding(t, "1: x@node0 y@node0; 2: 0@node1")
		s.refuse(t, 3, Slots("a", 1, whole("core", 2)), match.ErrBusy)
		s.release(t, 1, "x")
		s.stands(t, 3, Slots("a", 1, whole("core", 2)), "0@node0")
		s.release(t, 1)
		s.release(t, 2)
		s.release(t, 3)
		same(t, "what is held", s.find(t, "sched-now=allocated"), []string{})
	},
	"the cluster is right, whether or not there is room": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 1, whole("core", 4)))
		s.rebook(t, match.Job{ID: 2, Slots: a.Slots})
		s.holding(t, "1: 0@node0; 2: 0@node0")
		s.release(t, 1)
		s.refuse(t, 3, Slots("a", 2, whole("core", 4)), match.ErrBusy)
		s.release(t, 2)
		s.stands(t, 3, Slots("a", 2, whole("core", 4)), "0@node0 1@node1")
	},
	"a slot is replaced by one of its key": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 1, whole("core", 4)))
		b := s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node1")
		s.release(t, 2)
		s.rebook(t, match.Job{ID: 1, Slots: b.Slots})
		s.holding(t, "1: 0@node1")
		c := s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node0")
		same(t, "what became free", exclusives(c.R), exclusives(a.R))
	},
	"an update of job 0 is invalid and changes nothing": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.give(t, 1, Slots("a", 1, whole("core", 4)))
		check := s.unchanged(t)
		err := s.Update(t.Context(), s.epoch, match.Job{ID: 2, Slots: a.Slots}, match.Job{Slots: a.Slots})
		wantInvalid(t, "Update()", err)
		check()
	},
}

func (s *graphSubject) rebook(t *testing.T, jobs ...match.Job) {
	t.Helper()
	if err := s.Update(t.Context(), s.epoch, jobs...); err != nil {
		t.Fatalf("Update() = %v", err)
	}
}
