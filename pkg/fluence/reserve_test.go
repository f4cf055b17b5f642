package fluence

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// reserve runs a pod's cycle up to Permit, in which the pod waits if it has to.
func (r *rig) reserve(pod *corev1.Pod) fwk.CycleState {
	r.Helper()
	state, result, status := r.preFilter(pod)
	if !status.IsSuccess() {
		r.Fatalf("PreFilter of %s: %v", pod.Name, status)
	}
	node := result.NodeNames.UnsortedList()[0]
	if s := r.fwk.RunReservePluginsReserve(r.ctx, state, pod, node); !s.IsSuccess() {
		r.Fatalf("Reserve of %s: %v", pod.Name, s)
	}
	timeouts, s := r.fwk.RunPermitPlugins(r.ctx, state, pod, node)
	switch {
	case s.IsWait():
		r.fwk.AddWaitingPod(pod, timeouts)
	case !s.IsSuccess():
		r.Fatalf("Permit of %s: %v", pod.Name, s)
	}
	return state
}

// preBind binds a pod that is reserved on node n1, through the bind queue.
func (r *rig) preBind(state fwk.CycleState, pod *corev1.Pod) {
	r.Helper()
	r.wantStatus(r.fwk.RunPreBindPlugins(r.ctx, state, pod, "n1"), fwk.Success, "")
}

// permitted waits until the wait of a pod in Permit ends, and returns the status.
func (r *rig) permitted(pod *corev1.Pod) *fwk.Status { return r.fwk.WaitOnPermit(r.ctx, pod) }

func TestReserveTakesTheMatchedNodeAlone(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.give("n1")
		pod := r.pod("lone")
		r.preFilter(pod)
		r.wantStatus(r.pl.Reserve(r.ctx, nil, pod, "n2"), fwk.Unschedulable, `the scheduler chose node "n2", but the pod is assigned to node "n1"`)
		r.wantStatus(r.pl.Reserve(r.ctx, nil, pod, "n1"), fwk.Success, "")
		r.wantStatus(r.pl.Reserve(r.ctx, nil, objects.Pod("stranger"), "n1"), fwk.Unschedulable, "the pod was deleted, or the scheduler has not seen it yet")
	})
}

func TestPermitLetsAllBindWithTheLastOfTheMinimum(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.give("n1", "n1", "n2")
		pods := r.gang(3, 3)
		for _, p := range pods[:2] {
			r.reserve(p)
		}
		r.pass(time.Minute - time.Second)
		for _, p := range pods[:2] {
			if wp := r.fwk.GetWaitingPod(p.UID); wp == nil || len(wp.GetPendingPlugins()) != 1 {
				r.Fatalf("pod %s does not wait for the third", p.Name)
			}
		}
		r.reserve(pods[2])
		before := time.Now()
		for _, p := range pods {
			r.wantStatus(r.permitted(p), fwk.Success, "")
		}
		if took := time.Since(before); took != 0 {
			t.Errorf("the pods waited %v longer", took)
		}
	})
}

// The API shows a bound pod a little later.
func TestPostBindSaysThatTheGroupIsPlaced(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.give("n1", "n1")
		pods := r.gang(2, 2)
		states := []fwk.CycleState{r.reserve(pods[0]), r.reserve(pods[1])}
		r.preBind(states[0], pods[0])
		r.preBind(states[1], pods[1])
		r.fwk.RunPostBindPlugins(r.ctx, states[0], pods[0], "n1")
		r.pass(0)
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 0 {
			t.Errorf("conditions = %+v with one of two bound, want none", c)
		}
		r.fwk.RunPostBindPlugins(r.ctx, states[1], pods[1], "n1")
		r.pass(0)
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.Placed {
			t.Errorf("conditions = %+v, want reason %s", c, reason.Placed)
		}
	})
}

