package fluence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// The stories run the scheduler's own queue and loop.

// wantAssigned compares which pods are on which nodes.
func (r *rig) wantAssigned(want map[string]string) {
	r.Helper()
	if got := r.assigned(); !maps.Equal(got, want) {
		r.Errorf("pods on nodes: %v, want %v", got, want)
	}
}

// reportedGroups returns the groups that the reporter has something to report about.
func (r *rig) reportedGroups() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var known []types.NamespacedName
	for k := range r.reported {
		if _, ok := r.pl.reporter.Latest(k); ok {
			known = append(known, k)
		}
	}
	return known
}

// refusals returns the number of pods that the scheduler reported as not placed.
func (r *rig) refusals() int {
	n := 0
	for _, e := range r.recorder.of("Pod") {
		if e.reason == "FailedScheduling" {
			n++
		}
	}
	return n
}

func TestAGangIsPlacedWhole(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		r.schedule()
		r.gang(3, 3, objects.CPU("2"))
		r.pass(time.Second)
		r.wantAssigned(map[string]string{"g-0": "n1", "g-1": "n1", "g-2": "n2"})
		if got := len(r.matches()); got != 1 {
			t.Errorf("%d matches, want one", got)
		}
		if got := r.refusals(); got != 0 {
			t.Errorf("%d pods were refused on the way", got)
		}
		for _, c := range r.matcherFake.Calls(matchtest.Update) {
			if len(c.Jobs) != 0 {
				t.Errorf("the matcher was told of %v, which its own match has booked", c.Jobs)
			}
		}
		c := r.podGroupAPI.get(g).Status.Conditions
		if len(c) != 1 || c[0].Reason != reason.Placed || c[0].Message != "3 pods on 2 nodes (n1: 2, n2: 1)" {
			t.Errorf("conditions = %+v, want it placed", c)
		}
	})
}

func TestARefusedGangCostsOneCycleAndWaitsForRoom(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.gang(8, 8)
		r.pass(10 * time.Minute)
		r.wantAssigned(nil)
		if matches, refused := len(r.matches()), r.refusals(); matches != 1 || refused != 1 {
			t.Errorf("%d matches and %d pods refused, want one each", matches, refused)
		}
		r.node("n2", 4)
		r.pass(5 * time.Second) // the matcher may know the node before the scheduler does
		if got := len(r.assigned()); got != 8 {
			t.Errorf("%d pods on nodes, want all 8", got)
		}
	})
}

func TestTwoGangsForTheSameRoomGoOneAfterTheOther(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		for _, name := range []string{"a", "b"} {
			r.podGroupAPI.put(aPodGroup(name, 4, types.UID(name)))
			for i := range 4 {
				r.pod(fmt.Sprintf("%s-%d", name, i), objects.InGroup(name))
			}
			r.pass(time.Second)
		}
		r.wantAssigned(map[string]string{"a-0": "n1", "a-1": "n1", "a-2": "n1", "a-3": "n1"})
		for i := range 4 {
			r.remove(fmt.Sprintf("a-%d", i))
		}
		r.pass(2 * time.Second)
		r.wantAssigned(map[string]string{"b-0": "n1", "b-1": "n1", "b-2": "n1", "b-3": "n1"})
	})
}

func TestAGangThatWasThereBeforeItsPodGroupStartsWithIt(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		for i := range 3 {
			r.pod(fmt.Sprintf("g-%d", i), objects.InGroup(g.Name))
		}
		r.pass(10 * time.Second)
		r.wantAssigned(nil)
		r.podGroupAPI.put(aPodGroup(g.Name, 3, "pg"))
		r.pass(0)
		r.wantAssigned(map[string]string{"g-0": "n1", "g-1": "n1", "g-2": "n1"})
	})
}

func TestRoomThatIsFreedDuringAMatchIsNotMissed(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.matcherFake.OnMatch(func(match.Request) (*match.Allocation, error) {
			r.pl.observeEvent(gang.Released)
			time.Sleep(time.Millisecond) // by now all parts know
			r.give("n1", "n1")
			return nil, &match.Refusal{Err: match.ErrBusy}
		})
		r.gang(2, 2)
		r.pass(200 * time.Millisecond)
		r.wantAssigned(map[string]string{"g-0": "n1", "g-1": "n1"})
	})
}

func TestAGangStartsThoughTheMatcherGoesAwayAfterTheMatch(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
			// When the siblings come, the matcher does not answer.
			r.matcher.silence(true)
			r.pl.breaker.trip(placement.WhyUnavailable)
			a := &match.Allocation{}
			for _, key := range req.Keys {
				a.Slots = append(a.Slots, match.Slot{Key: key, Node: "n1"})
			}
			return a, nil
		})
		r.schedule()
		r.gang(4, 4)
		r.pass(3 * time.Second)
		if got := len(r.assigned()); got != 4 {
			t.Errorf("%d pods on nodes, want all 4", got)
		}
	})
}

