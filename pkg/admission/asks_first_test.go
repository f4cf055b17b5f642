package admission

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
)

// A younger group leaves nodes where room has become free, until the jobs before it have asked. An older one does not.
func TestGroupsLeaveFreedRoomToJobsThatAskFirst(t *testing.T) {
	r := newRig(t, 2, easy("batch"))
	freed := func(node string) { r.d.Observe(inventory.Change{Kind: inventory.Freed, Node: node}) }
	younger, older := gang.Rank{Since: begin.Add(time.Hour)}, gang.Rank{Since: begin.Add(-time.Hour)}
	want := func(what string, of gang.Rank, first bool, nodes ...string) {
		t.Helper()
		got, before := r.d.Unasked(of)
		for _, node := range nodes {
			if _, is := got[node]; !is {
				t.Errorf("%s: %v, want node %s", what, got, node)
			}
		}
		if len(got) != len(nodes) || before != first {
			t.Errorf("%s: %v, want %v; a job is before it: %t", what, got, nodes, first)
		}
	}
	freed("n1")
	want("no job waits", younger, false)
	runs := r.submit("runs", "batch", 2, 4, "1h")
	r.step()
	r.release(runs)
	r.submit("first", "batch", 2, 4, "1h")
	r.step()
	want("nothing is free", younger, true)
	r.d.RoomFreed()
	r.d.loop.step(r.now) // they ask, so that they ask again only after a while
	asked := r.asked
	freed("n1")
	want("a younger group", younger, true, "n1")
	want("an older group", older, false)
	r.d.loop.step(r.now)
	freed("n2")
	if !r.d.loop.core.Pending() {
		t.Fatal("the jobs have asked already")
	}
	want("the loop knows of one", younger, true, "n1", "n2")
	if r.asked != asked {
		t.Error("groups are told that the jobs have asked before they have")
	}
	r.step()
	want("the jobs have asked", younger, true)
	if r.asked != asked+1 {
		t.Errorf("groups are told %d times that the jobs have asked, want once", r.asked-asked)
	}
	r.finish(runs)
	r.step()
	want("the first job has started", younger, false)
	next := r.submit("next", "batch", 2, 4, "")
	r.step()
	want("another waits", younger, true)
	r.must(r.d.jobs.Delete(r.api.objects[next]))
	r.d.loop.step(r.now)
	want("it is gone", younger, false)
}