func TestUnreserveOfOneRejectsTheOthers(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.give("n1", "n1", "n2")
		pods := r.gang(3, 3)
		states := []fwk.CycleState{r.reserve(pods[0]), r.reserve(pods[1])}
		r.fwk.RunReservePluginsUnreserve(r.ctx, states[1], pods[1], "n1")
		r.wantStatus(r.permitted(pods[0]), fwk.Unschedulable, "pod g-1 could not be reserved on node n1, or bound to it")
		r.pass(0)
		if got := r.matcherFake.Calls(matchtest.Release); len(got) != 1 || len(got[0].Keys) != 2 {
			t.Errorf("releases = %+v, want one of the two pods without a cycle", got)
		}
		r.fwk.RunReservePluginsUnreserve(r.ctx, states[0], pods[0], "n1")
		r.pass(0)
		if got := r.matcherFake.Calls(matchtest.Release); len(got) != 2 || len(got[1].Keys) != 1 || got[1].Keys[0] != string(pods[0].UID) {
			t.Errorf("releases = %+v, want one of the other pod when its cycle has ended", got)
		}
	})
}

// A binding cycle may wait for a volume for minutes. Meanwhile the scheduler's cache counts the
// pod on its node, so the matcher must not give that node to another group.
func TestANodeIsNotFreeBeforeTheBindingCycleEnds(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i), 4)
		}
		r.pass(settleTime)
		pods := r.gang(2, 2, objects.CPU("4"))
		states, nodes := make([]fwk.CycleState, 2), make([]string, 2)
		for i, p := range pods {
			states[i] = r.reserve(p)
			nodes[i] = r.nodeOf(p)
		}
		r.remove("g-1")
		// The audit compares graph and cluster meanwhile. The slots are no drift.
		r.pass(time.Minute)
		other := r.pod("other", objects.CPU("4"))
		if got := r.nodeOf(other); got != "n2" {
			t.Errorf("the next pod is placed on %q, want n2, which no cycle uses", got)
		}
		for i, p := range pods {
			r.fwk.RunReservePluginsUnreserve(r.ctx, states[i], p, nodes[i])
		}
		r.pass(time.Second)
		if got := r.nodeOf(r.pod("third", objects.CPU("4"))); got != "n0" {
			t.Errorf("after the cycles the next pod is placed on %q, want n0", got)
		}
		if n := r.pl.releases.pending(); n != 0 {
			t.Errorf("%d releases are pending", n)
		}
	})
}

func TestUnreserveInAGroupThatHasStartedKeepsTheAssignment(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.node("n2", 8)
		r.give("n1", "n2")
		pods := r.gang(2, 2)
		first := r.reserve(pods[0])
		state := r.reserve(pods[1])
		r.preBind(first, pods[0])
		r.fwk.RunReservePluginsUnreserve(r.ctx, state, pods[1], "n2")
		r.pass(0)
		if got := r.matcherFake.Calls(matchtest.Release); len(got) != 0 {
			t.Errorf("releases = %+v, want none", got)
		}
		r.wantPasses(pods[1])
		if got := r.nodeOf(pods[1]); got != "n2" {
			t.Errorf("the pod tries node %s again, want n2", got)
		}
		if got := len(r.matches()); got != 1 {
			t.Errorf("%d matches, want the first alone", got)
		}
	})
}

func TestPostFilterRevokesAndStopsLaterPlugins(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.give("n1", "n1")
		pods := r.gang(2, 2)
		state, _, _ := r.preFilter(pods[0])
		statuses := schedulerframework.NewDefaultNodeToStatus()
		statuses.Set("n1", fwk.NewStatus(fwk.Unschedulable, "too full"))
		result, status := r.fwk.RunPostFilterPlugins(r.ctx, state, pods[0], statuses)
		if status.Code() != fwk.UnschedulableAndUnresolvable || status.Plugin() != Name {
			t.Errorf("status = %v of %s, want UnschedulableAndUnresolvable of %s", status.Code(), status.Plugin(), Name)
		}
		if result == nil || result.NominatingInfo == nil || result.Mode() != fwk.ModeOverride || result.NominatedNodeName != "" {
			t.Errorf("result = %+v, want the nomination cleared", result)
		}
		r.pass(0)
		if got := r.matcherFake.Calls(matchtest.Release); len(got) != 1 || len(got[0].Keys) != 2 {
			t.Errorf("releases = %+v, want both slots", got)
		}
		const why = "node n1 was matched for pod g-0, but too full"
		r.wantHeld(pods[0], why)
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.NodeRefused || c[0].Message != why {
			t.Errorf("conditions = %+v, want reason %s", c, reason.NodeRefused)
		}
	})
}

