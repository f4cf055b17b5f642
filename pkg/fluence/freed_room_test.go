package fluence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// atPriority gives a pod a priority.
func atPriority(p int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &p }
}

// gangOf makes a PodGroup and its pods, NAME-0 and so on. Each pod needs a node of 8 CPUs.
func (r *rig) gangOf(name string, n int, priority int32) {
	r.Helper()
	r.podGroupAPI.put(aPodGroup(name, int32(n), types.UID(name)))
	for i := range n {
		r.pod(fmt.Sprintf("%s-%d", name, i), objects.InGroup(name), objects.CPU("8"), atPriority(priority))
	}
}

// starts reports whether all pods of a gang have nodes.
func (r *rig) starts(name string, n int) bool {
	for i := range n {
		if !r.runs(fmt.Sprintf("%s-%d", name, i)) {
			return false
		}
	}
	return true
}

// inHandoverRig runs a test on nodes of 8 CPUs, which a gang called base has.
func inHandoverRig(t *testing.T, nodes int, handover time.Duration, test func(*rig)) {
	t.Helper()
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.Handover = metav1.Duration{Duration: handover}
		for i := range nodes {
			r.node(fmt.Sprintf("n%02d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		r.gangOf("base", nodes, 0)
		r.pass(5 * time.Second)
		if !r.starts("base", nodes) {
			t.Fatalf("base does not run: %v", r.assigned())
		}
		test(r)
	})
}

// The nodes of a job fall free one after another. The group of the higher priority needs more of them than the
// other one. Whenever the first end comes, it starts first, and the other one is not held up for longer.
func TestTheFirstInOrderGetsWhatAJobLeaves(t *testing.T) {
	const nodes, high, low = 16, 12, 8
	cases := map[string]struct {
		handover time.Duration
		// step is the time from one end to the next, on average.
		step   time.Duration
		trials int
		// always is whether the first in order gets them in each trial.
		always bool
	}{
		"within the handover":     {handover: 2 * time.Second, step: 100 * time.Millisecond, trials: trials.Count(8), always: true},
		"without a handover":      {step: 250 * time.Millisecond, trials: 6},
		"the handover is shorter": {handover: 200 * time.Millisecond, step: 250 * time.Millisecond, trials: 6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			random, first := rand.New(rand.NewPCG(trials.Seed(t), 0)), 0
			for range tc.trials {
				inHandoverRig(t, nodes, tc.handover, func(r *rig) {
					for _, g := range random.Perm(2) {
						r.gangOf([]string{"low", "high"}[g], []int{low, high}[g], []int32{10, 1000}[g])
					}
					// The pauses after refusals are longer the longer the groups have waited.
					r.pass(5*time.Second + time.Duration(random.Int64N(int64(20*time.Second))))
					if r.runs("low-0") || r.runs("high-0") {
						t.Fatalf("both are to wait: %v", r.assigned())
					}
					for _, i := range random.Perm(nodes) {
						r.remove(fmt.Sprintf("base-%d", i))
						r.pass(tc.step/2 + time.Duration(random.Int64N(int64(tc.step/2))))
					}
					r.pass(8 * time.Second)
					if r.starts("high", high) {
						first++
					}
				})
			}
			t.Logf("the higher priority was the first in %d of %d trials", first, tc.trials)
			if (first == tc.trials) != tc.always {
				t.Errorf("the higher priority was the first in %d of %d trials, want that it always is: %t", first, tc.trials, tc.always)
			}
		})
	}
}

// Room that the first group cannot use goes to the others after the handover, and no handover for the same group begins
// for half a minute.
func TestLowerPrioritiesGetWhatTheFirstCannotUse(t *testing.T) {
	inHandoverRig(t, 4, 2*time.Second, func(r *rig) {
		r.gangOf("high", 4, 1000)
		r.gangOf("low", 1, 10)
		r.gangOf("lower", 1, 5)
		r.pass(20 * time.Second)
		r.remove("base-0")
		r.pass(1500 * time.Millisecond)
		if r.runs("low-0") {
			t.Fatal("low runs within the handover")
		}
		if says := r.podMessage("low-0"); !strings.Contains(says, "the room of 1 pod that ended is offered first to ns/high") {
			t.Errorf("low waits because of %q", says)
		}
		r.pass(time.Second)
		if !r.runs("low-0") {
			t.Fatalf("low does not run after the handover: %v", r.assigned())
		}
		r.remove("base-1")
		r.pass(time.Second)
		if !r.runs("lower-0") {
			t.Errorf("a second handover began within half a minute: %v", r.assigned())
		}
		r.gangOf("lowest", 1, 4)
		r.pass(offerPause)
		r.remove("base-2")
		r.pass(1500 * time.Millisecond)
		if r.runs("lowest-0") {
			t.Error("no handover begins after half a minute")
		}
		for i := range 4 {
			r.remove(fmt.Sprintf("high-%d", i))
		}
		r.pass(time.Second)
		if !r.runs("lowest-0") {
			t.Errorf("the handover goes on although the group is gone: %v", r.assigned())
		}
	})
}

