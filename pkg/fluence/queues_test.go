package fluence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
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

// A node that the filters refuse is left to others, and the job gets another one.
func TestAJobGetsOtherRoomIfFiltersRefuseANodeOfIt(t *testing.T) {
	inQueueRig(t, 4, func(r *rig) {
		a := r.submit("a", 2, "1h")
		if got := a.room(); got != "n[0-1]*1" {
			t.Fatalf("it has room on %q: %s", got, a.says())
		}
		r.updateNode("n1", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}
		})
		a.release()
		r.pass(2 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0", "n2"}) {
			t.Errorf("the pods are on %v, want n0 and n2: %s", got, a.says())
		}
		if fj := r.queues.job(a.key()); fj.Status.Requeues != 1 || fj.Status.Allocation.Attempt != 2 {
			t.Errorf("it was requeued %d times, and this is attempt %d, want one and 2", fj.Status.Requeues, fj.Status.Allocation.Attempt)
		}
		requeued := slices.IndexFunc(r.recorder.of("Job"), func(e event) bool {
			return e.reason == v1alpha1.ReasonRequeued && strings.HasPrefix(e.message, "cannot take the room that its queue has given it on n0, n1: ")
		})
		if requeued < 0 {
			t.Errorf("events of the Job: %+v, want one that says why it was requeued", r.recorder.of("Job"))
		}
		if all, ofJobs := r.heldSlots(); all != 2 || ofJobs != 0 {
			t.Errorf("%d slots are held, %d of them of jobs, want those of the pods alone", all, ofJobs)
		}
	})
}

// Others may not take the room of a pod that is made again.
func TestAPodThatIsMadeAgainGetsTheRoomOfTheOneBefore(t *testing.T) {
	inQueueRig(t, 3, func(r *rig) {
		a := r.submit("a", 3, "1h")
		a.release()
		for i := range 3 {
			r.pod(fmt.Sprintf("other-%d", i), objects.CPU("8"))
		}
		r.pass(time.Second)
		r.remove("a-1")
		r.pass(5 * time.Second)
		if got := r.assigned(); len(got) != 2 {
			t.Errorf("these have nodes: %v, want the two pods of the job that are left", got)
		}
		if all, ofJobs := r.heldSlots(); all != 3 || ofJobs != 1 {
			t.Errorf("%d slots are held, %d of them of jobs, want one for the pod to come", all, ofJobs)
		}
		a.make(7)
		r.pass(time.Second)
		if got := r.assigned(); len(got) != 3 || got["a-7"] != "n1" {
			t.Errorf("these have nodes: %v, want a-7 on n1", got)
		}
	})
}

// A job that runs more pods one after another than at a time keeps its room between them, and gives it back after the last.
func TestPodsOfAJobOneAfterAnother(t *testing.T) {
	inQueueRig(t, 2, func(r *rig) {
		a := r.submit("a", 2, "1h")
		size := func(completions, succeeded int32) {
			r.owners.editJob("a", func(job *batchv1.Job) {
				job.Spec.Completions, job.Status.Succeeded = &completions, succeeded
			})
		}
		size(4, 0)
		a.release()
		for i := range 2 {
			r.pod(fmt.Sprintf("other-%d", i), objects.CPU("8"))
		}
		for i := range int32(2) {
			r.pass(time.Minute)
			r.remove(fmt.Sprintf("a-%d", i)) // the informer shows no pods that have succeeded
			size(4, i+1)
			r.pass(time.Second)
			a.make(int(i) + 2)
			r.pass(time.Second)
			if got := r.assigned()[fmt.Sprintf("a-%d", i+2)]; got != fmt.Sprintf("n%d", i) {
				t.Errorf("pod %d is on node %q, want the node of the one before it", i+2, got)
			}
		}
		r.remove("a-2")
		size(4, 3)
		r.pass(2 * time.Second)
		if got := r.assigned(); got["other-0"] != "n0" {
			t.Errorf("these have nodes: %v, want other-0 on n0, which the job needs no more", got)
		}
	})
}

// raise makes a Job run more pods at a time. Its PodGroup follows.
func (j *queuedJob) raise(pods int32) {
	j.Helper()
	j.owners.editJob(j.name, func(job *batchv1.Job) { job.Spec.Parallelism, job.Spec.Completions = &pods, &pods })
	j.podGroupAPI.put(aPodGroup(j.key().Name, pods, types.UID("pg-"+j.name)))
	j.pass(time.Second)
}

