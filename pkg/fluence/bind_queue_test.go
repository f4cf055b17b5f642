package fluence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/objects"
)

// limitBinds limits the binds in flight to maxBinds, and makes each bind take a while.
func (r *rig) limitBinds(maxBinds int, takes time.Duration) {
	r.pl.bindQueue.Queue = bindqueue.New(maxBinds)
	r.binds.set(takes, nil)
}

// createGang creates a gang of n pods, all of which are needed.
func (r *rig) createGang(name string, n int, edit ...func(*corev1.Pod)) {
	r.Helper()
	r.podGroupAPI.put(aPodGroup(name, int32(n), types.UID(name)))
	for i := range n {
		r.pod(fmt.Sprintf("%s-%d", name, i), append(edit, objects.InGroup(name))...)
	}
}

// throttleBindsOf answers binds with 429 if the pod's name begins with one of the prefixes.
func (r *rig) throttleBindsOf(prefixes ...string) {
	r.binds.set(0, func(pod string) *http.Response {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(pod, p) }) {
			return tooMany("1")
		}
		return nil
	})
}

func TestBindsInFlightAreBounded(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(5, 100*time.Millisecond)
		r.node("n1", 100)
		for i := range 10 {
			r.createGang(fmt.Sprintf("g%d", i), 6)
		}
		r.schedule()
		r.pass(10 * time.Second)
		if got := len(r.assigned()); got != 60 || r.binds.most != 5 {
			t.Errorf("%d pods are bound, at most %d at a time; want 60, 5 at a time", got, r.binds.most)
		}
		if !r.pl.bindQueue.IsIdle() || r.waitingToBind() > 0 {
			t.Errorf("the gate is not empty: %+v", r.pl.bindQueue.Snapshot())
		}
	})
}

// A group is placed once those before it have been bound, except for what is bound within
// a second. So a more important group that comes meanwhile does not wait for many binds.
func TestPlacementsDoNotRunAheadOfBinds(t *testing.T) {
	for name, standby := range map[string]time.Duration{"of a scheduler that leads": 0, "of one that was a standby": time.Minute} {
		t.Run(name, func(t *testing.T) { testPlacementsAhead(t, standby) })
	}
}

func testPlacementsAhead(t *testing.T, standby time.Duration) {
	t.Helper()
	inRig(t, realEngine(t), func(r *rig) {
		r.standby.Store(standby > 0)
		r.pass(2 * report.LeadingCheckInterval)
		r.limitBinds(4, 500*time.Millisecond) // eight a second
		r.node("n1", 100)
		r.node("n2", 100)
		for i := range 20 {
			r.createGang(fmt.Sprintf("g%02d", i), 8)
		}
		r.pass(standby)
		r.standby.Store(false)
		r.schedule()
		for range 19 {
			r.pass(time.Second)
			// This counts the binds of a second, the group
			// that was placed last, and the binds in flight.
			if ahead, most := r.pl.groups.Stats().TentativePods, 8+8+4; ahead > most {
				t.Errorf("%d pods have nodes and are not bound, want %d at most", ahead, most)
			}
		}
		r.createGang("urgent", 8, func(p *corev1.Pod) { p.Spec.Priority = new(int32(1000)) })
		begun := len(r.binds.bound())
		r.pass(5 * time.Second)
		first := slices.IndexFunc(r.binds.bound(), func(name string) bool { return strings.HasPrefix(name, "urgent") })
		if first < 0 || first-begun > 24 {
			t.Errorf("pods of the urgent group are bound after %d others, want 24 at most", first-begun)
		}
		r.pass(time.Minute)
		if got := len(r.assigned()); got != 168 {
			t.Errorf("%d pods are bound, want all", got)
		}
		order := r.binds.bound()
		// The pods of two groups of eight may come to the queue in the same moment, in any order.
		for i := 16; i < 100; i++ {
			if order[i-16][:3] > order[i][:3] {
				t.Errorf("pod %s was bound before %s", order[i-16], order[i])
			}
		}
	})
}

func TestALonePodIsBoundWhileALargeGangIs(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(4, 100*time.Millisecond)
		r.node("n1", 500)
		r.createGang("g", 300)
		r.schedule()
		r.pass(time.Second)
		r.pod("lone")
		r.pass(time.Second)
		if r.assigned()["lone"] == "" {
			t.Errorf("the lone pod is not bound after a second; %d pods are", len(r.assigned()))
		}
	})
}

