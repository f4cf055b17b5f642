package fluence

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// A cluster without queues, and one whose queue has no jobs, ask the matcher for the same.
func TestQueuesChangeNothingForOtherGroups(t *testing.T) {
	// What differs from run to run is left out: the second at which a group asks, and how often.
	text := func(m match.Request) string {
		if m.Replaces != 0 || len(m.ReplacesKeys) > 0 {
			t.Errorf("match %+v takes something over", m)
		}
		spec, err := m.Jobspec.EncodeYAML()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("op %d for %s: %v %s %s near %v ignores %d, expects %v, terse %v\n%s", m.Op, m.Holder, m.Keys, m.Policy, m.Duration.Round(time.Minute), m.Near, len(m.Ignore), m.Expected, m.Terse, spec)
	}
	story := func(before func(*rig)) (matches []string) {
		inRigOf(t, realEngine(t), before, func(r *rig) {
			r.pl.args.Promises = Promises{Depth: 1, Horizon: metav1.Duration{Duration: time.Hour}}
			r.pl.walltimes.enforced = true
			for i := range 4 {
				r.node(fmt.Sprintf("n%d", i), 8)
			}
			r.pass(settleTime)
			r.schedule()
			r.gangFor("running", 2, 0, "10m")
			r.pass(3 * time.Second)
			r.gangFor("big", 4, 0, "10m")
			r.pass(3 * time.Second)
			r.gangFor("short", 1, 0, "5m")
			r.gangFor("longer", 1, 0, "20m")
			r.gangFor("urgent", 1, 7, "")
			r.pass(time.Minute)
			for _, m := range r.matches() {
				matches = append(matches, text(m))
			}
		})
		slices.Sort(matches)
		return slices.Compact(matches)
	}
	without, with := story(func(*rig) {}), story(func(r *rig) { r.serveQueues() })
	if len(without) < 5 || !slices.Equal(without, with) {
		t.Errorf("with a queue the matches are\n%s\nwant\n%s", strings.Join(with, "\n"), strings.Join(without, "\n"))
	}
}

// PreEnqueue asks for each pod. Where there are no jobs in queues that costs next to nothing.
func TestPodsAskForNoTurnWhereThereAreNoQueues(t *testing.T) {
	inRigOf(t, realEngine(t), func(*rig) {}, func(r *rig) {
		for _, pod := range []*corev1.Pod{objects.Pod("lone"), objects.Pod("of-a-set", controlledBy("apps/v1", "ReplicaSet", "web", "rs"))} {
			asks := func() {
				if why, _ := whyQueued(r.pl.base, g, pod); why != "" {
					t.Errorf("pod %s is held: %s", pod.Name, why)
				}
			}
			if n := testing.AllocsPerRun(10, asks); n > 1 {
				t.Errorf("it takes %v allocations to find that pod %s waits for nothing", n, pod.Name)
			}
		}
	})
}

// Pods with the label of a queue wait while it is not known whether there are queues, or if there are none. Others do not.
func TestPodsWithAQueueLabelWaitWithoutQueues(t *testing.T) {
	cases := map[string]struct {
		before func(*rig)
		want   string
	}{
		"the CRD is not installed":   {func(*rig) {}, "the API server does not serve queues.fluence.flux-framework.org: the CRD is not installed"},
		"the scheduler may not read": {func(r *rig) { r.serveQueues(); r.queues.forbidden = true }, "the scheduler may not read queues.fluence.flux-framework.org"},
		"the controller made no job": {func(r *rig) { r.serveQueues() }, "waits in Queue batch for the controller to make its FluxJob"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRigOf(t, realEngine(t), tc.before, func(r *rig) {
				r.node("n0", 8)
				r.node("n1", 8)
				r.pass(syncTimeout)
				r.schedule()
				queued := r.pod("queued", inQueue)
				r.pod("other")
				r.pass(5 * time.Second)
				if got := r.preEnqueueMessage(queued); !strings.HasSuffix(got, tc.want) {
					t.Errorf("it is held with %q, want %q", got, tc.want)
				}
				if got := r.assigned(); len(got) != 1 || got["other"] == "" {
					t.Errorf("these have nodes: %v, want the other pod alone", got)
				}
			})
		})
	}
}

