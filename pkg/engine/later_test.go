package engine_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// matchForMinutes requests a jobspec for this number of minutes, now or later.
func (d *driver) matchForMinutes(t *testing.T, id match.JobID, js *jobspec.Jobspec, minutes int) *match.Allocation {
	t.Helper()
	r := d.request(id, js)
	r.Op, r.Duration = match.AllocateOrElseReserve, time.Duration(minutes)*time.Minute
	a, err := d.e.Match(t.Context(), r)
	if err != nil {
		t.Fatalf("Match(%d) = %v", id, err)
	}
	return a
}

// begins returns the start of an allocation in minutes.
func begins(a *match.Allocation) float64 { return a.Start.Sub(matchtest.Now).Minutes() }

// TestALeafIsFreeForAllOfTheTimeOrNotGiven makes the four cores of a node free and reserved one by
// one. One core is free at all times, but no core is free for long.
func TestALeafIsFreeForAllOfTheTimeOrNotGiven(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	for id, minutes := range []int{5, 10, 15} {
		d.matchForMinutes(t, match.JobID(id+1), matchtest.Slots("a", 1, core(1)), minutes)
	}
	a := d.matchForMinutes(t, 4, matchtest.Slots("a", 1, core(2)), 10)
	if want := []string{"/cluster0/n1/socket0/core0=1", "/cluster0/n1/socket1/core3=1"}; begins(a) != 5 || cmp.Diff(want, shares(a.R)[:2]) != "" {
		t.Errorf("two cores are given from %v on: %v, want %v from 5 on", begins(a), shares(a.R), want)
	}
	// Core 3 is free up to 5, core 1 from 10 on and core 2 from 15 on.
	a = d.matchForMinutes(t, 5, matchtest.Slots("a", 1, core(1)), 6)
	if want := "/cluster0/n1/socket0/core1=1"; begins(a) != 10 || shares(a.R)[0] != want {
		t.Errorf("a core is given from %v on: %v, want %s from 10 on", begins(a), shares(a.R), want)
	}
	a = d.matchForMinutes(t, 6, matchtest.Slots("a", 1, core(1)), 5)
	if want := "/cluster0/n1/socket1/core3=1"; a.Reserved || shares(a.R)[0] != want {
		t.Errorf("a core is given from %v on: %v, want %s now", begins(a), shares(a.R), want)
	}
}

// TestReservationWithoutLeavesUsesTheRemainingLeaves updates a reservation that names no leaf, on a
// pool with several leaves.
func TestReservationWithoutLeavesUsesTheRemainingLeaves(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, sockets())
	first := d.matchForMinutes(t, 1, matchtest.Slots("a", 1, core(1)), 60)
	if err := d.e.Update(t.Context(), d.epoch, match.Job{
		ID: 2, Reserved: true, Start: matchtest.Now.Add(time.Minute), Slots: []match.Slot{matchtest.Held("x", "n1", core(2))},
	}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	a := d.matchForMinutes(t, 3, matchtest.Slots("a", 1, core(1)), 2)
	if got := shares(a.R)[0]; a.Reserved || got != "/cluster0/n1/socket1/core3=1" {
		t.Errorf("given is %s from %v on, want core 3 now beside %v", got, begins(a), shares(first.R))
	}
	if a := d.matchForMinutes(t, 4, matchtest.Slots("a", 1, core(1)), 2); begins(a) != 2 {
		t.Errorf("the next core is given from %v on, want it from 2 on", begins(a))
	}
}

// TestEnormousPoolsOverTime has amounts whose sum exceeds an int64.
func TestEnormousPoolsOverTime(t *testing.T) {
	const half = math.MaxInt64 / 2
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n1", nil, memory(math.MaxInt64)))
	d.matchForMinutes(t, 1, matchtest.Slots("a", 1, memory(math.MaxInt64)), 10)
	held := match.Job{ID: 2, End: matchtest.Now.Add(20 * time.Minute)}
	for _, key := range []string{"v", "w", "x", "y", "z"} {
		held.Slots = append(held.Slots, matchtest.Held(key, "n1", memory(half)))
	}
	if err := d.e.Update(t.Context(), d.epoch, held); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	for id, want := range []float64{20, 20, 30, 30} {
		if a := d.matchForMinutes(t, match.JobID(id+3), matchtest.Slots("a", 1, memory(half-100)), 10); begins(a) != want {
			t.Errorf("half of all begins in %v minutes, want %v", begins(a), want)
		}
	}
	many := match.Job{ID: 20, Reserved: true, Start: matchtest.Now.Add(time.Hour), End: matchtest.Now.Add(2 * time.Hour)}
	for i := range 100 {
		many.Slots = append(many.Slots, matchtest.Held(strconv.Itoa(i), "n1", memory(7)))
	}
	if err := d.e.Update(t.Context(), d.epoch, many); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	if a := d.matchForMinutes(t, 21, matchtest.Slots("a", 1, memory(math.MaxInt64-512)), 21); begins(a) != 120 {
		t.Errorf("almost all begins in %v minutes, want it in 120, after a hundred times a little", begins(a))
	}
}