// The nodes of pods that wait in the bind queue change,
// while the API server is too busy to bind them.
func TestAssignmentsAreCheckedBeforeTheBind(t *testing.T) {
	cordon := func(r *rig, name string) {
		r.updateNode(name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	}
	cases := map[string]struct {
		// busy are the pods that the API server is too busy for.
		busy    []string
		happens func(r *rig)
		// closed is the node that no pod may be on in the end.
		closed string
		// back is how many pods lose their assignments at a time. A
		// group may lose them twice, because the scheduler's cache may
		// still count its pods on their old nodes at the next attempt.
		back int
	}{
		"a node that is cordoned costs a group without a bind all its seats": {
			busy:    []string{"g-"},
			happens: func(r *rig) { cordon(r, "n2") },
			closed:  "n2", back: 4,
		},
		"a node that is tainted does, too": {
			busy: []string{"g-"},
			happens: func(r *rig) {
				r.updateNode("n2", func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
				})
			},
			closed: "n2", back: 4,
		},
		"a node that is deleted does, too": {
			busy: []string{"g-"},
			happens: func(r *rig) {
				r.must(r.client.CoreV1().Nodes().Delete(r.ctx, "n2", metav1.DeleteOptions{}))
			},
			closed: "n2", back: 4,
		},
		"a node that others have filled does, too": {
			busy:    []string{"g-"},
			happens: func(r *rig) { r.pod("other", objects.OnNode("n2"), ofOtherScheduler, objects.CPU("2")) },
			closed:  "n2", back: 4,
		},
		"a node with room for others changes nothing": {
			busy:    []string{"g-"},
			happens: func(r *rig) { r.pod("other", objects.OnNode("n2"), ofOtherScheduler, objects.CPU("0")) },
			closed:  "n3",
		},
		"a node that has become too small does, too": {
			busy: []string{"g-"},
			happens: func(r *rig) {
				r.updateNode("n2", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("500m") })
			},
			closed: "n2", back: 4,
		},
		"a group with a bind loses the pods alone whose node others have filled": {
			busy:    []string{"g-2", "g-3"},
			happens: func(r *rig) { r.pod("other", objects.OnNode("n2"), ofOtherScheduler, objects.CPU("2")) },
			closed:  "n2", back: 2,
		},
		"a group with a bind loses the pods alone whose node is cordoned": {
			busy:    []string{"g-2", "g-3"},
			happens: func(r *rig) { cordon(r, "n2") },
			closed:  "n2", back: 2,
		},
		"a taint that does not keep pods off changes nothing": {
			busy: []string{"g-"},
			happens: func(r *rig) {
				r.updateNode("n2", func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
				})
			},
			closed: "n3",
		},
		"a member that is deleted costs a group without a bind all its seats": {
			busy: []string{"g-"},
			happens: func(r *rig) {
				r.remove("g-3")
				cordon(r, "n1")
				r.pod("g-4", objects.InGroup("g"))
			},
			closed: "n1", back: 4,
		},
		"a profile that does not look at room lets its pods pass": {
			busy: []string{"g-"},
			happens: func(r *rig) {
				r.pl.bindChecks.room = false
				r.pod("other", objects.OnNode("n2"), ofOtherScheduler, objects.CPU("2"))
			},
			closed: "n3",
		},
		"nothing happens": {busy: []string{"g-"}, happens: func(*rig) {}, closed: "n3"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 2)
				r.node("n2", 2)
				calledBack, left := r.bindQueueCounts()
				r.throttleBindsOf(tc.busy...)
				r.createGang("g", 4)
				r.schedule()
				r.pass(2 * time.Second)
				r.node("n3", 4)
				tc.happens(r)
				r.pass(10 * time.Second)
				if len(tc.busy) == 1 && len(r.binds.bound()) > 0 {
					t.Errorf("pods are bound: %v", r.assigned())
				}
				r.binds.set(0, nil)
				r.pass(30 * time.Second)
				got, bound := map[string]int{}, r.assigned()
				delete(bound, "other")
				for _, node := range bound {
					got[node]++
				}
				if len(bound) != 4 || got[tc.closed] > 0 {
					t.Errorf("pods on nodes: %v, want 4, none on %s; %s", got, tc.closed, r.message())
				}
				back := 0
				for _, c := range r.matcherFake.Calls(matchtest.Release) {
					back += len(c.Keys)
				}
				if again := max(tc.back, 1); (back > 0) != (tc.back > 0) || back%again != 0 {
					t.Errorf("%d pods gave their seats back, want %d at a time", back, tc.back)
				}
				if !r.pl.bindQueue.IsIdle() || r.waitingToBind() > 0 {
					t.Errorf("the gate is not empty: %+v", r.pl.bindQueue.Snapshot())
				}
				calledBackAfter, leftAfter := r.bindQueueCounts()
				if n := calledBackAfter - calledBack; (n > 0) != (tc.back > 0) {
					t.Errorf("%v pods are counted as called back, and %d gave their seats back", n, back)
				}
				if n := leftAfter - left; n < 4 {
					t.Errorf("%d pods are counted to have left the gate, want at least 4", n)
				}
			})
		})
	}
}