// A job whose size is raised while it runs has no more pods on nodes than it was admitted for.
func TestPodsBeyondTheSizeOfAJobWait(t *testing.T) {
	inQueueRig(t, 4, func(r *rig) {
		a := r.submit("a", 2, "1h")
		a.release()
		a.raise(5)
		a.make(2, 3, 4)
		r.pass(2 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0", "n1"}) {
			t.Errorf("the pods are on %v, want the nodes of the allocation", got)
		}
		const want = "the job was admitted to Queue batch with 2 pods, and has 2: another one starts when one of them has ended"
		if why := r.preEnqueueMessage(a.pod(2)); !strings.HasPrefix(why, want) {
			t.Errorf("a pod beyond the size waits with %q, want %q", why, want)
		}
		for i := range 2 {
			r.pod(fmt.Sprintf("other-%d", i), objects.CPU("8"))
		}
		r.pass(time.Second)
		if got := r.assigned(); got["other-0"] == "" || got["other-1"] == "" {
			t.Errorf("these have nodes: %v, want the pods in no queue too", got)
		}
		r.remove("a-0")
		r.pass(5 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0", "n1"}) {
			t.Errorf("the pods are on %v, want another one in place of the one that has ended", got)
		}
	})
}

// A job whose size is raised before its pods have nodes does not keep room with which it cannot start.
func TestAJobThatIsRaisedBeforeItStartsWaitsAgain(t *testing.T) {
	inQueueRig(t, 4, func(r *rig) {
		a := r.submit("a", 2, "1h")
		a.raise(3)
		a.release()
		a.make(2)
		r.pass(2 * time.Second)
		if got := r.nodesOfJob(a); len(got) != 0 {
			t.Errorf("the pods are on %v, want none: the job was admitted with 2 pods", got)
		}
		const want = "the job was admitted to Queue batch with 2 pods, and needs 3 at a time by now: it waits for its turn with its new size"
		if fj := r.queues.job(a.key()); fj.Status.Requeues == 0 || !slices.ContainsFunc(r.recorder.of("Job"), func(e event) bool { return e.reason == v1alpha1.ReasonRequeued && e.message == want }) {
			t.Errorf("requeued %d times, events %+v", fj.Status.Requeues, r.recorder.of("Job"))
		}
	})
}

// A pod in place of a lost one may be on another node than that, but not on one of another queue.
func TestAPodThatHasLostItsRoomStaysInItsQueue(t *testing.T) {
	inQueueRig(t, 4, func(r *rig) {
		for _, name := range []string{"n0", "n1"} {
			r.updateNode(name, func(n *corev1.Node) { n.Labels["partition"] = "batch" })
		}
		r.queues.put(&v1alpha1.Queue{
			ObjectMeta: metav1.ObjectMeta{Name: "batch", UID: "uid-batch", Generation: 2, CreationTimestamp: metav1.Now()},
			Spec: v1alpha1.QueueSpec{Policy: v1alpha1.EASY, NamespaceSelector: &metav1.LabelSelector{}, Grace: "0s",
				Requires: &metav1.LabelSelector{MatchLabels: map[string]string{"partition": "batch"}}},
		})
		r.pass(time.Second)
		a := r.submit("a", 2, "1h")
		a.release()
		r.updateNode("n1", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}
		})
		r.remove("a-1")
		a.make(7)
		r.pass(30 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0"}) {
			t.Errorf("the pods are on %v, want none beside n0: %q", got, r.preEnqueueMessage(a.pod(7)))
		}
		if why := r.preEnqueueMessage(a.pod(7)); !strings.Contains(why, "2 nodes not of Queue batch") {
			t.Errorf("it waits with %q, want which nodes are not those of its queue", why)
		}
		r.updateNode("n3", func(n *corev1.Node) { n.Labels["partition"] = "batch" })
		r.pass(30 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0", "n3"}) {
			t.Errorf("the pods are on %v, want also the node that is new in the queue: %q", got, r.preEnqueueMessage(a.pod(7)))
		}
	})
}

// A pod in place of one that was to be gone, on a node that does not answer, starts.
func TestAPodInPlaceOfALostOneStarts(t *testing.T) {
	inQueueRig(t, 3, func(r *rig) {
		a := r.submit("a", 2, "1h")
		a.release()
		r.terminate(20*time.Second, "a-0")
		a.make(7)
		r.pass(2 * time.Second)
		if got := r.assigned()["a-7"]; got != "" {
			t.Errorf("it is on %s, want it to wait for the end of the one before it", got)
		}
		r.pass(time.Minute)
		if got := r.assigned()["a-7"]; got == "" {
			t.Errorf("it waits with %q", r.preEnqueueMessage(a.pod(7)))
		}
	})
}

// After a restart the room is there from before the first group asks, and the pods take it over.
func TestARestartKeepsTheRoomOfJobs(t *testing.T) {
	var a *queuedJob
	inRigOf(t, realEngine(t), func(r *rig) {
		r.serveQueues()
		for i := range 4 {
			r.add(objects.ReadyNode(fmt.Sprintf("n%d", i), 8))
		}
		a = r.submit("a", 3, "1h")
		a.admitted("n[1-3]")
		bound := a.pod(0)
		bound.Spec.NodeName = "n2"
		r.add(bound)
	}, func(r *rig) {
		if all, ofJobs := r.heldSlots(); all != 3 || ofJobs != 2 {
			t.Errorf("%d slots are held, %d of them of jobs, want one of the pod and two for those to come", all, ofJobs)
		}
		for i := range 2 {
			r.pod(fmt.Sprintf("other-%d", i), objects.CPU("8"))
		}
		r.schedule()
		r.pass(2 * time.Second)
		if got := r.assigned(); len(got) != 2 || got["other-0"] != "n0" {
			t.Errorf("these have nodes: %v, want other-0 on n0", got)
		}
		a.make(1, 2)
		r.pass(2 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n1", "n2", "n3"}) {
			t.Errorf("the pods are on %v, want those of the allocation", got)
		}
	})
}