// The pods of a job that is deleted end one after another. Until a moment after the last, a group that comes after the
// first of its priority gets no part of their room.
func TestRoomIsLeftToTheFirstOfAPriorityForAMoment(t *testing.T) {
	inHandoverRig(t, 8, 2*time.Second, func(r *rig) {
		r.gangOf("first", 7, 0)
		r.pass(time.Second)
		r.gangOf("small", 1, 0)
		r.pass(20 * time.Second)
		for i := range 6 {
			r.remove(fmt.Sprintf("base-%d", i))
			r.pass(settleTime * 3 / 4)
			if r.runs("small-0") {
				t.Fatalf("small has what %s leaves", reason.Plural(i+1, "pod"))
			}
		}
		r.remove("base-6")
		r.pass(2 * time.Second)
		if !r.starts("first", 7) || r.runs("small-0") {
			t.Fatalf("the first group does not run: %v", r.assigned())
		}
		r.gangOf("second", 2, 0)
		r.pass(offerPause)
		r.remove("base-7")
		r.pass(2 * time.Second)
		if !r.runs("small-0") {
			t.Errorf("small does not run: %v", r.assigned())
		}
	})
}

// A second job ends within half a minute of the first. The first group gets its room too, if it needs all of it.
func TestRoomOfAnotherJobIsLeftForAMoment(t *testing.T) {
	for _, priority := range []int32{0, 10} {
		inHandoverRig(t, 8, 2*time.Second, func(r *rig) {
			r.gangOf("first", 7, priority)
			r.pass(time.Second)
			r.gangOf("small", 1, 0)
			r.pass(time.Second)
			r.gangOf("smaller", 1, 0)
			r.pass(20 * time.Second)
			r.remove("base-0")
			r.pass(5 * time.Second)
			if !r.runs("small-0") {
				t.Fatalf("small does not run where the first has no room: %v", r.assigned())
			}
			for i := range 7 {
				r.remove(fmt.Sprintf("base-%d", i+1))
				r.pass(settleTime / 2)
				if r.runs("smaller-0") {
					t.Fatalf("smaller has what %s leaves", reason.Plural(i+1, "pod"))
				}
			}
			r.pass(2 * time.Second)
			if !r.starts("first", 7) {
				t.Fatalf("the first does not run: %v", r.assigned())
			}
		})
	}
}

// Two groups have room together once all pods of a job have ended. When the first has started, what ends later is offered to
// the second, and not to one after it.
func TestRoomIsOfferedToTheSecondWhenTheFirstHasStarted(t *testing.T) {
	for gap := 20 * time.Millisecond; gap < settleTime; gap += 20 * time.Millisecond {
		inHandoverRig(t, 6, 2*time.Second, func(r *rig) {
			r.gangOf("first", 3, 0)
			r.pass(time.Second)
			r.gangOf("second", 3, 0)
			r.pass(time.Second)
			r.gangOf("small", 1, 0)
			r.pass(20 * time.Second)
			for i := range 6 {
				r.remove(fmt.Sprintf("base-%d", i))
				r.pass(gap)
				if r.runs("small-0") {
					t.Fatalf("pods end every %s: small has what %s leaves", gap, reason.Plural(i+1, "pod"))
				}
			}
			r.pass(2 * time.Second)
			if !r.starts("first", 3) || !r.starts("second", 3) {
				t.Fatalf("pods end every %s: want first and second: %v", gap, r.assigned())
			}
		})
	}
}

// terminate begins the deletion of pods that take a while to end.
func (r *rig) terminate(grace time.Duration, names ...string) {
	r.Helper()
	for _, name := range names {
		r.update(name, func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(grace)}
			p.DeletionGracePeriodSeconds = new(int64(grace / time.Second))
		})
	}
}