// ofOtherScheduler gives a pod to another scheduler.
func ofOtherScheduler(p *corev1.Pod) { p.Spec.SchedulerName = "other" }

// A group without a bind is checked as a whole: if a node
// rejects one of its pods, the others are not bound either.
func TestGroupIsCheckedAsAWholeBeforeItsFirstBind(t *testing.T) {
	taint := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule}
	cases := map[string]func(r *rig){
		"a node is cordoned": func(r *rig) {
			r.updateNode("n2", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		},
		"a node has room for one pod where there were to be two": func(r *rig) {
			r.pod("other", objects.OnNode("n2"), ofOtherScheduler)
		},
		"a node has a taint that one of two pods tolerates": func(r *rig) {
			r.updateNode("n2", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint} })
		},
	}
	for name, happens := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.limitBinds(1, time.Second)
				r.node("n1", 3)
				r.node("n2", 2)
				r.schedule()
				r.pod("before")
				r.createGang("g", 4, func(p *corev1.Pod) {
					if p.Name == "g-2" { // the first pod on n2
						p.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}}
					}
				})
				r.pass(500 * time.Millisecond)
				happens(r)
				r.pass(20 * time.Second)
				if got := r.binds.bound(); !slices.Equal(got, []string{"before"}) {
					t.Errorf("bound: %v, want no pod of the group while not all four have room", got)
				}
				r.node("n3", 2)
				r.pass(20 * time.Second)
				if got := r.binds.bound(); len(got) != 5 {
					t.Errorf("bound: %v, want all four of the group, too", got)
				}
			})
		})
	}
}

// lister counts how often nodes are looked up, and runs a function at the first time.
type lister struct {
	corelisters.NodeLister
	looks int
	first func()
}

func (l *lister) Get(name string) (*corev1.Node, error) {
	if l.looks++; l.looks == 1 {
		l.first()
	}
	return l.NodeLister.Get(name)
}

// A check that was made for a started group is made again if the group has lost its start.
func TestStaleBindIntentIsPreparedAgain(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 4)
		r.give("n1", "n1")
		pods := r.gang(2, 2)
		r.reserve(pods[0])
		r.reserve(pods[1])
		if why, _ := r.pl.commitBind(pods[0].UID, r.pl.now()); why != "" {
			t.Fatalf("the first pod does not depart: %s", why)
		}
		l := &lister{NodeLister: r.pl.nodes, first: func() { r.pl.groups.UndoBind(pods[0].UID) }}
		r.pl.nodes = l
		if why, _ := r.pl.commitBind(pods[1].UID, r.pl.now()); why != "" || l.looks != 2 {
			t.Errorf("after %d looks it is said %q, want that it departs after 2", l.looks, why)
		}
	})
}

