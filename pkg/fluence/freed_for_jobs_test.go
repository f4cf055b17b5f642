package fluence

import (
	"strings"
	"testing"
	"time"

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
		r.pass(3 * time.Second)
		if r.starts("younger", 1) {
			t.Errorf("the younger group has taken the room; the job says %q", big.says())
		}
		if !r.starts("brief", 1) {
			t.Errorf("a group that ends before the promise waits with %q", r.why("brief"))
		}
	})
}

// Room is withheld for a second at most. Then the groups that had to leave it ask again.
func TestFreedRoomIsNotWithheldForLong(t *testing.T) {
	began := time.Now()
	var f freedForJobs
	f.add(match.Slot{Key: "a", Node: "n"}, began)
	f.add(match.Slot{Key: "a", Node: "n"}, began) // two handlers tell of one end
	on := map[string]struct{}{"n": {}}
	if f.expire(began.Add(askFirstFor)) {
		t.Error("room ends that no group has left")
	}
	f.add(match.Slot{Key: "a", Node: "n"}, began)
	other := map[string]struct{}{"other": {}}
	if got := f.on(other, began); len(got) != 1 {
		t.Errorf("%v is kept before the matcher has the room, want one slot", got)
	}
	if f.release("n"); len(f.on(other, began)) > 0 || len(f.on(nil, began)) > 0 {
		t.Error("room is kept on other nodes, or before no job")
	}
	if got := f.on(on, began.Add(askFirstFor-1)); len(got) != 1 {
		t.Errorf("%v is kept, want one slot", got)
	}
	if got := f.describe(on, began); got != "; the room of 1 pod that ended is offered first to jobs in queues" {
		t.Errorf("it says %q", got)
	}
	if f.expire(began.Add(askFirstFor - 1)) {
		t.Error("the room ends too early")
	}
	if got := f.on(on, began.Add(askFirstFor)); len(got) > 0 {
		t.Errorf("%v is kept for too long", got)
	}
	if !f.expire(began.Add(askFirstFor)) || f.asked() {
		t.Error("groups that have left the room are not to ask, or twice")
	}
	f.add(match.Slot{Key: "b", Node: "n"}, began)
	f.on(on, began)
	if !f.asked() || f.asked() {
		t.Error("groups that have left the room are not to ask once when the jobs have asked")
	}
}
