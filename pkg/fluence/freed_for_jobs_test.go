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

	"github.com/flux-k8s/fluence/pkg/match"
)

// A job of a queue asks for the room that a pod has left before a younger group in no queue gets it, which asks earlier.
func TestJobsAskForFreedRoomBeforeYoungerGroups(t *testing.T) {
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
		for name, d := range map[string]string{"younger": "", "brief": "5m"} {
			r.gangFor(name, 1, 0, d)
		}
		r.pass(3 * time.Second)
		if r.starts("younger", 1) || r.starts("brief", 1) || !r.starts("urgent", 1) {
			t.Fatalf("want the younger groups to wait for the first: %v", r.assigned())
		}
		r.pl.queues.RoomFreed()
		r.pass(0) // the jobs have just asked, so that they ask again only after a while
		r.remove("urgent-0")
		r.pass(askFirstFor * 3 / 4)
		if r.starts("younger", 1) {
			t.Errorf("the younger group has taken the room; the job says %q", big.says())
		}
		if !r.starts("brief", 1) {
			t.Errorf("a group that ends before the promise waits with %q", r.why("brief"))
		}
		r.pass(2 * time.Second)
		if r.starts("younger", 1) {
			t.Errorf("the younger group has taken the room later; the job says %q", big.says())
		}
		// Whoever had to leave room asks again when the jobs have asked.
		asked := len(r.matches())
		r.pl.queues.forJobs.withheld = true
		jobsAsked(r.pl.base)
		r.pass(time.Second)
		if len(r.matches()) == asked {
			t.Error("the younger group does not ask again")
		}
	})
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
	group, on, other := types.NamespacedName{Name: "group"}, map[string]struct{}{"n": {}}, map[string]struct{}{"other": {}}
	left := func(unasked map[string]struct{}, own sets.Set[string], at time.Time) int {
		t.Helper()
		n := len(f.left(group, unasked, own, at))
		if f.hasLeft(group) != (n > 0) {
			t.Errorf("%d slots are left, and the group has left some: %t", n, f.hasLeft(group))
		}
		return n
	}
	f.add(match.Slot{Key: "a", Node: "n"}, began)
	if f.expire(began.Add(askFirstFor)) {
		t.Error("room ends that no group has left")
	}
	f.add(match.Slot{Key: "a", Node: "n"}, began)
	f.add(match.Slot{Key: "a", Node: "n"}, began) // two handlers tell of one end
	if n := left(other, nil, began); n != 1 {
		t.Errorf("%d slots are kept before the matcher has released them, want one", n)
	}
	f.release("n")
	for what, n := range map[string]int{
		"on other nodes": left(other, nil, began), "on the group's own nodes": left(on, sets.New("n"), began), "for too long": left(on, nil, began.Add(askFirstFor)),
	} {
		if n != 0 {
			t.Errorf("%d slots are kept %s", n, what)
		}
	}
	if n := left(on, nil, began.Add(askFirstFor-1)); n != 1 {
		t.Errorf("%d slots are kept, want one", n)
	}
	if f.hasLeft(types.NamespacedName{Name: "another"}) || f.expire(began.Add(askFirstFor-1)) {
		t.Error("another group has left the room, or it ends too early")
	}
	if !f.expire(began.Add(askFirstFor)) || f.asked() {
		t.Error("groups that have left the room are not to ask, or twice")
	}
	f.add(match.Slot{Key: "b", Node: "n"}, began)
	left(on, nil, began)
	if !f.asked() || f.asked() {
		t.Error("groups that have left the room are not to ask once when the jobs have asked")
	}
}
