package traverser

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// one returns a cluster of n nodes with two cores each.
func one(n int) *resource.Graph { return grown(of("cluster", 1, of("node", n, of("core", 2)))) }

func TestOverdueAllocationHoldsOn(t *testing.T) {
	r := load(t, match.PolicyLow, one(1))
	r.gets(wants(1, 100, nodes(1), lasting(10)))
	for _, now := range []int64{109, 110, 111, 112, 500, 1_000_000, 2_000_000_000} {
		r.fails(wants(2, now, nodes(1), lasting(5)), match.ErrBusy)
		r.fails(wants(2, now, cores(1, 1)), match.ErrBusy)
		if got := r.found("sched-now=allocated", now); len(got) != 3 {
			t.Errorf("at %d: %q are allocated, want the node and its cores", now, got)
		}
	}
	jobs := r.Jobs()
	if len(jobs) != 1 || jobs[0].Reserved || !jobs[0].Start.Equal(seconds(100)) || !jobs[0].End.Equal(seconds(110)) {
		t.Errorf("Jobs() = %+v; want one from 100 to 110, as it was promised", jobs)
	}
	r.Release(1)
	r.gets(wants(2, 2_000_000_000, nodes(1)))
}

// TestOverdueAllocationCostsLittle checks that a job
// that never ends is booked again less and less often.
func TestOverdueAllocationCostsLittle(t *testing.T) {
	r := load(t, match.PolicyLow, one(1))
	r.gets(wants(1, 0, nodes(1), lasting(10)))
	moved, end := 0, r.jobs[1].end
	for now := range int64(1_000_000) {
		r.advance(Instant(seconds(now)))
		if r.jobs[1].end != end {
			moved, end = moved+1, r.jobs[1].end
		}
		if end <= Instant(seconds(now)) {
			t.Fatalf("at %d the job's end is %d", now, end)
		}
	}
	if moved < 5 || moved > 30 {
		t.Errorf("in a million seconds the job was booked anew %d times; want a logarithmic number", moved)
	}
}