// The label may be on the Job alone, and its pods may have been made before the controller has suspended it.
func TestTheLabelOfAJobHoldsItsPods(t *testing.T) {
	inQueueRig(t, 1, func(r *rig) {
		r.owners.create("jobs", "a", "job-a", group.Owner{})
		pg := aPodGroup(group.Owner{Group: "batch", Kind: "Job", Name: "a", UID: "job-a"}.PodGroupName(), 1, "pg-a")
		r.podGroupAPI.put(pg)
		label := func(value string) {
			r.owners.editJob("a", func(job *batchv1.Job) { job.Labels = map[string]string{group.QueueLabel: value} })
		}
		label("batch")
		r.pass(0)
		pod := r.pod("a-0", controlledBy("batch/v1", "Job", "a", "job-a"))
		r.pass(5 * time.Second)
		r.wantHeld(pod, "waits in Queue batch for the controller to make its FluxJob")
		if c := r.conditionOf(pg.Name, "Scheduled"); c.Reason != reason.Queued {
			t.Errorf("the PodGroup says %s: %q, want %s", c.Reason, c.Message, reason.Queued)
		}
		// An empty value is no queue, whatever the pod says.
		label("")
		r.pass(activateAllEvery)
		if got := r.assigned(); len(got) != 1 {
			t.Errorf("these have nodes: %v, want the pod", got)
		}
	})
}

