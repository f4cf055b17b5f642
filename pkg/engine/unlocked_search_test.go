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

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/trials"
)

// engineWithoutLockedSteps returns an engine whose matches all need an unlocked search.
func engineWithoutLockedSteps(t testing.TB) *engine.Engine {
	e := newEngine(t)
	e.SetLockedSteps(0)
	return e
}

// answer renders the result of a match. It leaves out the blocker, which only a match under the
// lock finds.
func answer(a *match.Allocation, err error) string {
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		reason := no.Reason
		reason.Blocker = nil
		return fmt.Sprintf("%v %+v", no.Err, reason)
	}
	if err != nil {
		return err.Error()
	}
	return written(a.Slots)
}

func TestUnlockedSearchGivesTheSameAnswers(t *testing.T) {
	for seed := range trials.Seeds(1000) {
		p := randomPuzzle(rand.New(rand.NewPCG(seed, 11)))
		want := func() string { a, _, err := p.timed(t, newEngine(t)); return answer(a, err) }()
		got := func() string { a, _, err := p.timed(t, engineWithoutLockedSteps(t)); return answer(a, err) }()
		if got != want {
			t.Errorf("puzzle %d, %+v:\nbeside: %s\nwant:   %s", seed, p, got, want)
		}
		x := randomTopologyInstance(rand.New(rand.NewPCG(seed, 12)), seed%3 == 0)
		want = answer(x.pose(t, newEngine(t)))
		if got := answer(x.pose(t, engineWithoutLockedSteps(t))); got != want {
			t.Errorf("stand %d, %+v:\nbeside: %s\nwant:   %s", seed, x, got, want)
		}
	}
}

func TestUnlockedSearchBlocksNoCall(t *testing.T) {
	d := &driver{e: engineWithoutLockedSteps(t)}
	d.load(t, cluster(4)...)
	release := d.e.HoldUnlockedSearches()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.e.Match(ctx, d.request(1, matchtest.Slots("a", 1, pod...))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Match() = %v, want it to wait for its turn until its deadline", err)
	}
	d.e.SetLockedSteps(engine.LockedSteps)
	d.match(t, 2, matchtest.Slots("a", 1, pod...))
	release()
	d.e.SetLockedSteps(0)
	d.match(t, 3, matchtest.Slots("a", 1, pod...))
}

// TestPlacementOfUnlockedSearchIsReplayed checks that the placement of an unlocked search is laid out
// in the graph as it is then.
func TestPlacementOfUnlockedSearchIsReplayed(t *testing.T) { synctest.Test(t, changedMeanwhile) }

func changedMeanwhile(t *testing.T) {
	d := &driver{e: engineWithoutLockedSteps(t)}
	d.load(t, cluster(2)...)
	release := d.e.HoldUnlockedSearches()
	done := make(chan error, 1)
	go func() {
		_, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 16, pod...)))
		done <- err
	}()
	synctest.Wait()
	err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 9, Slots: []match.Slot{matchtest.Held("k", "n00000", matchtest.GPUs(1))}})
	if err != nil {
		t.Fatal(err)
	}
	release()
	var no *match.Refusal
	if err := <-done; !errors.As(err, &no) || no.Reason.Code != match.TooFew || no.Reason.Found != 15 {
		t.Errorf("Match() = %v, want room for 15 of 16", err)
	}
	jobs, err := d.e.Jobs(t.Context(), d.epoch)
	if err != nil || len(jobs) != 1 {
		t.Errorf("Jobs() = %+v, %v, want the other's alone", jobs, err)
	}
}