// Pods take a while to end. The first group that fits when they have gone keeps the whole room from those after it.
func TestTheFirstThatWillFitClaimsTheRoomOfPodsThatAreEnding(t *testing.T) {
	cases := map[string]struct {
		priority int32 // of the group that comes later
		grace    time.Duration
		claimed  bool
	}{
		"from a lower priority":               {priority: 10, grace: 20 * time.Second, claimed: true},
		"from the same priority":              {priority: 1000, grace: 20 * time.Second, claimed: true},
		"not from a higher priority":          {priority: 2000, grace: 20 * time.Second},
		"not while pods take very long to go": {priority: 10, grace: 2 * maxEndingGrace},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inHandoverRig(t, 4, 0, func(r *rig) {
				r.gangOf("first", 3, 1000)
				r.pass(20 * time.Second)
				r.terminate(tc.grace, "base-1", "base-2", "base-3")
				r.pass(3 * time.Second)
				r.gangOf("second", 1, tc.priority)
				r.remove("base-1")
				r.pass(3 * time.Second)
				if got := !r.runs("second-0"); got != tc.claimed {
					t.Errorf("the room is claimed: %t, want %t: %v", got, tc.claimed, r.assigned())
				}
				if !tc.claimed {
					return
				}
				if says := r.podMessage("second-0"); !strings.Contains(says, "room is kept for ns/first, which starts when pods that are ending have gone") {
					t.Errorf("second waits because of %q", says)
				}
				if says := r.podMessage("first-0"); !strings.Contains(says, "it fits when pods that are ending have gone, and room is kept for it") {
					t.Errorf("first waits because of %q", says)
				}
				r.remove("base-2")
				r.remove("base-3")
				r.pass(3 * time.Second)
				if !r.starts("first", 3) || r.runs("second-0") {
					t.Errorf("first does not run: %v", r.assigned())
				}
			})
		})
	}
}

// A claim ends with the group, and some time after its pods were due to go.
func TestAClaimEnds(t *testing.T) {
	cases := map[string]func(*rig){
		"the group is gone": func(r *rig) {
			for i := range 3 {
				r.remove(fmt.Sprintf("first-%d", i))
			}
		},
		"a pod of the group is gone": func(r *rig) { r.remove("first-1") },
		"a pod does not end":         func(r *rig) { r.pass(20*time.Second + maxOverdue) },
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			inHandoverRig(t, 4, 0, func(r *rig) {
				r.gangOf("first", 3, 1000)
				r.pass(20 * time.Second)
				r.terminate(20*time.Second, "base-1", "base-2", "base-3")
				r.pass(3 * time.Second)
				r.gangOf("second", 1, 10)
				r.remove("base-1")
				r.pass(3 * time.Second)
				if r.runs("second-0") {
					t.Fatalf("the room is not claimed: %v", r.assigned())
				}
				end(r)
				r.pass(3 * time.Second)
				if !r.runs("second-0") {
					t.Errorf("the room is still claimed: %v", r.assigned())
				}
			})
		})
	}
}

// A group of a higher priority waits too, and needs more than there is. The room that it is offered when pods end by
// themselves is not taken from the group that claims it.
func TestAnOfferDoesNotHideTheRoomThatAGroupClaims(t *testing.T) {
	inHandoverRig(t, 4, 2*time.Second, func(r *rig) {
		r.gangOf("huge", 5, 2000)
		r.gangOf("first", 2, 1000)
		r.pass(20 * time.Second)
		r.remove("base-0") // its room is free, and first needs one node more
		r.terminate(20*time.Second, "base-1")
		r.pass(5 * time.Second)
		r.gangOf("second", 1, 10)
		r.pass(3 * time.Second)
		if r.runs("second-0") {
			t.Fatalf("the room is not claimed: %v", r.assigned())
		}
		r.pass(offerPause)
		r.terminate(20*time.Second, "base-1")
		r.remove("base-1")
		r.pass(1500 * time.Millisecond)
		if !r.starts("first", 2) || r.runs("second-0") {
			t.Errorf("first does not run: %v", r.assigned())
		}
	})
}

// A group claims room for a pod that ends, and another pod takes its node each time. In the meantime the other nodes of the claim
// are idle, but not for ever.
func TestTheClaimsOfATurnAreBounded(t *testing.T) {
	inHandoverRig(t, 4, 0, func(r *rig) {
		r.gangOf("first", 4, 1000)
		r.pass(5 * time.Second)
		for _, pod := range []string{"base-1", "base-2", "base-3"} {
			r.remove(pod)
		}
		r.terminate(20*time.Second, "base-0")
		r.pass(3 * time.Second)
		r.gangOf("second", 1, 10)
		began := time.Now()
		for !r.runs("second-0") && time.Since(began) < 2*maxClaims {
			// It is due later and later.
			r.terminate(20*time.Second, "base-0")
			r.pass(5 * time.Second)
		}
		if took := time.Since(began); took < time.Minute || took > maxClaims+time.Minute {
			t.Errorf("the room was kept idle for %s, want %s", took, maxClaims)
		}
	})
}