// Pods that cannot wait in a queue say so, and do not start.
func TestPodsThatCannotWaitInAQueue(t *testing.T) {
	cases := map[string]struct {
		pod  func(*rig) *corev1.Pod
		want string
	}{
		"of a Deployment": {func(r *rig) *corev1.Pod {
			r.owners.create("replicasets", "web-1", "rs", group.Owner{Group: "apps", Kind: "Deployment", Name: "web", UID: "d"})
			return r.pod("web-1-0", inQueue, controlledBy("apps/v1", "ReplicaSet", "web-1", "rs"))
		}, "a Deployment does not end: Deployment web controls the pods, and only Jobs that nothing controls, and single pods, wait in queues"},
		"of a Job of a JobSet": {func(r *rig) *corev1.Pod {
			r.owners.create("jobs", "sim-a", "job", group.Owner{Group: "jobset.x-k8s.io", Kind: "JobSet", Name: "sim", UID: "set"})
			return r.pod("sim-a-0", inQueue, controlledBy("batch/v1", "Job", "sim-a", "job"))
		}, "JobSet sim controls the Job: only Jobs that nothing controls, and single pods, wait in queues"},
		"of a Job of another controller": {func(r *rig) *corev1.Pod {
			r.owners.create("jobs", "far", "job", group.Owner{})
			r.owners.editJob("far", func(job *batchv1.Job) { job.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue") })
			return r.pod("far-0", inQueue, controlledBy("batch/v1", "Job", "far", "job"))
		}, "spec.managedBy: \"kueue.x-k8s.io/multikueue\": another controller manages the Job"},
		"of Kueue": {func(r *rig) *corev1.Pod {
			return r.pod("k", inQueue, func(p *corev1.Pod) { p.Labels[preemption.QueueLabel] = "theirs" })
		}, "label kueue.x-k8s.io/queue-name: \"theirs\": Kueue manages it"},
		"of a kind that is not known": {func(r *rig) *corev1.Pod {
			return r.pod("x-0", inQueue, controlledBy("example.com/v1", "Thing", "x", "x"))
		}, "Thing x controls the pods, and only Jobs that nothing controls, and single pods, wait in queues"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inQueueRig(t, 1, func(r *rig) {
				pod := tc.pod(r)
				r.pass(time.Second)
				r.wantHeld(pod, fmt.Sprintf("label %s: \"batch\": %s", group.QueueLabel, tc.want))
				r.wantAssigned(map[string]string{})
			})
		})
	}
	t.Run("of a group that others share", func(t *testing.T) {
		inQueueRig(t, 1, func(r *rig) {
			r.podGroupAPI.put(aPodGroup(g.Name, 1, "pg"))
			pod := r.pod("p", inQueue, func(p *corev1.Pod) { p.Labels[group.Label] = g.Name })
			r.pass(time.Second)
			r.wantHeld(pod, "the pod is in PodGroup ns/g, and only Jobs and single pods that name no group wait in queues")
			r.pass(5 * time.Second)
			if c := r.scheduledCondition(); c.Reason != reason.NotAllowed {
				t.Errorf("the PodGroup says %s: %q, want %s", c.Reason, c.Message, reason.NotAllowed)
			}
		})
	})
}

// A pod whose own labels put it into another group than that of its Job may not start beside the room of the Job.
func TestAPodInAForeignGroupDoesNotStart(t *testing.T) {
	inQueueRig(t, 2, func(r *rig) {
		a := r.submit("a", 1, "1h", func(p *corev1.Pod) { p.Labels = map[string]string{group.Label: g.Name} })
		r.podGroupAPI.put(aPodGroup(g.Name, 1, "pg"))
		a.release()
		r.pass(2 * time.Second)
		r.wantAssigned(map[string]string{})
		r.wantHeld(a.pod(0), "the pod is in PodGroup ns/g, and only Jobs and single pods that name no group wait in queues")
	})
}

// A pod that nobody queued does not take others of its group past their turn, whoever of them is the oldest.
func TestAPodThatIsInNoQueueLetsNobodyPassItsTurn(t *testing.T) {
	stranger := func(r *rig, in string) {
		r.add(objects.Pod("stranger", objects.CPU("1"), withoutGrace, func(p *corev1.Pod) { p.Labels = map[string]string{group.Label: in} }))
	}
	t.Run("in the group of a job that waits", func(t *testing.T) {
		inQueueRig(t, 2, func(r *rig) {
			r.queues.put(&v1alpha1.Queue{
				ObjectMeta: metav1.ObjectMeta{Name: "batch", UID: "uid-batch", Generation: 2, CreationTimestamp: metav1.Now()},
				Spec:       v1alpha1.QueueSpec{Policy: v1alpha1.EASY, NamespaceSelector: &metav1.LabelSelector{}, Started: new(false)},
			})
			r.pass(time.Second)
			a := r.submit("a", 2, "1h")
			stranger(r, a.key().Name)
			r.pass(time.Second)
			a.make(0)
			r.pass(10 * time.Second)
			if on := r.nodesOfJob(a); len(on) > 0 {
				t.Errorf("the job starts on %q before its turn", on)
			}
		})
	})
	t.Run("in a group that names a pod of a queue too", func(t *testing.T) {
		inQueueRig(t, 4, func(r *rig) {
			r.podGroupAPI.put(aPodGroup(g.Name, 2, "pg"))
			stranger(r, g.Name)
			a := r.submit("a", 1, "1h", func(p *corev1.Pod) { p.Labels = map[string]string{group.Label: g.Name} })
			a.release()
			r.pass(2 * time.Second)
			if on := r.nodesOfJob(a); len(on) > 0 {
				t.Errorf("the pod of the job starts on %q, with others", on)
			}
		})
	})
}

// A job that is evicted waits again before the first of its pods is touched.
func TestAJobIsPutBackBeforeItsPodsAreEvicted(t *testing.T) {
	inQueueRig(t, 2, func(r *rig) {
		r.pl.args.Preemption.Mode = PreemptionLowerPriority
		a := r.submit("a", 2, "1h")
		a.release()
		var seen []string
		look := func() {
			fj := r.queues.job(a.key())
			seen = append(seen, fmt.Sprintf("%s %v", fj.Status.Phase, fj.Status.Allocation != nil))
		}
		r.owners.onPatch = look
		r.podAPI.answer = func(string) *http.Response { look(); return nil }
		r.gangFor("urgent", 1, 7, "")
		r.pass(time.Minute)
		if !r.starts("urgent", 1) {
			t.Errorf("the group has not started; it waits with %q", r.why("urgent"))
		}
		if want := slices.Repeat([]string{"Waiting false"}, 3); !slices.Equal(seen, want) {
			t.Errorf("as the Job was suspended and its pods were deleted, the FluxJob was %q, want it waiting without an allocation", seen)
		}
		if got := a.says(); !strings.HasPrefix(got, v1alpha1.ReasonPreempted+": ") && !strings.HasPrefix(got, v1alpha1.ReasonNoRoom+": ") {
			t.Errorf("the job says %q", got)
		}
	})
}

// A job of a queue waits for its turn, and evicts nobody: also not for a pod that it lacks.
func TestJobsOfQueuesEvictNobody(t *testing.T) {
	inQueueRig(t, 3, func(r *rig) {
		r.pl.args.Preemption.Mode = PreemptionLowerPriority
		a := r.submit("a", 2, "1h", atPriority(7))
		a.release()
		r.gangFor("low", 1, 0, "")
		r.pass(3 * time.Second)
		r.updateNode("n1", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}
		})
		r.remove("a-1")
		a.make(7)
		r.pass(time.Minute)
		if !r.starts("low", 1) || len(r.podAPI.deleted()) > 0 {
			t.Errorf("these pods were deleted: %v", r.podAPI.deleted())
		}
		if c := r.conditionOf(a.key().Name, "Scheduled"); !strings.Contains(c.Message, "jobs of queues evict nobody") {
			t.Errorf("the PodGroup says %q, want why nobody is evicted", c.Message)
		}
	})
}