// TestNodeChangesDuringUnlockedSearch changes nodes during an unlocked search. Nodes that come, or that
// go and are not in the placement, make no difference. If a node of the placement goes, the match
// is refused as overtaken.
func TestNodeChangesDuringUnlockedSearch(t *testing.T) {
	cases := map[string]struct {
		changes []func(*driver)
		want    match.Code
	}{
		"nodes come":                {[]func(*driver){func(d *driver) { d.put(t, cluster(6)[4:]...) }}, ""},
		"another goes":              {[]func(*driver){func(d *driver) { d.remove(t, "n00003") }}, ""},
		"one found goes":            {[]func(*driver){func(d *driver) { d.remove(t, "n00000") }}, ""},
		"those found go, each time": {[]func(*driver){func(d *driver) { d.remove(t, "n00000") }, func(d *driver) { d.remove(t, "n00001") }}, match.Overtaken},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &driver{e: engineWithoutLockedSteps(t)}
				d.load(t, cluster(4)...)
				release := d.e.HoldUnlockedSearches()
				done := make(chan error, 1)
				go func() {
					a, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 1, pod...)))
					if err == nil && len(a.Slots) != 1 {
						err = fmt.Errorf("%d slots", len(a.Slots))
					}
					done <- err
				}()
				for i, change := range tc.changes {
					synctest.Wait()
					change(d)
					release()
					if i < len(tc.changes)-1 {
						release = d.e.HoldUnlockedSearches()
					}
				}
				err := <-done
				var no *match.Refusal
				if got := errors.As(err, &no); got != (tc.want != "") || got && no.Reason.Code != tc.want || !got && err != nil {
					t.Errorf("Match() = %v, want the refusal %q", err, tc.want)
				}
			})
		})
	}
}

// TestAMatchThatWasOvertakenIsNotTooHard checks that a request whose placement was found and
// overtaken is not too hard, however few steps are left for another search.
func TestAMatchThatWasOvertakenIsNotTooHard(t *testing.T) {
	a := matchtest.Slots("a", 16, pod...)
	loaded := func(t *testing.T, steps int) *driver {
		d := &driver{e: engineWithoutLockedSteps(t)}
		d.e.SetUnlockedSteps(steps)
		d.load(t, cluster(4)...)
		return d
	}
	enough := 1 + sort.Search(engine.UnlockedSteps, func(steps int) bool {
		d := loaded(t, steps)
		_, err := d.e.Match(t.Context(), d.request(1, a))
		return err == nil
	})
	synctest.Test(t, func(t *testing.T) {
		d := loaded(t, enough)
		release := d.e.HoldUnlockedSearches()
		done := make(chan error, 1)
		go func() {
			_, err := d.e.Match(t.Context(), d.request(1, a))
			done <- err
		}()
		synctest.Wait()
		d.remove(t, "n00000")
		release()
		var no *match.Refusal
		if err := <-done; !errors.As(err, &no) || no.Reason.Code != match.Overtaken || !no.Reason.WaitingHelps {
			t.Errorf("Match() = %v, want that it was overtaken", err)
		}
	})
}

// TestAReservationOutlivesAMatchThatIsTooHard checks that a job keeps its reservation if its match
// is too hard, because that proves nothing.
func TestAReservationOutlivesAMatchThatIsTooHard(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, cluster(1)...)
	d.matchForMinutes(t, 1, matchtest.Slots("a", 8, pod...), 60)
	r := d.request(2, matchtest.Slots("a", 8, pod...))
	r.Op, r.Duration = match.AllocateOrElseReserve, time.Hour
	if a, err := d.e.Match(t.Context(), r); err != nil || !a.Reserved {
		t.Fatalf("Match() = %+v, %v, want a reservation", a, err)
	}
	d.e.SetLockedSteps(0)
	var no *match.Refusal
	if _, err := d.e.Match(t.Context(), r); !errors.As(err, &no) || no.Reason.Code != match.TooHard {
		t.Fatalf("Match() = %v, want %s", err, match.TooHard)
	}
	d.e.SetLockedSteps(engine.LockedSteps)
	r.ID = 3
	if a, err := d.e.Match(t.Context(), r); err != nil || !a.Start.Equal(matchtest.Now.Add(2*time.Hour)) {
		t.Errorf("Match() = %+v, %v, want a reservation after that of job 2", a, err)
	}
}

