package matchtest

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// full requests all cores of machine(1).
func full() *jobspec.Jobspec { return Slots("a", 2, whole("core", 4)) }

// reserved fills machine(1) with job 1 for an hour, and reserves all of it for job 2 for the hour
// after.
func (s *graphSubject) reserved(t *testing.T) *match.Allocation {
	t.Helper()
	s.loadGraph(t, machine(1))
	s.give(t, 1, full(), lasting(time.Hour))
	return s.give(t, 2, full(), lasting(time.Hour), as(match.AllocateOrElseReserve), keys("x", "y"))
}

// wantReserved checks whether an answer is a reservation, and its start and end as times after Now.
func wantReserved(t *testing.T, a *match.Allocation, reserved bool, from, until time.Duration) {
	t.Helper()
	if a.Reserved != reserved || !a.Start.Equal(Now.Add(from)) || !a.End.Equal(Now.Add(until)) {
		t.Errorf("reserved %v from %s to %s, want %v from %s to %s", a.Reserved, a.Start, a.End, reserved, Now.Add(from), Now.Add(until))
	}
}

var graphReserveRules = map[string]graphRule{
	"what is free now is given now": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		a := s.stands(t, 1, full(), "0@node0 1@node1", lasting(time.Hour), as(match.AllocateOrElseReserve))
		wantReserved(t, a, false, 0, time.Hour)
		same(t, "what is reserved", s.find(t, "sched-future=reserved"), []string{})
	},
	"a reservation begins when what it waits for ends": func(t *testing.T, s *graphSubject) {
		a := s.reserved(t)
		wantReserved(t, a, true, time.Hour, 2*time.Hour)
		if got := standing(a.Slots); got != "x@node0 y@node1" {
			t.Errorf("reserved is %q", got)
		}
		jobs := s.jobs(t)
		if len(jobs) != 2 || jobs[0].Reserved || !jobs[1].Reserved {
			t.Fatalf("jobs are %+v, want one that holds and one reserved", jobs)
		}
		for i, from := range []time.Duration{0, time.Hour} {
			if !jobs[i].Start.Equal(Now.Add(from)) || !jobs[i].End.Equal(Now.Add(from+time.Hour)) {
				t.Errorf("job %d is from %s to %s, want an hour from %s", jobs[i].ID, jobs[i].Start, jobs[i].End, Now.Add(from))
			}
		}
		same(t, "the cores that are reserved", len(leaves(s.find(t, "sched-future=reserved"), "core")), 8)
	},
	"what is reserved is not listed as held on its nodes": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		s.lists(t, "", 9, "node0 1: 0@node0", "node1 1: 1@node1")
		s.release(t, 1)
		s.lists(t, "", 9, "node0", "node1")
	},
	"a reservation is for the earliest time": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 4)), lasting(3*time.Hour))
		s.give(t, 2, Slots("a", 1, whole("core", 4)), lasting(time.Hour))
		a := s.stands(t, 3, Slots("a", 1, whole("core", 2)), "0@node1", lasting(time.Hour), as(match.AllocateOrElseReserve))
		wantReserved(t, a, true, time.Hour, 2*time.Hour)
		b := s.give(t, 4, full(), lasting(time.Hour), as(match.AllocateOrElseReserve))
		wantReserved(t, b, true, 3*time.Hour, 4*time.Hour)
	},
	"nobody else takes what is reserved": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		s.release(t, 1)
		s.refuse(t, 3, Slots("a", 1, whole("core", 1)), match.ErrBusy, lasting(2*time.Hour))
		s.refuse(t, 3, Slots("a", 1, whole("core", 1)), match.ErrBusy)
		s.stands(t, 3, Slots("a", 1, whole("core", 1)), "0@node0", lasting(time.Hour))
	},
	"a reservation becomes an allocation when there is room": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		s.release(t, 1)
		a := s.give(t, 2, full(), lasting(time.Hour), as(match.AllocateOrElseReserve), keys("x", "y"), at(Now.Add(10*time.Minute)))
		wantReserved(t, a, false, 10*time.Minute, 70*time.Minute)
		same(t, "what is reserved", s.find(t, "sched-future=reserved"), []string{})
		if jobs := s.jobs(t); len(jobs) != 1 || jobs[0].Reserved {
			t.Errorf("jobs are %+v, want one that holds", jobs)
		}
	},
	"one that asks again without room is reserved anew": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		a := s.give(t, 2, full(), lasting(time.Hour), as(match.AllocateOrElseReserve), keys("x", "y"), at(Now.Add(10*time.Minute)))
		wantReserved(t, a, true, time.Hour, 2*time.Hour)
		b := s.give(t, 2, Slots("b", 1, whole("core", 1)), lasting(time.Minute), as(match.AllocateOrElseReserve))
		wantReserved(t, b, true, time.Hour, time.Hour+time.Minute)
		same(t, "the cores that are reserved", len(leaves(s.find(t, "sched-future=reserved"), "core")), 1)
	},
	"one that asks to be given it now, or not at all, has no reservation left": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		s.refuse(t, 2, full(), match.ErrBusy, lasting(time.Hour), keys("x", "y"))
		s.holding(t, "1: 0@node0 1@node1")
		same(t, "what is reserved", s.find(t, "sched-future=reserved"), []string{})
	},
	"one that asks without being given anything keeps its reservation": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		check := s.unchanged(t)
		s.refuse(t, 2, full(), match.ErrBusy, lasting(time.Hour), as(match.WithoutAllocating))
		// The job's own reservation does not count against the job.
		a := s.give(t, 2, full(), lasting(2*time.Hour), as(match.WithoutAllocatingFuture))
		wantReserved(t, a, true, time.Hour, 3*time.Hour)
		check()
	},
	"a reservation that is ignored is booked over and stays": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		s.release(t, 1)
		check := s.unchanged(t)
		s.fails(t, 2, full(), match.ErrInvalid, underPolicy(match.PolicyLonode), without(2))
		s.refuse(t, 3, Slots("a", 1, whole("core", 2)), match.ErrBusy)
		check()
		s.stands(t, 3, Slots("a", 1, whole("core", 2)), "0@node0", without(2, 77))
		s.holding(t, "2: x@node0 y@node1; 3: 0@node0")
		// An allocation is not ignored.
		check = s.unchanged(t)
		s.fails(t, 4, full(), match.ErrInvalid, underPolicy(match.PolicyLonode), without(3))
		s.fails(t, 2, full(), match.ErrInvalid, underPolicy(match.PolicyLonode), without(3))
		check()
		// The reservation still counts for others, and ends with its own job.
		s.refuse(t, 4, Slots("a", 1, whole("core", 2)), match.ErrBusy)
		s.release(t, 2)
		s.stands(t, 4, Slots("a", 1, whole("core", 2)), "0@node0")
		s.release(t, 3)
		s.release(t, 4)
		s.stands(t, 5, full(), "0@node0 1@node1")
	},
	"a terse refusal has no numbers that take a search": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		want := s.refuses(t, 3, full(), match.ErrBusy, underPolicy(match.PolicyLonode))
		if len(want.Shortages) == 0 {
			t.Errorf("the reason %+v has no shortages to leave out", want)
		}
		same(t, "the terse reason", s.refuses(t, 3, full(), match.ErrBusy, underPolicy(match.PolicyLonode), terse), want.Terse())
	},
	"a reservation is released": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		s.release(t, 2)
		s.holding(t, "1: 0@node0 1@node1")
		a := s.give(t, 3, full(), lasting(time.Hour), as(match.AllocateOrElseReserve))
		wantReserved(t, a, true, time.Hour, 2*time.Hour)
	},
	"what has no known end is waited for by nobody": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, full())
		s.refuse(t, 2, full(), match.ErrBusy, lasting(time.Hour), as(match.AllocateOrElseReserve))
		s.refuse(t, 2, Slots("a", 3, whole("core", 4)), match.ErrUnsatisfiable, lasting(time.Hour), as(match.AllocateOrElseReserve))
		s.holding(t, "1: 0@node0 1@node1")
	},
	"the future is asked without booking it": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, full(), lasting(time.Hour))
		check := s.unchanged(t)
		a := s.give(t, 2, full(), lasting(time.Hour), as(match.WithoutAllocatingFuture))
		wantReserved(t, a, true, time.Hour, 2*time.Hour)
		s.refuse(t, 2, full(), match.ErrBusy, lasting(time.Hour), as(match.WithoutAllocating))
		b := s.give(t, 2, full(), lasting(time.Hour), as(match.WithoutAllocatingFuture), without(1))
		wantReserved(t, b, false, 0, time.Hour)
		check()
	},
	"a reservation is booked anew in another epoch": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		jobs := s.jobs(t)
		s.reset(t)
		s.add(t, machine(1))
		s.rebook(t, jobs...)
		s.ready(t)
		same(t, "the jobs", s.jobs(t), jobs)
		s.release(t, 1)
		s.refuse(t, 3, Slots("a", 1, whole("core", 1)), match.ErrBusy, lasting(2*time.Hour))
		s.release(t, 2)
		s.stands(t, 3, Slots("a", 1, whole("core", 1)), "0@node0", lasting(2*time.Hour))
	},
	"what is past its end holds on": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, full(), lasting(time.Hour))
		s.refuse(t, 2, Slots("a", 1, whole("core", 1)), match.ErrBusy, at(Now.Add(2*time.Hour)), lasting(time.Hour))
		s.holding(t, "1: 0@node0 1@node1")
	},
}