// A filter may refuse a node only in the cycle of a pod. The job gets other room then too.
func TestAJobGetsOtherRoomIfAFilterRefusesAnAssignment(t *testing.T) {
	inRigOf(t, realEngine(t), func(r *rig) { r.serveQueues() }, func(r *rig) {
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		a := r.submit("a", 2, "1h")
		a.release()
		r.pass(10 * time.Second)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("the pods are on %v, want n1 and n2: %s", got, a.says())
		}
		if all, ofJobs := r.heldSlots(); all != 2 || ofJobs != 0 {
			t.Errorf("%d slots are held, %d of them of jobs, want those of the pods alone", all, ofJobs)
		}
	}, &unpredictableFilter{none: is("n0")})
}

// Pods that wait for a volume are refused once, before nodes are looked at, and pods that keep apart are refused by no one node. Their
// job does not keep its room for that: it waits again, and says why, and the one behind it starts.
func TestAJobWhosePodsCannotStartDoesNotKeepItsRoom(t *testing.T) {
	claim := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "lost"}}}}
	}
	apart := func(p *corev1.Pod) {
		objects.CPU("4")(p) // so that both fit on one node
		objects.AwayFrom("x")(p)
		p.Labels["app"] = "x"
	}
	const noVolume = `persistentvolumeclaim "lost" not found`
	cases := map[string]struct {
		submit func(r *rig) *queuedJob
		why    string
	}{
		"a Job without a volume":      {func(r *rig) *queuedJob { return r.submit("a", 2, "1h", claim) }, noVolume},
		"a lone pod without a volume": {func(r *rig) *queuedJob { return r.submitPod("a", "1h", claim) }, noVolume},
		"pods that keep apart":        {func(r *rig) *queuedJob { return r.submit("a", 2, "1h", apart) }, "room for 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inQueueRig(t, 2, func(r *rig) {
				a := tc.submit(r)
				b := r.submit("b", 2, "1h")
				for turn := range 3 {
					if a.room() == "" {
						t.Fatalf("it has no room in turn %d: %s", turn, a.says())
					}
					if turn == 0 || a.owner.Kind == "Job" {
						a.release()
					} else {
						a.edits(func(fj *v1alpha1.FluxJob) { fj.Status.Phase = v1alpha1.Running }) // its pod is there
					}
					r.pass(roomPatience / 2)
					if got := r.queues.job(a.key()).Status.Requeues; int(got) != turn {
						t.Fatalf("it was requeued %d times, want %d: its pods may get their volume yet", got, turn)
					}
					r.pass(roomPatience/2 + 2*time.Second)
					if got := r.queues.job(a.key()).Status.Requeues; int(got) != turn+1 {
						t.Fatalf("it was requeued %d times, want %d: %s", got, turn+1, a.says())
					}
					a.removePods()
					r.pass(time.Second)
				}
				if got := a.says(); !strings.HasPrefix(got, v1alpha1.ReasonUnplaceable+": ") || !strings.Contains(got, tc.why) {
					t.Errorf("it says %q, want that it is Unplaceable, and why", got)
				}
				if b.room() != "n[0-1]*1" {
					t.Errorf("the next one has room on %q, want n[0-1]*1: %s", b.room(), b.says())
				}
			})
		})
	}
}