// A bind in flight takes room before the API shows the pod on its node.
func TestABindInFlightTakesItsRoom(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(2, 100*time.Millisecond)
		r.binds.set(100*time.Millisecond, func(pod string) *http.Response {
			if pod == "a" {
				time.Sleep(time.Second)
			}
			return nil
		})
		r.node("n1", 3)
		r.schedule()
		for _, name := range []string{"a", "b", "c"} {
			r.pod(name)
		}
		r.pod("other", objects.OnNode("n1"), ofOtherScheduler)
		r.pass(500 * time.Millisecond)
		if got := r.binds.bound(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("bound while the bind of a is in flight: %v, want b alone", got)
		}
		r.pass(10 * time.Second)
		if got := r.binds.bound(); !slices.Equal(got, []string{"b", "a"}) {
			t.Errorf("bound: %v, want two beside another on a node of three", got)
		}
		r.remove("other")
		r.pass(10 * time.Second)
		if got := r.assigned(); len(got) != 3 {
			t.Errorf("bound when the other pod is gone: %v, want all three", got)
		}
	})
}

// A pod may be released just when its goroutine ends.
func TestABindThatNobodySendsTakesNoRoom(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 2)
		r.give("n1", "n1")
		pods := r.gang(2, 2)
		r.reserve(pods[0])
		r.reserve(pods[1])
		r.pl.bindQueue.Arrive(bindqueue.Pod{UID: pods[0].UID, Group: g}, r.pl.now())
		r.pl.serveBindQueue(r.ctx)
		if got := r.pl.whyFull("n1", []*corev1.Pod{objects.Pod("x"), objects.Pod("y")}); got != "" {
			t.Errorf("though nobody sends the bind: %q, want room for two", got)
		}
	})
}

// The room of a bind is free again if the bind was not made.
func TestABindThatIsNotMadeTakesNoRoom(t *testing.T) {
	answers := map[string]func() *http.Response{
		"the API server is too busy": func() *http.Response { return tooMany("5") },
		"the bind fails":             func() *http.Response { return response(http.StatusInternalServerError, http.NoBody) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 1)
				r.binds.set(100*time.Millisecond, func(string) *http.Response { return answer() })
				r.pod("a")
				r.schedule()
				r.pass(50 * time.Millisecond)
				const want = "node n1, which was matched for pod x and 1 more, has too little room now: cpu 2 wanted, 0 of 1 free"
				if got := r.pl.whyFull("n1", []*corev1.Pod{objects.Pod("x"), objects.Pod("y")}); got != want {
					t.Errorf("while the bind is in flight: %q, want %q", got, want)
				}
				r.pass(100 * time.Millisecond)
				if got := r.pl.whyFull("n1", []*corev1.Pod{objects.Pod("x")}); got != "" {
					t.Errorf("when the bind was not made: %q, want room", got)
				}
			})
		})
	}
}

// bindQueueCounts returns how many binds were cancelled
// in the bind queue, and how many pods have left it.
func (r *rig) bindQueueCounts() (canceled float64, left uint64) {
	r.Helper()
	canceled, err := testutil.GetCounterMetricValue(r.pl.counters.bindsCanceled)
	r.must(err)
	left, err = testutil.GetHistogramMetricCount(r.pl.counters.bindWaits.ObserverMetric)
	r.must(err)
	return canceled, left
}

func TestGroupInBindQueueReportsBinding(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 16)
		r.throttleBindsOf("g-1", "g-2")
		r.createGang("g", 3)
		r.schedule()
		r.pass(8 * time.Second)
		c := r.scheduledCondition()
		if c.Reason != reason.Binding || !strings.Contains(c.Message, "1 of 3 pods bound; the binds of 2 more pods wait for the API server") {
			t.Errorf("condition = %+v, want reason %s with the numbers", c, reason.Binding)
		}
		r.binds.set(0, nil)
		r.pass(5 * time.Second)
		if c := r.scheduledCondition(); c.Reason != reason.Placed {
			t.Errorf("condition = %+v, want reason %s", c, reason.Placed)
		}
	})
}

func TestGroupWaitingForAdmissionReportsBinding(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(1, 3*time.Second)
		r.node("n1", 100)
		for i := range 4 {
			r.createGang(fmt.Sprintf("a%d", i), 8)
		}
		r.createGang("g", 8)
		r.schedule()
		r.pass(13 * time.Second)
		if c := r.scheduledCondition(); c.Reason != reason.Binding || !strings.Contains(c.Message, "waits to be admitted: pods of earlier groups") {
			t.Errorf("condition = %+v, want reason %s", c, reason.Binding)
		}
		if turns, counted := r.pl.takeSnapshot().bindQueue.Groups[bindqueue.Small], r.pl.takeSnapshot().WaitingByReason[reason.Binding]; turns == 0 || counted != turns {
			t.Errorf("%d groups wait for their turn, and %d are counted as %s", turns, counted, reason.Binding)
		}
		r.binds.set(0, nil)
		r.pass(time.Minute)
		if c := r.scheduledCondition(); c.Reason != reason.Placed {
			t.Errorf("condition = %+v, want reason %s", c, reason.Placed)
		}
	})
}