// TestLaterWindowOverlapsReservationThatBeginsAtPreviousEnd tries two start times. The second
// window would overlap a reservation that begins exactly at the end of the first window.
func TestLaterWindowOverlapsReservationThatBeginsAtPreviousEnd(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n1", nil, core(2)), matchtest.Node("n2", nil, core(2)))
	d.matchForMinutes(t, 1, matchtest.Slots("a", 1, core(2)), 10)
	d.matchForMinutes(t, 2, matchtest.Slots("a", 1, core(2)), 12)
	promised := match.Job{ID: 3, Reserved: true, Start: matchtest.Now.Add(15 * time.Minute), End: matchtest.Now.Add(20 * time.Minute)}
	promised.Slots = []match.Slot{matchtest.Held("x", "n1", core(1))}
	if err := d.e.Update(t.Context(), d.epoch, promised); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	if a := d.matchForMinutes(t, 4, matchtest.Slots("a", 2, core(2)), 5); begins(a) != 20 {
		t.Errorf("both nodes are given from %v on, want 20", begins(a))
	}
}

// TestANodeThatChangesUnderAReservation changes the pools of a node, and the end of what is held
// there.
func TestANodeThatChangesUnderAReservation(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n1", nil, core(2)))
	look := func(want float64) {
		t.Helper()
		r := d.request(0, matchtest.Slots("a", 1, core(1)))
		r.Op = match.WithoutAllocatingFuture
		if a, err := d.e.Match(t.Context(), r); err != nil || begins(a) != want {
			t.Errorf("Match() = %v, %v, want room in %v minutes", a, err, want)
		}
	}
	held := d.matchForMinutes(t, 1, matchtest.Slots("a", 1, core(2)), 10)
	d.matchForMinutes(t, 2, matchtest.Slots("a", 1, core(2)), 10)
	if a := d.matchForMinutes(t, 3, matchtest.Slots("a", 1, core(1)), 10); begins(a) != 20 {
		t.Errorf("given from %v on, want 20", begins(a))
	}
	look(20)
	if err := d.e.PutNode(t.Context(), d.epoch, matchtest.Node("n1", nil, memory(5), core(3))); err != nil {
		t.Fatalf("PutNode() = %v", err)
	}
	if a := d.matchForMinutes(t, 4, matchtest.Slots("a", 1, core(1), memory(5)), 30); a.Reserved {
		t.Errorf("what came to the node is given from %v on, want it now", begins(a))
	}
	if a := d.matchForMinutes(t, 5, matchtest.Slots("a", 1, core(1)), 11); begins(a) != 20 {
		t.Errorf("given from %v on, want 20", begins(a))
	}
	look(30)
	if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 1, Slots: held.Slots, End: matchtest.Now.Add(5 * time.Minute)}); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	if a := d.matchForMinutes(t, 6, matchtest.Slots("a", 1, core(2)), 5); begins(a) != 5 {
		t.Errorf("given from %v on, want 5: what is held ends earlier", begins(a))
	}
}

// TestEarliestStartSkipsFailedTries requests two slots in two racks. By amounts there is room several times
// before the second rack is free.
func TestEarliestStartSkipsFailedTries(t *testing.T) {
	d := &driver{e: newEngine(t)}
	in := func(name, rack string, cores int64) *resource.Graph {
		return matchtest.Node(name, [][2]string{{"rack", rack}}, core(cores))
	}
	d.load(t, in("n1", "r1", 4), in("n2", "r1", 4), in("n3", "r2", 2))
	for id, minutes := range []int{10, 22, 20, 23, 30} {
		d.matchForMinutes(t, match.JobID(id+1), matchtest.Slots("a", 1, core(2)), minutes)
	}
	js := matchtest.Constrain(matchtest.Slots("s", 2, core(2)), "s", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"rack": 1}})
	if a := d.matchForMinutes(t, 9, js, 5); begins(a) != 30 {
		t.Errorf("one a rack is given from %v on, want 30", begins(a))
	}
}