// A node that a group had as a whole is offered as a whole.
func TestAWholeNodeIsOfferedAsAWhole(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.Handover = metav1.Duration{Duration: 2 * time.Second}
		r.node("n1", 8)
		r.pass(settleTime)
		r.schedule()
		r.gang(1, 1, objects.CPU("2"), annotated(group.ExclusiveAnnotation, "true"))
		r.pass(5 * time.Second)
		r.gangOf("first", 1, 1000)
		r.gangOf("huge", 2, 2000)
		r.pass(5 * time.Second)
		r.podGroupAPI.put(aPodGroup("small", 1, "small"))
		r.pod("small-0", objects.InGroup("small"), objects.CPU("6"), atPriority(10))
		r.pass(5 * time.Second)
		r.remove("g-0")
		r.pass(200 * time.Millisecond)
		if r.runs("small-0") {
			t.Error("the rest of the node is given away within the handover")
		}
		r.pass(5 * time.Second)
		if !r.runs("first-0") {
			t.Errorf("first does not run: %v", r.assigned())
		}
	})
}

// A pod that replaces one that is ending goes before the group that would fit there.
func TestAClaimDoesNotKeepRoomFromReplacements(t *testing.T) {
	inHandoverRig(t, 4, 0, func(r *rig) {
		r.gangOf("first", 2, 1000)
		r.pass(20 * time.Second)
		r.terminate(20*time.Second, "base-1", "base-2")
		r.pass(time.Second)
		if len(r.pl.claims.nodesOf(claimant{NamespacedName: types.NamespacedName{Namespace: objects.Namespace, Name: "first"}})) != 2 {
			t.Fatal("the first group claims no room")
		}
		r.pass(3 * time.Second)
		r.pod("base-again", objects.InGroup("base"), objects.CPU("8"), atPriority(0))
		r.pass(3 * time.Second)
		r.remove("base-1")
		r.pass(5 * time.Second)
		if !r.runs("base-again") || r.runs("first-0") {
			t.Errorf("the replacement does not run: %v", r.assigned())
		}
	})
}

// A pod whose room is kept for the one that is made in its place is not one whose room can be claimed.
func TestNoClaimOnRoomThatIsKeptForARestart(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 8)
		r.pass(settleTime)
		r.schedule()
		r.gang(1, 1, objects.CPU("8"), restartsWithin("1m"), atPriority(1000))
		r.pass(5 * time.Second)
		r.ran("g-0")
		r.gangOf("first", 1, 10)
		r.pass(5 * time.Second)
		r.terminate(20*time.Second, "g-0")
		r.pass(3 * time.Second)
		if says := r.podMessage("first-0"); strings.Contains(says, "it fits when") {
			t.Errorf("first waits because of %q", says)
		}
	})
}

// busy returns the pods that run, the ones that came first first.
func (r *rig) busy() (names []string) {
	list, err := r.client.CoreV1().Pods(ns).List(r.ctx, metav1.ListOptions{})
	r.must(err)
	slices.SortStableFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// Small groups wait all the time, and a pod ends each second for five minutes. A large group of a higher priority waits
// too. The nodes are used about as much as without handovers.
func TestHandoversCostLittle(t *testing.T) {
	const nodes = 10
	seconds := 300
	if testing.Short() {
		seconds = 60 // as under the race detector
	}
	used := map[time.Duration]int{}
	for _, handover := range []time.Duration{0, 2 * time.Second} {
		inHandoverRig(t, nodes, handover, func(r *rig) {
			r.gangOf("large", nodes, 1000)
			for i := range 5 {
				r.gangOf(fmt.Sprintf("small-%d", i), 1, 10)
			}
			for i := range seconds {
				r.remove(r.busy()[0])
				r.gangOf(fmt.Sprintf("small-%d", 5+i), 1, 10)
				for range 4 {
					r.pass(250 * time.Millisecond)
					used[handover] += len(r.busy())
				}
			}
		})
	}
	share := float64(used[2*time.Second]) / float64(used[0])
	t.Logf("without handovers %.3f of the nodes are used; with them %.3f of that", float64(used[0])/float64(4*nodes*seconds), share)
	if share < 0.95 {
		t.Errorf("with handovers the nodes are used to %.3f of what they are without, want at least 0.95", share)
	}
}