// Nodes that are reserved for a group of a higher priority do not keep a job from its room there.
func TestReservedNodesDoNotKeepAJobFromItsRoom(t *testing.T) {
	inRigOf(t, realEngine(t), func(r *rig) { r.serveQueues() }, func(r *rig) {
		r.pl.args.MaxBypass.Duration = time.Second
		r.node("n0", 16)
		r.node("n1", 16)
		r.pass(settleTime)
		r.schedule()
		ends := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
		for i := range 2 {
			r.pod(fmt.Sprintf("fill-%d", i), objects.CPU("8"), ends, objects.OfApp("x"), objects.AwayFrom("x"))
		}
		r.pass(time.Second)
		a := r.submit("a", 2, "1h")
		if got := a.room(); got != "n[0-1]*1" {
			t.Fatalf("it has room on %q: %s", got, a.says())
		}
		r.gangFor("direct", 2, 9, "")
		r.pass(time.Minute)
		if _, nodes := r.pl.reservations.count(); nodes[ns] != 2 {
			t.Fatalf("nodes are reserved: %v, want both: %q", nodes, r.why("direct"))
		}
		a.release()
		if got := r.nodesOfJob(a); len(got) != 2 {
			t.Errorf("the pods are on %v, want the nodes of the allocation", got)
		}
	})
}

// While the driver brings the room of a job up to date, its pods do not go elsewhere.
func TestPodsWaitWhileTheirRoomIsBookedAgain(t *testing.T) {
	e := realEngine(t)
	inRigOf(t, e, func(r *rig) { r.serveQueues() }, func(r *rig) {
		for i := range 4 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		a := r.submit("a", 2, "1h")
		room, _ := r.pl.queues.Allocation(a.key())
		gate := make(chan struct{})
		r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
			if strings.Contains(req.Holder, "-b-") {
				<-gate // the driver is busy
			}
			return e.Match(r.ctx, req)
		})
		b := r.submit("b", 1, "1h")
		r.pl.queues.TakenOver(a.key(), []string{room.Slots[0].Key, room.Slots[1].Key})
		r.pl.queues.Recheck(a.key())
		a.release()
		r.pass(3 * time.Second)
		r.wantAssigned(map[string]string{})
		if why := r.conditionOf(a.key().Name, "Scheduled"); why.Reason != reason.Queued || !strings.Contains(why.Message, "its room is being booked again") {
			t.Errorf("it waits with %s: %q", why.Reason, why.Message)
		}
		close(gate)
		r.pass(gang.MaxBackoff / 10)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0", "n1"}) {
			t.Errorf("the pods are on %v, want n0 and n1: %s; %s", got, a.says(), b.says())
		}
	})
}

// If the answer to a match is lost, nobody is to blame. The job keeps its room, also if the match has taken it over.
func TestAJobKeepsItsRoomIfTheAnswerOfTheMatcherIsLost(t *testing.T) {
	e := realEngine(t)
	inRigOf(t, e, func(r *rig) { r.serveQueues() }, func(r *rig) {
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		a := r.submit("a", 2, "1h")
		lost := 0
		r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
			found, err := e.Match(r.ctx, req)
			if req.Replaces != 0 && lost < 3 {
				lost++
				return nil, match.ErrUnavailable
			}
			return found, err
		})
		a.release()
		r.pass(time.Minute)
		if got := r.nodesOfJob(a); !slices.Equal(got, []string{"n0", "n1"}) || r.queues.job(a.key()).Status.Requeues != 0 || lost != 3 {
			t.Errorf("the pods are on %v after %d lost answers, want n0 and n1: %s", got, lost, a.says())
		}
		if all, ofJobs := r.heldSlots(); all != 2 || ofJobs != 0 {
			t.Errorf("%d slots are held, %d of them of jobs, want those of the pods alone", all, ofJobs)
		}
	})
}
