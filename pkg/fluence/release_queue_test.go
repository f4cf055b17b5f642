package fluence

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// releaseQueueTest releases to a Fake and counts.
type releaseQueueTest struct {
	*releaseQueue
	fake  *matchtest.Fake
	epoch atomic.Uint64
	freed atomic.Int32
}

func withReleaseQueue(t *testing.T, test func(*releaseQueueTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &releaseQueueTest{fake: matchtest.NewFake()}
		c.epoch.Store(1)
		c.releaseQueue = newReleaseQueue(c.fake, func() match.Epoch { return match.Epoch(c.epoch.Load()) }, func() { c.freed.Add(1) })
		go c.run(t.Context())
		synctest.Wait()
		test(c)
	})
}

// wantReleased compares all calls so far with texts "EPOCH: JOB KEYS".
func (c *releaseQueueTest) wantReleased(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, call := range c.fake.Calls(matchtest.Release) {
		got = append(got, fmt.Sprintf("%d: %d %v", call.Epoch, call.ID, call.Keys))
	}
	if !slices.Equal(got, want) {
		t.Errorf("releases = %q, want %q", got, want)
	}
}

func TestReleasesGoInOrder(t *testing.T) {
	withReleaseQueue(t, func(c *releaseQueueTest) {
		c.add(gang.Release{Job: 3, Keys: []string{"a", "b"}}, gang.Release{Job: 1})
		c.add()
		c.add(gang.Release{Job: 2})
		c.wantReleased(t, "1: 3 [a b]", "1: 1 []", "1: 2 []")
		if c.freed.Load() != 1 {
			t.Errorf("told %d times that something is free, want once for all", c.freed.Load())
		}
		time.Sleep(time.Hour)
		c.wantReleased(t, "1: 3 [a b]", "1: 1 []", "1: 2 []")
		if c.freed.Load() != 1 {
			t.Errorf("told %d times that something is free, and nothing was given back", c.freed.Load())
		}
	})
}

func TestReleasesAreRetriedUntilTheySucceed(t *testing.T) {
	for name, err := range map[string]error{"no answer": match.ErrUnavailable, "another graph": match.ErrStale} {
		t.Run(name, func(t *testing.T) {
			withReleaseQueue(t, func(c *releaseQueueTest) {
				c.fake.FailNext(matchtest.Release, nil, err, err)
				c.add(gang.Release{Job: 1}, gang.Release{Job: 2}, gang.Release{Job: 3})
				c.wantReleased(t, "1: 1 []", "1: 2 []")
				if c.freed.Load() != 1 {
					t.Errorf("told %d times that something is free, want once for the first", c.freed.Load())
				}
				c.epoch.Store(2)
				time.Sleep(200 * time.Millisecond)
				c.wantReleased(t, "1: 1 []", "1: 2 []", "2: 2 []")
				if c.freed.Load() != 1 {
					t.Error("told that something is free when nothing was given back")
				}
				time.Sleep(200 * time.Millisecond)
				c.wantReleased(t, "1: 1 []", "1: 2 []", "2: 2 []", "2: 2 []", "2: 3 []")
			})
		})
	}
}

func TestReleasesWaitForALoadedGraph(t *testing.T) {
	withReleaseQueue(t, func(c *releaseQueueTest) {
		c.epoch.Store(0)
		c.add(gang.Release{Job: 1})
		time.Sleep(time.Minute)
		c.wantReleased(t)
		c.epoch.Store(7)
		time.Sleep(200 * time.Millisecond)
		c.wantReleased(t, "7: 1 []")
	})
}

func TestInvalidReleaseIsDropped(t *testing.T) {
	withReleaseQueue(t, func(c *releaseQueueTest) {
		c.fake.FailNext(matchtest.Release, match.ErrInvalid)
		c.add(gang.Release{Job: 1}, gang.Release{Job: 2})
		time.Sleep(time.Minute)
		c.wantReleased(t, "1: 1 []", "1: 2 []")
	})
}

func TestAddDoesNotBlock(t *testing.T) {
	withReleaseQueue(t, func(c *releaseQueueTest) {
		release := c.fake.Hold(matchtest.Release)
		before := time.Now()
		c.add(gang.Release{Job: 1})
		synctest.Wait()
		c.add(gang.Release{Job: 2})
		if took := time.Since(before); took != 0 {
			t.Errorf("add took %v", took)
		}
		// A call that hangs times out, and is made again.
		time.Sleep(releaseTimeout - time.Millisecond)
		c.wantReleased(t, "1: 1 []")
		time.Sleep(time.Millisecond)
		c.wantReleased(t, "1: 1 []", "1: 1 []")
		release()
		time.Sleep(200 * time.Millisecond)
		c.wantReleased(t, "1: 1 []", "1: 1 []", "1: 2 []")
	})
}

// slowRelease is an engine whose releases take time.
type slowRelease struct{ match.Engine }

func (s slowRelease) Release(ctx context.Context, e match.Epoch, id match.JobID, keys ...string) error {
	select {
	case <-time.After(700 * time.Millisecond):
	case <-ctx.Done():
		return match.ErrUnavailable
	}
	return s.Engine.Release(ctx, e, id, keys...)
}

// An allocation whose release is pending is no drift. Every
// test here checks at its end that there is no drift.
func TestPendingReleaseIsNoDrift(t *testing.T) {
	inRig(t, slowRelease{realEngine(t)}, func(r *rig) {
		r.node("n1", 64)
		r.pass(time.Second)
		const pods = 20
		for i := range pods {
			pod := r.pod(fmt.Sprintf("p%02d", i))
			r.pass(50 * time.Millisecond)
			_, _, status := r.preFilter(pod)
			r.wantStatus(status, fwk.Success, "")
		}
		for i := range pods {
			r.remove(fmt.Sprintf("p%02d", i))
		}
		r.pass(10 * time.Second)
		r.pl.releases.mu.Lock()
		left := len(r.pl.releases.queue)
		r.pl.releases.mu.Unlock()
		if left == 0 {
			t.Fatal("all was given back sooner than a difference is told")
		}
		r.pass(time.Minute)
	})
}

// Seats that a group gets while its seats are being booked are booked as well.
func TestSeatsThatComeDuringABookingAreBooked(t *testing.T) {
	withReleaseQueue(t, func(c *releaseQueueTest) {
		g := types.NamespacedName{Namespace: "ns", Name: "g"}
		asked := 0
		c.seatsOf = func(types.NamespacedName) []match.Job {
			if asked++; asked == 1 {
				c.book(g) // another seat has come
			}
			return nil
		}
		c.book(g)
		synctest.Wait()
		if asked != 2 {
			t.Errorf("the seats of the group were asked for %d times, want twice", asked)
		}
	})
}

// Slots for pods that are expected are not announced to the bind queue: no pod comes for them.
func TestSlotsOfPods(t *testing.T) {
	pods := []*corev1.Pod{{}, {}, {}}
	for i, uid := range []types.UID{"a", "b", "seat/1"} {
		pods[i].UID = uid
	}
	slots := []match.Slot{{Key: "seat/1"}, {Key: "b"}, {Key: "a"}}
	plan := gang.Plan{Required: pods}
	if got := slotsOfPods(plan, slots); len(got) != 3 {
		t.Errorf("slots %v, want all", got)
	}
	plan.Expected = 1
	if got := slotsOfPods(plan, slots); len(got) != 2 || got[0].Key != "b" || got[1].Key != "a" {
		t.Errorf("slots %v, want those of the pods that exist, in their order", got)
	}
}