// Jobs that an earlier scheduler has promised room ask before groups in no queue, which would take it.
func TestJobsThatWerePromisedRoomAskFirstAfterARestart(t *testing.T) {
	var big *queuedJob
	inRigOf(t, realEngine(t), func(r *rig) {
		r.serveQueues()
		for i := range 2 {
			r.add(objects.ReadyNode(fmt.Sprintf("n%d", i), 8))
		}
		a := r.submit("a", 1, "10m")
		a.admitted("n0")
		bound := a.pod(0)
		bound.Spec.NodeName = "n0"
		r.add(bound)
		big = r.submit("big", 2, "1h")
		big.edits(func(fj *v1alpha1.FluxJob) {
			at := metav1.NewTime(time.Now().Add(10 * time.Minute))
			fj.Status.Phase, fj.Status.Promise = v1alpha1.Waiting, &v1alpha1.JobPromise{At: at, Nodes: 2, Since: metav1.Now()}
		})
		r.gangFor("direct", 1, -5, "")
		go r.sched.Run(r.ctx) // at once
	}, func(r *rig) {
		r.pass(10 * time.Second)
		if r.starts("direct", 1) {
			t.Errorf("the group has started on %v", r.assigned())
		}
		const want = "; room for 1 more is promised to Job ns/big from "
		if why := r.why("direct"); !strings.Contains(why, want) {
			t.Errorf("it waits with %q, want %q", why, want)
		}
		if got := big.says(); !strings.HasPrefix(got, "Promised: promised 2 nodes from ") {
			t.Errorf("the job says %q, want it promised both nodes again", got)
		}
	})
}

// The room of a pod that has no Job is taken over too.
func TestALonePodOfAQueue(t *testing.T) {
	inQueueRig(t, 2, func(r *rig) {
		a := r.submitPod("solo", "30m")
		if got := a.room(); got != "n0*1" {
			t.Fatalf("it has room on %q: %s", got, a.says())
		}
		r.pod("other-0", objects.CPU("8"))
		r.pod("other-1", objects.CPU("8"))
		r.pass(time.Second)
		a.release()
		if got := r.assigned(); len(got) != 2 || got["solo-0"] != "n0" || got["other-0"] != "n1" {
			t.Errorf("these have nodes: %v, want solo-0 on n0 and other-0 on n1", got)
		}
		r.remove("solo-0")
		r.queues.drop(a.key())
		r.pass(2 * time.Second)
		if got := r.assigned(); len(got) != 2 || got["other-1"] != "n0" {
			t.Errorf("these have nodes: %v, want other-1 on n0: the pod does not come again", got)
		}
	})
}

// A group in no queue overlooks what is promised to jobs after it, and leaves what is promised to those before it. A job that is
// promised room later by that says so.
func TestGroupsAndPromisesOfJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		priority int32
		duration string
		starts   bool
		// says is what the job says then.
		says string
	}{
		"a group of a higher priority takes the room":           {5, "", true, "NoRoom: "},
		"one of a higher priority that ends takes the room too": {5, "20m", true, "later than before: ns/direct was placed on node n1 before it"},
		"one of a lower priority waits":                         {-5, "", false, "Promised: promised 2 nodes from "},
	} {
		t.Run(name, func(t *testing.T) {
			inQueueRig(t, 2, func(r *rig) {
				a := r.submit("a", 1, "10m")
				a.release()
				big := r.submit("big", 2, "1h")
				if got := big.says(); !strings.HasPrefix(got, "Promised: promised 2 nodes from ") {
					t.Fatalf("the job says %q, want it promised both nodes", got)
				}
				r.pl.walltimes.enforced = true
				r.gangFor("direct", 1, tc.priority, tc.duration)
				r.pass(3 * time.Second)
				if got := r.starts("direct", 1); got != tc.starts {
					t.Errorf("it has started: %v, want %v; it waits with %q", got, tc.starts, r.why("direct"))
				}
				if got := big.says(); !strings.Contains(got, tc.says) {
					t.Errorf("the job says %q, want %q", got, tc.says)
				}
				if tc.starts {
					return
				}
				const want = "; room for 1 more is promised to Job ns/big from "
				if why := r.why("direct"); !strings.Contains(why, want) {
					t.Errorf("it waits with %q, want %q", why, want)
				}
				r.gangFor("short", 1, tc.priority, "5m")
				r.pass(3 * time.Second)
				if !r.starts("short", 1) {
					t.Errorf("a group that ends before the promise has not started; it waits with %q", r.why("short"))
				}
			})
		})
	}
}