func TestReservation(t *testing.T) {
	later := doing(match.AllocateOrElseReserve)
	full := func(t *testing.T) *rig {
		r := load(t, match.PolicyLow, one(2))
		r.gets(wants(1, 0, nodes(2), lasting(100)))
		a := r.gets(wants(2, 0, nodes(1), lasting(50), later))
		if !a.Reserved || !a.Start.Equal(seconds(100)) || !a.End.Equal(seconds(150)) {
			t.Fatalf("reserved: %t from %s to %s; want from 100 to 150", a.Reserved, a.Start, a.End)
		}
		return r
	}
	cases := map[string]func(t *testing.T, r *rig){
		"turns into an allocation when its time has come and it asks again": func(t *testing.T, r *rig) {
			r.Release(1)
			a := r.gets(wants(2, 100, nodes(1), lasting(50), later))
			if a.Reserved || !a.Start.Equal(seconds(100)) {
				t.Errorf("reserved: %t at %s; want an allocation at 100", a.Reserved, a.Start)
			}
			if got := r.Jobs(); len(got) != 1 || got[0].Reserved {
				t.Errorf("Jobs() = %+v; want one allocation", got)
			}
		},
		"turns into an allocation before its time where there is room": func(t *testing.T, r *rig) {
			r.Release(1)
			if a := r.gets(wants(2, 30, nodes(1), lasting(50))); a.Reserved || !a.End.Equal(seconds(80)) {
				t.Errorf("reserved: %t to %s; want an allocation to 80", a.Reserved, a.End)
			}
		},
		"is made anew where its time came and the place is taken still": func(t *testing.T, r *rig) {
			a := r.gets(wants(2, 100, nodes(1), lasting(50), later))
			if !a.Reserved || !a.Start.After(seconds(100)) {
				t.Errorf("reserved: %t at %s; want a reservation after 100", a.Reserved, a.Start)
			}
			if got := r.Jobs(); len(got) != 2 || !got[1].Reserved || !got[1].Start.Equal(a.Start) {
				t.Errorf("Jobs() = %+v; want the allocation and the new reservation", got)
			}
		},
		"is given up where its job asks to have it now or not at all": func(t *testing.T, r *rig) {
			r.fails(wants(2, 50, nodes(1), lasting(50)), match.ErrBusy)
			if got := r.Jobs(); len(got) != 1 {
				t.Errorf("Jobs() = %+v; want job 1 alone", got)
			}
		},
		"is kept where the request of its job is wrong": func(t *testing.T, r *rig) {
			before := r.dump()
			r.fails(wants(2, 50, several("node", 1), lasting(50), later), match.ErrInvalid)
			r.fails(wants(2, 50, several("fpga", 1), lasting(50), later), match.ErrInvalid)
			if got := r.Jobs(); len(got) != 2 {
				t.Errorf("Jobs() = %+v; want both", got)
			}
			same(t, "after a wrong request", r.dump(), before)
		},
		"is gone once it is over": func(t *testing.T, r *rig) {
			r.gets(wants(3, 149, nodes(1), lasting(1), doing(match.WithoutAllocatingFuture)))
			if got := r.Jobs(); len(got) != 2 {
				t.Errorf("at 149: Jobs() = %+v; want both", got)
			}
			r.fails(wants(3, 150, nodes(1)), match.ErrBusy)
			if got := r.Jobs(); len(got) != 1 || got[0].ID != 1 {
				t.Errorf("at 150: Jobs() = %+v; want the allocation alone", got)
			}
		},
		"keeps others from what is promised while it lasts": func(t *testing.T, r *rig) {
			r.Release(1)
			if a := r.gets(wants(3, 0, nodes(2), lasting(100))); a.Reserved {
				t.Error("reserved, though all is free up to the promise")
			}
			r.Release(3)
			r.fails(wants(3, 0, nodes(2), lasting(101)), match.ErrBusy)
			if a := r.gets(wants(3, 0, nodes(2), lasting(101), later)); !a.Start.Equal(seconds(150)) {
				t.Errorf("at %s, want 150", a.Start)
			}
		},
		"is not in the way of a question of its own job": func(t *testing.T, r *rig) {
			r.Release(1)
			if a := r.gets(wants(2, 0, nodes(2), lasting(500), doing(match.WithoutAllocating))); a.Reserved {
				t.Error("reserved")
			}
			if got := r.Jobs(); len(got) != 1 || !got[0].Reserved {
				t.Errorf("Jobs() = %+v; want the reservation still", got)
			}
		},
		"goes with its release": func(t *testing.T, r *rig) {
			r.Release(2)
			fresh := load(t, match.PolicyLow, one(2))
			fresh.gets(wants(1, 0, nodes(2), lasting(100)))
			same(t, "after the release", r.dump(), fresh.dump())
		},
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) { check(t, full(t)) })
	}
}

// TestEarliestReservation checks that a reservation begins at the first time, of
// those at which a booking begins or ends, from which the whole duration fits.
func TestEarliestReservation(t *testing.T) {
	later := doing(match.AllocateOrElseReserve)
	r := load(t, match.PolicyLow, one(3))
	r.gets(wants(1, 0, nodes(1), lasting(10)))
	r.gets(wants(2, 0, nodes(1), lasting(20)))
	r.gets(wants(3, 0, nodes(1), lasting(30)))
	for i, want := range []struct{ nodes, lasts, at int64 }{
		{1, 5, 10}, {2, 5, 20}, {3, 5, 30}, {1, 5, 15}, {1, 100, 35}, {1, 3, 25}, {3, 1, 135}, {1, 2, 25},
	} {
		a := r.gets(wants(match.JobID(10+i), 0, nodes(want.nodes), lasting(want.lasts), later))
		if !a.Reserved || !a.Start.Equal(seconds(want.at)) {
			t.Errorf("reservation %d, %d nodes for %d: at %d, want %d", i, want.nodes, want.lasts, a.Start.Unix(), want.at)
		}
	}
	forever := r.gets(wants(30, 0, nodes(3), later))
	if !forever.Reserved || !forever.End.IsZero() {
		t.Errorf("without a duration: reserved %t to %s; want a reservation without end", forever.Reserved, forever.End)
	}
	r.fails(wants(31, 0, nodes(3), later), match.ErrBusy)
	r.fails(wants(31, 0, nodes(4)), match.ErrUnsatisfiable)
}

