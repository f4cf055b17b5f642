package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/trials"
)

// TestIgnoredJobsAreAsReleasedOnes checks that a match that ignores jobs answers as if they were
// released, and leaves the graph as it was.
func TestIgnoredJobsAreAsReleasedOnes(t *testing.T) {
	for seed := range trials.Seeds(400) {
		ignoring, released := occupied(t, seed), occupied(t, seed)
		random := rand.New(rand.NewPCG(seed, 22))
		before := ignoring.renderMatchIgnoring(t, random.Uint64(), nil)
		var ids []match.JobID
		for id := range match.JobID(12) {
			if random.IntN(3) > 0 {
				ids = append(ids, id+1)
				if err := released.e.Release(t.Context(), released.epoch, id+1); err != nil {
					t.Fatal(err)
				}
			}
		}
		ids = append(ids, ids...)
		for range 8 {
			ask := random.Uint64()
			got, want := ignoring.renderMatchIgnoring(t, ask, ids), released.renderMatchIgnoring(t, ask, nil)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d, without %v (-want +got):\n%s", seed, ids, diff)
			}
		}
		random = rand.New(rand.NewPCG(seed, 22))
		if after := ignoring.renderMatchIgnoring(t, random.Uint64(), nil); after != before {
			t.Errorf("seed %d: once all jobs count again: %s\nwant %s", seed, after, before)
		}
		if left, want := ignoring.allocateRest(t), occupied(t, seed).allocateRest(t); left != want {
			t.Errorf("seed %d: once all jobs count again there is left:\n%s\nwant:\n%s", seed, left, want)
		}
	}
}

// occupied returns an engine with a few nodes and with jobs. One node has pools of several leaves.
// The jobs hold or have reserved slots on the nodes and elsewhere.
func occupied(t *testing.T, seed uint64) *driver {
	random := rand.New(rand.NewPCG(seed, 21))
	d := &driver{e: newEngine(t)}
	node := func(name string) { d.put(t, matchtest.Node(name, nil, core(4), memory(20))) }
	d.load(t, matchtest.Node("n0", nil, core(4), memory(20)), sockets())
	node("n2")
	for id := range match.JobID(12) {
		if random.IntN(2) == 0 {
			r := d.request(id+1, matchtest.Slots("a", 1+random.Int64N(2), core(1+random.Int64N(2)), memory(random.Int64N(6)+1)))
			r.Op, r.Duration = match.AllocateOrElseReserve, time.Duration(1+random.IntN(3))*time.Hour
			if random.IntN(4) == 0 {
				r.Policy, r.Holder = match.PolicyLonodex, "x"
			}
			var no *match.Refusal
			if _, err := d.e.Match(t.Context(), r); err != nil && !errors.As(err, &no) {
				t.Fatal(err)
			}
			continue
		}
		job := match.Job{ID: id + 1}
		for k := range 1 + random.IntN(2) {
			s := matchtest.Held(fmt.Sprint(k), fmt.Sprint("n", random.IntN(4)), core(1), memory(random.Int64N(9)))
			switch random.IntN(4) {
			case 0:
				s.Shared = true
			case 1:
				s.Holder = []string{"x", "y"}[random.IntN(2)]
			}
			if random.IntN(2) == 0 {
				s.R.Expiration = matchtest.Now.Add(time.Duration(1+random.IntN(3)) * time.Hour)
			}
			job.Slots = append(job.Slots, s)
		}
		if err := d.e.Update(t.Context(), d.epoch, job); err != nil {
			t.Fatal(err)
		}
	}
	if random.IntN(3) == 0 {
		d.remove(t, "n2")
	}
	if random.IntN(3) == 0 {
		node("n3")
	}
	return d
}

// renderMatchIgnoring makes a request that ignores these jobs and books nothing, and renders the whole answer.
func (d *driver) renderMatchIgnoring(t *testing.T, seed uint64, ids []match.JobID) string {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 23))
	r := d.request(99, matchtest.Slots("a", 1+random.Int64N(6), core(1+random.Int64N(2)), memory(1+random.Int64N(9))))
	r.Ignore = ids
	r.Op, r.Duration = match.WithoutAllocating+match.Op(random.IntN(2)), time.Duration(random.IntN(3))*time.Hour
	if random.IntN(3) == 0 {
		r.Policy, r.Holder = match.PolicyLonodex, "x"
	}
	if random.IntN(3) == 0 {
		r.Expected = []match.Slot{matchtest.Held("e", "n1", core(1))}
	}
	a, err := d.e.Match(t.Context(), r)
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		end := no.Reason.Blocker
		no.Reason.Blocker = nil
		return fmt.Sprintf("%v %+v %+v", no.Err, no.Reason, end)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s at %s: %v", written(a.Slots), a.Start, shares(a.R))
}

// allocateRest allocates everything that is left, slot by slot.
func (d *driver) allocateRest(t *testing.T) string {
	t.Helper()
	out := ""
	for id := match.JobID(100); ; id++ {
		a, err := d.e.Match(t.Context(), d.request(id, matchtest.Slots("a", 1, core(1), memory(1))))
		if err != nil {
			return out + errorText(err)
		}
		out += fmt.Sprintln(shares(a.R))
	}
}

// TestWhatIsIgnoredIsCharged checks that ignoring jobs counts as work of a match. If it is too
// much, the match goes on in an unlocked search. If ignoring alone is too much, the match is too hard.
func TestWhatIsIgnoredIsCharged(t *testing.T) {
	const slots = 1000
	synctest.Test(t, func(t *testing.T) {
		d := &driver{e: newEngine(t)}
		d.load(t, cluster(200)...)
		d.match(t, 9, matchtest.Slots("a", slots, pod...))
		// needs returns the smallest number of steps with which the result of a match is enough.
		needs := func(ignored []match.JobID, enough func(error) bool) int {
			return sort.Search(engine.LockedSteps, func(steps int) bool {
				d.e.SetLockedSteps(steps)
				r := d.request(1, matchtest.Slots("a", 1, pod...))
				r.Op, r.Ignore = match.WithoutAllocating, ignored
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err := d.e.Match(ctx, r)
				return enough(err)
			})
		}
		found := func(err error) bool { return err == nil }
		begun := func(err error) bool { return found(err) || errors.Is(err, context.DeadlineExceeded) }
		release := d.e.HoldUnlockedSearches()
		defer release()
		alone, ignoring, began := needs(nil, found), needs([]match.JobID{9}, found), needs([]match.JobID{9}, begun)
		if began < slots {
			t.Errorf("to ignore %d slots takes %d steps", slots, began)
		}
		if ignoring <= began || ignoring > began+alone {
			t.Errorf("a match takes %d steps, to ignore jobs %d, and both %d, want them to add up", alone, began, ignoring)
		}
	})
}
