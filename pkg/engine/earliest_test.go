package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// TestAPromiseIsTheFirstEndWithRoom compares the start of a reservation with a search that asks at the present and at
// every end, of an engine that lacks what has ended by then. The nodes have sockets or are full beyond their size,
// and the requests have one or two shapes, limits, whole nodes and holders.
func TestAPromiseIsTheFirstEndWithRoom(t *testing.T) {
	later := 0
	for seed := range trials.Seeds(60) {
		rnd := rand.New(rand.NewPCG(seed, 24))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d, jobs, nodes := randomlyHeld(t, rnd)
			for range 8 {
				r := randomLaterRequest(d, rnd)
				want := firstEndWithRoom(t, r, jobs, nodes)
				a, err := d.e.Match(t.Context(), r)
				switch {
				case err != nil && !errors.Is(err, match.ErrBusy) && !errors.Is(err, match.ErrUnsatisfiable):
					t.Fatalf("Match() = %v", err)
				case err != nil != want.IsZero() || err == nil && !a.Start.Equal(want):
					t.Fatalf("Match(%+v) = %+v, %v, want a start at %v", r, a, err, want)
				case err == nil && a.Reserved:
					later++
				}
			}
		})
	}
	if later < trials.Count(60) {
		t.Errorf("only %d requests can start later", later)
	}
}

// randomlyHeld returns an engine in which jobs hold or have reserved much of the nodes.
func randomlyHeld(t *testing.T, rnd *rand.Rand) (*driver, []match.Job, []*resource.Graph) {
	t.Helper()
	nodes := []*resource.Graph{sockets()}
	for i := range 4 {
		nodes = append(nodes, matchtest.Node(fmt.Sprintf("n%d", i+2), [][2]string{{"rack", fmt.Sprint(i / 2)}}, core(4), memory(20)))
	}
	d := &driver{e: newEngine(t)}
	d.load(t, nodes...)
	var jobs []match.Job
	for id := range match.JobID(14) {
		end := matchtest.Now.Add(time.Duration(rnd.IntN(40)-1) * time.Minute)
		j := match.Job{ID: id + 1, End: end}
		if rnd.IntN(8) == 0 {
			j.End = time.Time{}
		}
		if rnd.IntN(5) == 0 {
			j.Reserved, j.Start, j.End = true, end.Add(2*time.Minute), end.Add(time.Duration(3+rnd.IntN(9))*time.Minute)
		}
		for key := range 1 + rnd.IntN(2) {
			s := matchtest.Held(fmt.Sprint(key), fmt.Sprintf("n%d", 1+rnd.IntN(5)), core(1+rnd.Int64N(3)), memory(rnd.Int64N(12)))
			if s.Node == "n1" {
				// Without paths, the leaves that a slot takes would depend on what else is held.
				socket := rnd.IntN(2)
				s.R.Vertices[0].Path = fmt.Sprintf("/cluster0/n1/socket%d/core%d", socket, 2*socket+rnd.IntN(2))
				s.R.Vertices[1].Path = fmt.Sprintf("/cluster0/n1/socket%d/memory%d", socket, socket)
			}
			switch rnd.IntN(8) {
			case 0:
				s = matchtest.WithHolder(s, "x")
			case 1:
				s = matchtest.Shared(s)
			}
			j.Slots = append(j.Slots, s)
		}
		jobs = append(jobs, j)
	}
	if err := d.e.Update(t.Context(), d.epoch, jobs...); err != nil {
		t.Fatal(err)
	}
	return d, jobs, nodes
}

// randomLaterRequest returns a request that books nothing and may start later.
func randomLaterRequest(d *driver, rnd *rand.Rand) match.Request {
	js := matchtest.Jobspec(matchtest.Slot("a", jobspec.Exactly(1+rnd.Int64N(4)), core(1+rnd.Int64N(4)), memory(1+rnd.Int64N(9))))
	if rnd.IntN(3) == 0 {
		js = matchtest.Jobspec(matchtest.Slot("a", jobspec.Exactly(1+rnd.Int64N(2)), core(1)), matchtest.Slot("b", jobspec.Exactly(1+rnd.Int64N(2)), core(3)))
	}
	if rnd.IntN(3) == 0 {
		js = matchtest.Constrain(js, "a", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": 1}})
	}
	r := d.request(100, js)
	r.Op, r.Duration = match.WithoutAllocatingFuture, time.Duration(rnd.IntN(12))*time.Minute
	switch rnd.IntN(4) {
	case 0:
		r.Holder, r.Policy = "x", match.PolicyHinodex
	case 1:
		r.Holder = "x"
	}
	return r
}

// firstEndWithRoom returns the first time at which a request fits. It returns the zero time if there is none.
func firstEndWithRoom(t *testing.T, r match.Request, jobs []match.Job, nodes []*resource.Graph) time.Time {
	t.Helper()
	r.Op = match.WithoutAllocating
	times := []time.Time{matchtest.Now, matchtest.Now.Add(time.Second)} // What is past its end counts as released a second later.
	for minute := range 63 {
		times = append(times, matchtest.Now.Add(time.Duration(minute+1)*time.Minute))
	}
	for i, now := range times {
		d := &driver{e: newEngine(t)}
		d.load(t, nodes...)
		for _, j := range jobs {
			if i == 0 || j.Reserved || j.End.IsZero() || j.End.After(now) {
				if err := d.e.Update(t.Context(), d.epoch, j); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.Epoch, r.Now = d.epoch, now
		if a, err := d.e.Match(t.Context(), r); err == nil {
			return a.Start
		}
	}
	return time.Time{}
}

// TestManyEndsAreNotAllTried lets a promise wait for the last of a thousand ends, and for an end that never comes, with
// fewer steps than it takes to try all of them.
func TestManyEndsAreNotAllTried(t *testing.T) {
	const ends = 1000
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n1", nil, core(ends)), matchtest.Node("n2", nil, core(ends)))
	held := match.Job{ID: 1}
	for i := range ends {
		s := matchtest.Held(fmt.Sprint(i), "n1", core(1))
		s.R.Expiration = matchtest.Now.Add(time.Duration(i+1) * time.Minute)
		held.Slots = append(held.Slots, s)
	}
	if err := d.e.Update(t.Context(), d.epoch, held, match.Job{ID: 2, Slots: []match.Slot{matchtest.Held("0", "n2", core(1))}}); err != nil {
		t.Fatal(err)
	}
	d.e.SetLockedSteps(32 * ends)
	if a := d.matchForMinutes(t, 3, matchtest.Slots("a", 1, core(ends)), 5); begins(a) != ends {
		t.Errorf("a whole node is given from %v on, want %d", begins(a), ends)
	}
	r := d.request(4, matchtest.Slots("a", 2, core(ends)))
	r.Op = match.AllocateOrElseReserve
	_, err := d.e.Match(t.Context(), r)
	if no, refused := errors.AsType[*match.Refusal](err); !refused || no.Reason.Code == match.TooHard {
		t.Errorf("Match() of two whole nodes = %v, want a refusal by amounts", err)
	}
}