func TestNoReservationBehindWhatHasNoEnd(t *testing.T) {
	r := load(t, match.PolicyLow, one(2))
	r.gets(wants(1, 0, nodes(1)))
	r.gets(wants(2, 0, nodes(1), lasting(10)))
	r.fails(wants(3, 0, nodes(2), lasting(1), doing(match.AllocateOrElseReserve)), match.ErrBusy)
	if a := r.gets(wants(3, 0, nodes(1), lasting(1), doing(match.AllocateOrElseReserve))); !a.Start.Equal(seconds(10)) {
		t.Errorf("at %s, want 10", a.Start)
	}
}

// TestClockGoesBack checks that a clock that goes back frees no allocation and loses nothing.
func TestClockGoesBack(t *testing.T) {
	r := load(t, match.PolicyLow, one(1))
	r.gets(wants(1, 100, nodes(1), lasting(10)))
	r.fails(wants(2, 50, nodes(1), lasting(10)), match.ErrBusy)
	r.fails(wants(2, 50, nodes(1)), match.ErrBusy)
	if got := r.found("sched-now=allocated", 50); len(got) != 3 {
		t.Errorf("%q are allocated, want the node and its cores", got)
	}
	a := r.gets(wants(2, 50, nodes(1), lasting(10), doing(match.AllocateOrElseReserve)))
	if !a.Reserved || a.Start.Before(seconds(110)) {
		t.Errorf("reserved: %t at %s; want not before 110", a.Reserved, a.Start)
	}
	r.fails(wants(3, 200, nodes(1)), match.ErrBusy)
	r.fails(wants(3, 20, nodes(1)), match.ErrBusy)
	r.Release(1)
	r.Release(2)
	same(t, "after all is released", r.dump(), load(t, match.PolicyLow, one(1)).dump())
}

func TestDurations(t *testing.T) {
	const most = planner.Forever
	second := int64(time.Second)
	cases := map[string]struct {
		at   int64
		d    time.Duration
		want int64
	}{
		"none is without end":                {at: 5, want: most},
		"whole seconds stay":                 {at: 5, d: 3 * time.Second, want: 5 + 3*second},
		"a nanosecond is a second":           {at: 5, d: 1, want: 5 + second},
		"a bit more than a second is two":    {at: 0, d: time.Second + 1, want: 2 * second},
		"a bit less than a second is one":    {at: 0, d: time.Second - 1, want: second},
		"the life of the graph has no end":   {at: 0, d: lifetime, want: most},
		"a second less than that has":        {at: 0, d: lifetime - time.Second, want: int64(lifetime) - second},
		"an end past all times is no end":    {at: most - second, d: 2 * time.Second, want: most},
		"an end right at the last is no end": {at: most - second, d: time.Second, want: most},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := until(tc.at, tc.d); got != tc.want {
				t.Errorf("until(%d, %s) = %d, want %d", tc.at, tc.d, got, tc.want)
			}
		})
	}
	r := load(t, match.PolicyLow, one(1))
	a := r.gets(wants(1, 100, nodes(1), func(q *match.Request) { q.Duration = 1500 * time.Millisecond }))
	if !a.End.Equal(seconds(102)) {
		t.Errorf("1.5 s from 100 on end at %s, want 102", a.End)
	}
	r.fails(wants(2, 100, nodes(1), func(q *match.Request) { q.Duration = lifetime + 1 }), match.ErrInvalid)
}