func TestAfterAnOutageAllGoOn(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 16)
		r.schedule()
		r.matcher.silence(true)
		releases := []func(){r.matcherFake.Hold(matchtest.Match), r.matcherFake.Hold(matchtest.Update), r.matcherFake.Hold(matchtest.Release)}
		r.gang(4, 4)
		for i := range 4 {
			r.pod(fmt.Sprintf("lone-%d", i))
		}
		r.pass(time.Minute)
		r.wantAssigned(nil)
		if got := len(r.matches()); got > 1 {
			t.Errorf("%d cycles waited for the matcher, want one at the most", got)
		}
		for _, release := range releases {
			release()
		}
		r.matcher.silence(false)
		r.pass(5 * time.Second)
		if got := len(r.assigned()); got != 8 {
			t.Errorf("%d pods on nodes, want all 8", got)
		}
	})
}

// faulty is a plugin whose Filter returns an error on the matched
// node. The framework notifies no plugin that such a cycle is over.
type faulty struct{ well bool }

func (*faulty) Name() string { return "Faulty" }

func (f *faulty) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if _, err := state.Read(assignedNodeKey); err == nil && !f.well && pod.Name == "g-1" {
		return fwk.AsStatus(errors.New("faulty on purpose"))
	}
	return nil
}

func TestCycleThatFailsReleasesItsNodes(t *testing.T) {
	f := &faulty{}
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		r.gang(2, 2, objects.CPU("2"))
		r.pass(5 * time.Second)
		r.wantAssigned(nil)
		for i := range 4 {
			r.pod(fmt.Sprintf("lone-%d", i))
		}
		r.pass(2 * time.Minute)
		if got := r.assigned(); len(got) != 4 {
			t.Errorf("pods on nodes: %v, want the four that have no fault", got)
		}
		f.well = true
		for i := range 4 {
			r.remove(fmt.Sprintf("lone-%d", i))
		}
		r.pass(2 * time.Minute)
		r.wantAssigned(map[string]string{"g-0": "n1", "g-1": "n1"})
	}, f)
}

func TestRejectedAssignmentIsRevoked(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		r.pod("hog", objects.OnNode("n1"), objects.CPU("4"))
		r.give("n1", "n2")
		r.schedule()
		r.gang(2, 2)
		r.pass(500 * time.Millisecond)
		r.wantAssigned(map[string]string{"hog": "n1"})
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Message != "node n1 was matched for pod g-0, but Insufficient cpu" {
			t.Errorf("conditions = %+v, want the filter's words", c)
		}
		r.give("n2", "n2")
		r.pass(10 * time.Second)
		r.wantAssigned(map[string]string{"hog": "n1", "g-0": "n2", "g-1": "n2"})
	})
}

func TestAMemberDeletedWhileItsSiblingsWaitInPermitFreesThem(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.give("n1", "n1", "n1")
		pods := r.gang(3, 3)
		states := []fwk.CycleState{r.reserve(pods[0]), r.reserve(pods[1])}
		r.remove("g-2")
		for i, p := range pods[:2] {
			r.wantStatus(r.permitted(p), fwk.Unschedulable, "pod g-2 was deleted")
			r.fwk.RunReservePluginsUnreserve(r.ctx, states[i], p, "n1")
		}
		r.pass(0)
		var released []string
		for _, call := range r.matcherFake.Calls(matchtest.Release) {
			released = append(released, call.Keys...)
		}
		if slices.Sort(released); !slices.Equal(released, []string{"g-0", "g-1", "g-2"}) {
			t.Errorf("released are the slots of %q, want all three", released)
		}
	})
}

// A burst of groups leaves nothing behind (State 6 of the lessons of earlier systems).
func TestNothingIsLeftOfABurstOfGroups(t *testing.T) {
	e := realEngine(t)
	inRig(t, e, func(r *rig) {
		r.node("n1", 32)
		r.schedule()
		const n = 40
		for i := range n {
			name := fmt.Sprintf("b%02d", i)
			r.podGroupAPI.put(aPodGroup(name, 2, types.UID(name)))
			for _, p := range []string{"-0", "-1"} {
				r.pod(name+p, objects.InGroup(name))
			}
			r.pod(name + "-lone")
		}
		r.pass(time.Second)
		if got := len(r.assigned()); got == 0 || got == 3*n {
			r.Fatalf("%d pods of %d on nodes, want some waiting", got, 3*n)
		}
		for i := range n {
			name := fmt.Sprintf("b%02d", i)
			if i%2 == 0 {
				r.podGroupAPI.drop(types.NamespacedName{Namespace: ns, Name: name})
			}
			for _, p := range []string{"-0", "-1", "-lone"} {
				r.remove(name + p)
			}
			if i%2 == 1 {
				r.podGroupAPI.drop(types.NamespacedName{Namespace: ns, Name: name})
			}
		}
		r.pass(10 * time.Second)
		jobs, err := e.Jobs(r.ctx, r.pl.inventory.Epoch())
		if err != nil || len(jobs) != 0 {
			t.Errorf("the engine holds %+v, error %v; want nothing", jobs, err)
		}
		r.pl.releases.mu.Lock()
		if n := len(r.pl.releases.assumed); n != 0 {
			t.Errorf("%d pods count as assumed, though no cycle runs", n)
		}
		r.pl.releases.mu.Unlock()
		if got := r.reportedGroups(); len(got) != 0 {
			t.Errorf("news of %v are kept", got)
		}
		if got := r.pl.groups.WaitingGroups(); len(got) != 0 {
			t.Errorf("groups are kept: %+v", got)
		}
	})
}
