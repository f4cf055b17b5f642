package fluence

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A job of a queue asks for the room that a pod has left before a younger group in no queue gets it, which asks earlier.
func TestJobsAskForFreedRoomBeforeYoungerGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		duration string
		starts   bool
	}{"it has no end": {"", false}, "it ends before the promise": {"5m", true}} {
		t.Run(name, func(t *testing.T) {
			inQueueRig(t, 3, func(r *rig) {
				r.pl.walltimes.enforced = true
				for _, d := range []string{"1h", "2h"} {
					j := r.submit("a"+d, 1, d)
					j.release()
				}
				r.gangFor("urgent", 1, 5, "2h")
				r.pass(3 * time.Second)
				big := r.submit("big", 2, "10m")
				if got := big.says(); !strings.HasPrefix(got, "Promised: promised 2 nodes from ") {
					t.Fatalf("the job says %q, want it promised two nodes", got)
				}
				r.gangFor("younger", 1, 0, tc.duration)
				r.pass(3 * time.Second)
				if r.starts("younger", 1) || !r.starts("urgent", 1) {
					t.Fatalf("want the younger group to wait for the first: %v", r.assigned())
				}
				r.pl.queues.RoomFreed()
				r.pass(0) // the jobs have just asked, so that they ask again only after a while
				r.remove("urgent-0")
				r.pass(askFirstFor * 3 / 4)
				if tc.starts != r.starts("younger", 1) {
					t.Errorf("the younger group has started: %t, want %t; the job says %q", !tc.starts, tc.starts, big.says())
				}
				r.pass(2 * time.Second)
				if tc.starts != r.starts("younger", 1) {
					t.Errorf("later the younger group has started: %t, want %t; the job says %q", !tc.starts, tc.starts, big.says())
				}
				if tc.starts {
					return
				}
				// Whoever had to leave room asks again when the jobs have asked.
				asked := len(r.matches())
				r.pl.queues.forJobs.withhold()
				jobsAsked(r.pl.base)
				r.pass(time.Second)
				if len(r.matches()) == asked {
					t.Error("the younger group does not ask again")
				}
			})
		})
	}
}

// A group that has to leave room to a job evicts nobody instead, and gets the room that it has evicted others for.
func TestAGroupThatLeavesRoomToJobsEvictsNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		// ended means that a pod has ended just before the group comes.
		ended   bool
		evicted int
	}{"room has just become free": {true, 0}, "all is taken": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			inQueueRig(t, 4, func(r *rig) {
				r.pl.args.Preemption.Mode = PreemptionLowerPriority
				for i := range 4 {
					r.gangFor(fmt.Sprintf("low%d", i), 1, 0, "")
				}
				r.pass(3 * time.Second)
				r.submit("big", 4, "10m", atPriority(1000))
				r.pass(3 * time.Second)
				ctx, done := context.WithCancel(r.ctx)
				var busy sync.WaitGroup
				busy.Go(func() { // the jobs have always just asked
					wait.UntilWithContext(ctx, func(context.Context) { r.pl.queues.RoomFreed() }, 20*time.Millisecond)
				})
				defer busy.Wait()
				defer done()
				if tc.ended {
					r.remove("low0-0")
					r.pass(30 * time.Millisecond) // the matcher has the room
				}
				r.gangFor("urgent", 1, 1000, "")
				r.pass(4 * time.Second)
				if n := len(r.podAPI.deleted()); n != tc.evicted || !r.starts("urgent", 1) {
					t.Errorf("%d pods were evicted, want %d; it waits with %q", n, tc.evicted, r.why("urgent"))
				}
			})
		})
	}
}

// Room is withheld for a second at most. Then the groups that had to leave it ask again.
func TestFreedRoomIsNotWithheldForLong(t *testing.T) {
	began := time.Now()
	var f freedForJobs
	f.add(match.Slot{Key: "a", Node: "n", Holder: "whole"}, began)
	if f.expire(began.Add(askFirstFor)) || len(f.slots) > 0 {
		t.Error("room ends that no group has left, or does not end")
	}
	f.add(match.Slot{Key: "a", Node: "n"}, began)
	f.release("n")
	f.add(match.Slot{Key: "a", Node: "n"}, began.Add(time.Minute)) // it ends once
	if all := f.all(nil, began.Add(askFirstFor-1)); len(all) != 1 || !all[0].released || all[0].Holder != "" {
		t.Errorf("%+v is withheld, want one slot without a holder that the matcher has released", all)
	}
	if n := len(f.all(sets.New("n"), began)); n > 0 {
		t.Errorf("%d slots on the group's own nodes are withheld", n)
	}
	if n := len(f.all(nil, began.Add(askFirstFor))); n > 0 {
		t.Errorf("%d slots are withheld for too long", n)
	}
	if f.withhold(); f.expire(began.Add(askFirstFor - 1)) {
		t.Error("room ends too early")
	}
	if !f.expire(began.Add(askFirstFor)) || f.asked() {
		t.Error("groups that have left the room are not to ask, or twice")
	}
	if f.withhold(); !f.asked() || f.asked() {
		t.Error("groups that have left the room are not to ask once when the jobs have asked")
	}
}

// A group leaves room only to jobs before it, and not where it claims the room itself.
func TestWhoLeavesFreedRoomToJobs(t *testing.T) {
	inQueueRig(t, 2, func(r *rig) {
		runs := r.submit("runs", 2, "1h")
		runs.release()
		r.submit("big", 2, "10m")
		r.pass(time.Second)
		for _, node := range []string{"n0", "n1"} {
			r.pl.queues.forJobs.add(match.Slot{Key: "was-on-" + node, Node: node}, time.Now())
		}
		younger := gang.Plan{Key: types.NamespacedName{Namespace: ns, Name: "younger"}}
		younger.Rank = gang.Rank{Since: time.Now(), Key: younger.Key}
		want := func(what string, plan gang.Plan, n int) {
			t.Helper()
			if left := leftToJobs(&r.pl.groupPlacer, plan, time.Now()); len(left) != n {
				t.Errorf("%s leaves %v, want %d slots", what, left, n)
			}
		}
		want("a younger group", younger, 2)
		older, replacement := younger, younger
		older.Rank.Since = time.Now().Add(-time.Hour)
		want("an older group", older, 0)
		replacement.Late, replacement.Missing = true, 1
		want("a pod in place of a lost one", replacement, 0)
		r.pl.claims.mu.Lock()
		r.pl.claims.groups = map[claimant]*claim{claimantOf(younger): {rank: younger.Rank, slots: []match.Slot{{Key: "its", Node: "n0"}}}}
		r.pl.claims.mu.Unlock()
		want("a group that claims one of them", younger, 1)
	})
}
