package fluence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// inQueueRig runs a test on nodes n0, n1 and so on of 8 CPUs, with a queue.
func inQueueRig(t *testing.T, nodes int, test func(r *rig)) {
	t.Helper()
	inRigOf(t, realEngine(t), func(r *rig) { r.serveQueues() }, func(r *rig) {
		for i := range nodes {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		r.pass(6 * time.Second)
		test(r)
	})
}

// nodesOfJob returns the nodes of the pods of a job, sorted.
func (r *rig) nodesOfJob(j *queuedJob) (nodes []string) {
	for name, node := range r.assigned() {
		if strings.HasPrefix(name, j.name+"-") {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// takeovers returns the matches that have replaced slots of another job.
func (r *rig) takeovers() (all []match.Request) {
	for _, m := range r.matches() {
		if m.Replaces != 0 {
			all = append(all, m)
		}
	}
	return all
}

// heldSlots returns how many slots jobs hold in the engine, and how many of them are not those of pods.
func (r *rig) heldSlots() (all, ofJobs int) {
	r.Helper()
	jobs, err := r.matcherFake.Jobs(r.ctx, r.pl.inventory.Epoch())
	r.must(err)
	for _, j := range jobs {
		if j.Reserved {
			continue
		}
		all += len(j.Slots)
		if _, is := r.pl.queues.Owner(j.ID); is {
			ofJobs += len(j.Slots)
		}
	}
	return all, ofJobs
}

func TestPodsOfAJobStartOnExactlyTheNodesOfItsAllocation(t *testing.T) {
	inQueueRig(t, 4, func(r *rig) {
		a := r.submit("a", 3, "1h")
		if got := a.room(); got != "n[0-2]*1" {
			t.Fatalf("it has room on %q, want n[0-2]: %s", got, a.says())
		}
		if all, ofJobs := r.heldSlots(); all != 3 || ofJobs != 3 {
			t.Errorf("%d slots are held, %d of them of jobs, want 3 before there are pods", all, ofJobs)
		}
		// A pod in no queue finds the node that is left, and the next one none.
		r.pod("other-0", objects.CPU("8"))
		r.pod("other-1", objects.CPU("8"))
		r.pass(time.Second)
		if got := r.assigned(); len(got) != 1 || got["other-0"] != "n3" {
			t.Errorf("these have nodes: %v, want other-0 on n3", got)
		}
		a.release()
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0", "n1", "n2"}) {
			t.Errorf("the pods are on %v, want those of the allocation", got)
		}
		if got := r.takeovers(); len(got) != 1 || len(got[0].ReplacesKeys) != 3 || got[0].Duration <= 59*time.Minute || got[0].Duration > time.Hour {
			t.Errorf("matches that take over: %+v, want one of all three, for what is left of the hour", got)
		}
		if all, ofJobs := r.heldSlots(); all != 4 || ofJobs != 0 {
			t.Errorf("%d slots are held, %d of them of jobs, want those of the pods alone", all, ofJobs)
		}
	})
}

func TestPodsWaitForTheirTurn(t *testing.T) {
	inQueueRig(t, 2, func(r *rig) {
		a := r.submit("a", 2, "1h")
		a.release()
		b := r.submit("b", 1, "1h")
		// The webhook was away: its pods are there already.
		b.make(0)
		r.pass(5 * time.Second)
		if why := r.preEnqueueMessage(b.pod(0)); !strings.HasPrefix(why, "Promised: promised 1 node from ") {
			t.Errorf("it is held with %q, want the message of its FluxJob", why)
		}
		if c := r.conditionOf(b.key().Name, "Scheduled"); c.Reason != reason.Queued || !strings.HasPrefix(c.Message, "Promised: promised 1 node from ") {
			t.Errorf("the PodGroup says %s: %q", c.Reason, c.Message)
		}
		before := len(r.matches())
		a.finish()
		r.pass(2 * time.Second)
		if got := b.room(); got == "" {
			t.Fatalf("it has no room: %s", b.says())
		}
		if got := r.nodesOfJob(b); len(got) != 1 {
			t.Errorf("its pod is on %v, want a node", got)
		}
		if n := len(r.matches()); n == before {
			t.Error("nothing was matched")
		}
	})
}