// The cases are answers of the API server to a bind, and what becomes of the pod.
func TestOnlyThrottledBindsAreRetriedInPlace(t *testing.T) {
	cases := map[string]struct {
		answer func() *http.Response
		// least and most limit how often a bind is refused in the first ten seconds.
		least, most int
		// counted reports whether each refusal is counted as a failed write.
		counted bool
	}{
		"too many requests, in plain text": {func() *http.Response { return tooMany("2") }, 3, 3, false},
		"too many, without saying when":    {func() *http.Response { return tooMany("") }, 6, 6, false},
		"unavailable, and says when": {func() *http.Response {
			r := response(http.StatusServiceUnavailable, http.NoBody)
			r.Header = http.Header{"Content-Type": {"text/plain"}, "Retry-After": {"5"}}
			return r
		}, 2, 2, false},
		"an error": {func() *http.Response { return response(http.StatusInternalServerError, http.NoBody) }, 2, 8, true},
		"a pod that is another by now": {func() *http.Response {
			return failed(apierrors.NewConflict(corev1.Resource("pods"), "lone", errors.New("the UID is another")))
		}, 2, 8, false},
		"a pod that is gone": {func() *http.Response { return failed(apierrors.NewNotFound(corev1.Resource("pods"), "lone")) }, 1, 8, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 4)
				before := counted("fluence_failed_writes_total")
				r.binds.set(0, func(string) *http.Response { return tc.answer() })
				r.schedule()
				r.pod("lone")
				r.pass(10*time.Second - time.Millisecond)
				if got := r.binds.refused; got < tc.least || got > tc.most {
					t.Errorf("asked %d times in ten seconds, want %d to %d", got, tc.least, tc.most)
				}
				if got := counted("fluence_failed_writes_total") - before; tc.counted && got != float64(r.binds.refused) || !tc.counted && got != 0 {
					t.Errorf("%v binds are counted as failed of %d that were refused", got, r.binds.refused)
				}
				r.binds.set(0, nil)
				r.pass(20 * time.Second)
				if r.assigned()["lone"] == "" {
					t.Error("the pod is not bound")
				}
			})
		})
	}
}

// The framework cancels the wait of a pod in PreBind if the pod is preempted there.
func TestPodInBindQueueCanBeCancelled(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 4)
		r.give("n1", "n1")
		r.limitBinds(1, 0)
		pods := r.gang(2, 2)
		states := []fwk.CycleState{r.reserve(pods[0]), r.reserve(pods[1])}
		r.preBind(states[0], pods[0])
		ctx, cancel := context.WithCancelCause(r.ctx)
		time.AfterFunc(time.Second, func() { cancel(errors.New("preempted")) })
		status := r.pl.PreBind(ctx, states[1], pods[1], "n1")
		r.wantStatus(status, fwk.Error, "preempted")
		r.fwk.RunReservePluginsUnreserve(r.ctx, states[1], pods[1], "n1")
		if f := r.pl.bindQueue.Snapshot(); f.InFlight != 1 || f.Pods != [2]int{} {
			t.Errorf("the gate has %+v, want the first pod in flight alone", f)
		}
	})
}

func TestBindCanceledStatus(t *testing.T) {
	status := bindCanceled(objects.Pod("p"), "n1", "node n1 is gone")
	var fit *schedulerframework.FitError
	if !errors.As(status.AsError(), &fit) || status.Code() != fwk.Unschedulable || fit.Diagnosis.UnschedulablePlugins.Len() > 0 {
		t.Errorf("status = %v with %v, want Unschedulable by no plugin of which the queue would look up events", status.Code(), status.AsError())
	}
	if !strings.Contains(status.Message(), "node n1 is gone") {
		t.Errorf("message %q does not say why", status.Message())
	}
}