func TestPostFilterAfterARefusalReportsNothing(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		pods := r.gang(2, 2)
		r.matcherFake.Refuse(match.ErrBusy, match.Reason{Code: match.TooFew, Wanted: 2})
		state, _, _ := r.preFilter(pods[0])
		statuses := schedulerframework.NewDefaultNodeToStatus()
		_, status := r.fwk.RunPostFilterPlugins(r.ctx, state, pods[0], statuses)
		r.wantStatus(status, fwk.UnschedulableAndUnresolvable, "")
		r.pass(0)
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.NoRoom {
			t.Errorf("conditions = %+v, want reason %s", c, reason.NoRoom)
		}
	})
}

// The other plugins come first in PreFilter, and the framework runs no
// more of them after one that returns UnschedulableAndUnresolvable.
func TestPostFilterReportsRejectionByAnotherPlugin(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.podGroupAPI.put(aPodGroup(g.Name, 1, "pg"))
		pod := r.pod("g-0", objects.InGroup(g.Name), func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"},
			}}}
		})
		r.schedule()
		r.pass(time.Second)
		want := `pod g-0: persistentvolumeclaim "missing" not found`
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.NodesRuledOut || c[0].Message != want {
			t.Errorf("conditions = %+v, want %s: %s", c, reason.NodesRuledOut, want)
		}
		if got := len(r.matches()); got != 0 {
			t.Errorf("%d matches for pod %s, want none", got, pod.Name)
		}
	})
}

func TestAPodGroupOfTheSchedulersOwnIsNotPreemptedFor(t *testing.T) {
	result, status := (&Fluence{}).PodGroupPostFilter(t.Context(), nil, nil, nil)
	if result != nil || status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("PodGroupPostFilter = %v, %v; want nothing, UnschedulableAndUnresolvable", result, status)
	}
}

// Permit returns Wait before the framework has the pod among
// the waiting pods. A decision in between reaches no pod.
func TestSweepWaitingRepeatsMissedDecisions(t *testing.T) {
	cases := map[string]struct {
		meanwhile func(r *rig, sibling *corev1.Pod)
		code      fwk.Code
		message   string
	}{
		"when its group may bind": {
			meanwhile: func(r *rig, sibling *corev1.Pod) { r.reserve(sibling) },
			code:      fwk.Success,
		},
		"when its group gives back": {
			meanwhile: func(r *rig, sibling *corev1.Pod) { r.pl.Unreserve(r.ctx, nil, sibling, "n1") },
			code:      fwk.Unschedulable, message: "the assignment was revoked: pod g-1 could not be reserved on node n1, or bound to it",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.give("n1", "n1")
				pods := r.gang(2, 2)
				state, _, _ := r.preFilter(pods[0])
				if s := r.pl.Reserve(r.ctx, state, pods[0], "n1"); !s.IsSuccess() {
					r.Fatal(s)
				}
				timeouts, status := r.fwk.RunPermitPlugins(r.ctx, state, pods[0], "n1")
				if !status.IsWait() {
					r.Fatalf("Permit = %v, want Wait", status)
				}
				tc.meanwhile(r, pods[1])
				r.fwk.AddWaitingPod(pods[0], timeouts)
				before := time.Now()
				r.wantStatus(r.permitted(pods[0]), tc.code, tc.message)
				if took := time.Since(before); took > tick {
					t.Errorf("it waited %v, want %v at the most", took, tick)
				}
			})
		})
	}
}

func TestWaitingPodsOfOtherSchedulersAreLeftAlone(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		stranger := objects.Pod("stranger", func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
		r.fwk.AddWaitingPod(stranger, map[string]time.Duration{Name: 5 * time.Second})
		before := time.Now()
		r.permitted(stranger)
		if took := time.Since(before); took != 5*time.Second {
			t.Errorf("the pod waited %v, want until its own timeout, 5s", took)
		}
	})
}