// TestTimesOutsideThePlannersRange books at the limits of time.Time.
func TestTimesOutsideThePlannersRange(t *testing.T) {
	for name, now := range map[string]time.Time{
		"no time at all": {}, "the first": time.Unix(math.MinInt64, 0), "the last": time.Unix(1<<60, 0),
	} {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, matchtest.Node("n1", nil, core(2)))
			for id := range match.JobID(3) {
				r := d.request(id+1, matchtest.Slots("a", 1, core(1)))
				r.Now, r.Duration, r.Op = now, time.Hour, match.AllocateOrElseReserve
				if _, err := d.e.Match(t.Context(), r); err != nil && !errors.Is(err, match.ErrBusy) {
					t.Fatalf("Match() = %v", err)
				}
			}
			if a := d.matchForMinutes(t, 9, matchtest.Slots("a", 1, core(1)), 1); len(a.Slots) != 1 {
				t.Errorf("%d slots are given", len(a.Slots))
			}
			for id := range match.JobID(10) {
				if err := d.e.Release(t.Context(), d.epoch, id); err != nil {
					t.Fatalf("Release() = %v", err)
				}
			}
			if a := d.matchForMinutes(t, 1, matchtest.Slots("a", 1, core(2)), 1); a.Reserved {
				t.Errorf("with nothing held two cores are given from %s on", a.Start)
			}
		})
	}
}

// A contextEndingAfterCalls ends after a number of calls of Err.
type contextEndingAfterCalls struct {
	context.Context
	asks int
}

func (b *contextEndingAfterCalls) Err() error {
	if b.asks--; b.asks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestASearchThatIsCutShortChangesNothing ends the context while the engine searches for a later
// time.
func TestASearchThatIsCutShortChangesNothing(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n1", nil, core(4)), matchtest.Node("n2", nil, core(4)))
	for id := range match.JobID(4) {
		d.matchForMinutes(t, id+1, matchtest.Slots("a", 1, core(2)), 10*int(id+1))
	}
	d.matchForMinutes(t, 5, matchtest.Slots("a", 1, core(4)), 5)
	before, err := d.e.Jobs(t.Context(), d.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	r := d.request(5, matchtest.Slots("a", 2, core(4)))
	r.Op = match.AllocateOrElseReserve
	for asks := 1; ; asks++ {
		a, err := d.e.Match(&contextEndingAfterCalls{t.Context(), asks}, r)
		if err == nil {
			if begins(a) != 40 || asks < 4 {
				t.Errorf("after %d asks given from %v on, want 40", asks, begins(a))
			}
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Match() = %v", err)
		}
		after, err := d.e.Jobs(t.Context(), d.epoch)
		if diff := cmp.Diff(before, after); err != nil || diff != "" {
			t.Fatalf("%v, what is held and reserved differs (-before +after):\n%s", err, diff)
		}
		free := d.request(9, matchtest.Jobspec(matchtest.Slot("a", jobspec.Between(1, 9), core(1))))
		free.Op = match.WithoutAllocating
		if a, err := d.e.Match(t.Context(), free); !errors.Is(err, match.ErrBusy) {
			t.Fatalf("Match() = %v, %v, though all is held", a, err)
		}
	}
}

// TestShapesAreReservedTogether reserves two shapes that need different nodes.
func TestShapesAreReservedTogether(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t,
		matchtest.Node("n1", [][2]string{{"rack", "r1"}}, core(4)),
		matchtest.Node("n2", [][2]string{{"rack", "r1"}}, core(2)),
		matchtest.Node("n3", [][2]string{{"rack", "r2"}}, core(2)))
	d.matchForMinutes(t, 1, matchtest.Slots("a", 1, core(4)), 30)
	d.matchForMinutes(t, 2, matchtest.Slots("a", 1, core(2)), 10)
	d.matchForMinutes(t, 3, matchtest.Slots("a", 1, core(2)), 20)
	small := matchtest.Slot("s", jobspec.Exactly(2), core(2))
	js := matchtest.Constrain(matchtest.Jobspec(small), "s", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"rack": 1}})
	if a := d.matchForMinutes(t, 4, js, 5); begins(a) != 20 || written(a.Slots) != "0@n2 1@n3" {
		t.Errorf("one a rack is %s in %v minutes, want it in 20", written(a.Slots), begins(a))
	}
	js = matchtest.Jobspec(small, matchtest.Slot("l", jobspec.Between(1, 9), core(1)))
	if a := d.matchForMinutes(t, 5, js, 5); begins(a) != 30 || written(a.Slots) != "0@n1 1@n1 2@n2 3@n2 4@n3 5@n3" {
		t.Errorf("two shapes are %s in %v minutes, want them in 30, the range as far as it goes", written(a.Slots), begins(a))
	}
}