// TestUnlockedRefusalDropsReservation checks that a job loses its
// reservation if an unlocked search refuses its booking, as it does if the booking is refused under the
// lock.
func TestUnlockedRefusalDropsReservation(t *testing.T) {
	for _, steps := range []int{engine.LockedSteps, 0} {
		d := &driver{e: newEngine(t)}
		d.load(t, cluster(1)...)
		d.matchForMinutes(t, 1, matchtest.Slots("a", 8, pod...), 60)
		r := d.request(2, matchtest.Slots("a", 8, pod...))
		r.Op, r.Duration = match.AllocateOrElseReserve, time.Hour
		if a, err := d.e.Match(t.Context(), r); err != nil || !a.Reserved {
			t.Fatalf("Match() = %+v, %v, want a reservation", a, err)
		}
		d.e.SetLockedSteps(steps)
		r.Op = match.Allocate
		var no *match.Refusal
		if _, err := d.e.Match(t.Context(), r); !errors.As(err, &no) || no.Reason.Code != match.TooFew {
			t.Fatalf("with %d steps: Match() = %v, want %s", steps, err, match.TooFew)
		}
		jobs, err := d.e.Jobs(t.Context(), d.epoch)
		if err != nil || len(jobs) != 1 {
			t.Errorf("with %d steps: Jobs() = %+v, %v, want that of job 1 alone", steps, jobs, err)
		}
	}
}

func TestAnAnswerSaysHowLongItWaitedForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{e: engineWithoutLockedSteps(t)}
		d.load(t, cluster(4)...)
		release := d.e.HoldUnlockedSearches()
		time.AfterFunc(time.Minute, release)
		begin := time.Now()
		a, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 1, pod...)))
		if err != nil || time.Since(begin) < time.Minute || a.Waited != time.Minute {
			t.Errorf("Match() = %+v, %v, want one that waited a minute", a, err)
		}
	})
}

// A watch is the context of one match. It counts how often the meter checks it, and how often the
// lock was free then. It ends at one of these checks.
type countingContext struct {
	context.Context
	e               *engine.Engine
	looks, free, at int
}

func (w *countingContext) Err() error {
	w.looks++
	if w.e.IsLockFree() {
		w.free++
	}
	if w.at > 0 && w.looks >= w.at {
		return context.Canceled
	}
	return nil
}

// matchCounted makes a match that takes all the work that it may, under the lock and in an unlocked search.
// Its context ends at a check, or never if at is 0.
func matchCounted(t *testing.T, op match.Op, at int) (*countingContext, error) {
	t.Helper()
	d := &driver{e: newEngine(t)}
	d.load(t, cluster(1000)...)
	w := &countingContext{Context: t.Context(), e: d.e, at: at}
	r := d.request(1, costly(1000))
	r.Op = op
	_, err := d.e.Match(w, r)
	return w, err
}

// TestLockIsFreeDuringUnlockedSearch checks that the lock is free during an unlocked search.
func TestLockIsFreeDuringUnlockedSearch(t *testing.T) {
	operations := []match.Op{match.Allocate, match.WithoutAllocating, match.Satisfiability}
	if testing.Short() {
		operations = operations[:1]
	}
	for _, op := range operations {
		w, err := matchCounted(t, op, 0)
		var no *match.Refusal
		if !errors.As(err, &no) || no.Reason.Code != match.TooHard {
			t.Errorf("operation %d: Match() = %v, want %s", op, err, match.TooHard)
		}
		const long, brief = engine.UnlockedSteps / engine.StepsPerCheck, engine.LockedSteps / engine.StepsPerCheck
		if w.free < long/2 || w.looks-w.free > brief+16 {
			t.Errorf("operation %d: the engine was free for %d of %d looks, want it to be held for %d at the most", op, w.free, w.looks, brief)
		}
	}
}

// TestAMatchEndsWithItsContext checks that a match ends when its context ends, under the lock and
// in an unlocked search.
func TestAMatchEndsWithItsContext(t *testing.T) {
	const brief = engine.LockedSteps / engine.StepsPerCheck
	for name, at := range map[string]int{"on the engine": brief / 2, "beside the graph": brief + 100, "far on beside the graph": brief + 1000} {
		t.Run(name, func(t *testing.T) {
			w, err := matchCounted(t, match.Allocate, at)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Match() = %v, want %v", err, context.Canceled)
			}
			if w.looks < at || w.looks > at+8 {
				t.Errorf("it looked %d times, and the context had ended at the %dth", w.looks, at)
			}
		})
	}
}
