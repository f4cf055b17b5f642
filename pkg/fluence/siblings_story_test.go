package fluence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// perNode returns the number of pods of group g by node.
func (r *rig) perNode() map[string]int {
	r.Helper()
	n := map[string]int{}
	for pod, node := range r.assigned() {
		if strings.HasPrefix(pod, "g-") {
			n[node]++
		}
	}
	return n
}

// placedSoon fails the test unless n pods of group g
// get nodes at once, without a refusal of any pod.
func (r *rig) placedSoon(n int) map[string]int {
	r.Helper()
	r.pass(time.Second)
	got := r.perNode()
	sum := 0
	for _, k := range got {
		sum += k
	}
	if sum != n {
		r.Fatalf("%d pods on nodes (%v), want %d; conditions %+v", sum, got, n, r.podGroupAPI.get(g).Status.Conditions)
	}
	return got
}

func TestAntiAffinityAndHostPortsSeparatePods(t *testing.T) {
	cases := map[string]func(*corev1.Pod){
		"anti-affinity": objects.AwayFrom("x"),
		"one host port": objects.HostPort(80),
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				for i := range 4 {
					r.node(fmt.Sprintf("n%d", i), 8)
				}
				r.schedule()
				r.gang(4, 4, objects.OfApp("x"), edit)
				if got := r.placedSoon(4); len(got) != 4 {
					t.Errorf("pods by node = %v, want one each", got)
				}
				if got := r.refusals(); got != 0 {
					t.Errorf("%d pods were refused on the way", got)
				}
			})
		})
	}
}

func TestMorePodsThanNodesThatKeepApartNeverFit(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.gang(3, 3, objects.OfApp("x"), objects.AwayFrom("x"))
		r.pass(2 * time.Second)
		r.wantAssigned(nil)
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.NeverFits {
			t.Errorf("conditions = %+v, want reason %s", c, reason.NeverFits)
		}
		r.node("n2", 8)
		if got := r.placedSoon(3); len(got) != 3 {
			t.Errorf("pods by node = %v, want one each", got)
		}
	})
}

// The anti-affinity of one member to others counts in both directions.
func TestALeaderKeepsItsWorkersAway(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.podGroupAPI.put(aPodGroup(g.Name, 4, "pg"))
		r.pod("g-0", objects.InGroup(g.Name), objects.OfApp("leader"), objects.AwayFrom("worker"))
		for i := 1; i < 4; i++ {
			r.pod(fmt.Sprintf("g-%d", i), objects.InGroup(g.Name), objects.OfApp("worker"))
		}
		r.placedSoon(4)
		nodes := r.assigned()
		for i := 1; i < 4; i++ {
			if w := fmt.Sprintf("g-%d", i); nodes[w] == nodes["g-0"] {
				t.Errorf("worker %s is beside the leader: %v", w, nodes)
			}
		}
	})
}

func TestExistingPodsCountWhereGroupsSpreadOverZones(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		for i := range 6 {
			r.node(fmt.Sprintf("n%d", i), 16, objects.InZone(string(rune('a'+i/2))))
		}
		// Two in a and one in c: a filter that runs before
		// any member is placed would leave only zone b.
		r.pod("old-0", objects.OfApp("x"), objects.OnNode("n0"))
		r.pod("old-1", objects.OfApp("x"), objects.OnNode("n1"))
		r.pod("old-2", objects.OfApp("x"), objects.OnNode("n4"))
		r.pass(settleTime)
		r.schedule()
		r.gang(6, 6, objects.OfApp("x"), objects.SpreadOver(objects.ZoneKey, "x", 1))
		got := r.placedSoon(6)
		zones := []int{got["n0"] + got["n1"], got["n2"] + got["n3"], got["n4"] + got["n5"]}
		if !slices.Equal(zones, []int{1, 3, 2}) {
			t.Errorf("pods by zone = %v, want 1, 3 and 2 beside the 2, 0 and 1 that are there", zones)
		}
		if refused := r.refusals(); refused > 1 {
			t.Errorf("%d pods were refused on the way", refused)
		}
	})
}

func TestAGangThatWantsToBeInOneZoneIs(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 4, objects.InZone("a"))
		r.node("n1", 4, objects.InZone("b"))
		r.node("n2", 4, objects.InZone("b"))
		r.schedule()
		r.gang(6, 6, objects.OfApp("x"), objects.NextTo(objects.ZoneKey, "x"))
		if got := r.placedSoon(6); got["n0"] != 0 {
			t.Errorf("pods by node = %v, want all in zone b", got)
		}
	})
}

func TestAGangThatWantsToBeOnOneNodeIs(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2)
		r.node("n1", 4)
		r.schedule()
		r.gang(3, 3, objects.OfApp("x"), objects.NextTo(corev1.LabelHostname, "x"))
		if got := r.placedSoon(3); got["n1"] != 3 {
			t.Errorf("pods by node = %v, want all on n1", got)
		}
	})
}

// The representative may not be the pod that has to be placed first.
func TestWorkersFollowTheirLeaderIntoAZone(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2, objects.InZone("a"))
		r.node("n1", 4, objects.InZone("b"))
		r.schedule()
		r.podGroupAPI.put(aPodGroup(g.Name, 3, "pg"))
		r.pod("g-0", objects.InGroup(g.Name), objects.OfApp("worker"), objects.NextTo(objects.ZoneKey, "leader"))
		r.pod("g-1", objects.InGroup(g.Name), objects.OfApp("worker"), objects.NextTo(objects.ZoneKey, "leader"))
		r.pod("g-2", objects.InGroup(g.Name), objects.OfApp("leader"))
		r.pass(5 * time.Second)
		r.wantAssigned(map[string]string{"g-0": "n1", "g-1": "n1", "g-2": "n1"})
	})
}

func TestVerifiedMatchIsAllocatedOnce(t *testing.T) {
	e := realEngine(t)
	inRig(t, e, func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.gang(2, 2, objects.OfApp("x"), objects.AwayFrom("x"))
		r.placedSoon(2)
		var ops []match.Op
		for _, m := range r.matches() {
			ops = append(ops, m.Op)
		}
		if !slices.Equal(ops, []match.Op{match.WithoutAllocating, match.Allocate}) {
			t.Errorf("matches = %v, want one that books nothing and one that books", ops)
		}
		jobs, err := e.Jobs(r.ctx, r.pl.inventory.Epoch())
		if err != nil || len(jobs) != 1 || len(jobs[0].Slots) != 2 {
			t.Errorf("the engine holds %+v, error %v; want one job of 2 slots", jobs, err)
		}
	})
}

// Pods of others keep a group off some nodes, each pod in
// another way. The group is placed on the other nodes.
func TestAGroupIsPlacedInSpiteOfManyRejections(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 8)
		r.node("n2", 8)
		var lists [][]string
		for i := range 200 { // more selectors than are distinguished
			lists = append(lists, []string{fmt.Sprint(i)})
		}
		there := objects.KeepingOff("there", lists...)
		there.Spec.SchedulerName, there.Spec.NodeName = "default-scheduler", "n1"
		r.add(there)
		r.podGroupAPI.put(aPodGroup("g", 4, "pg"))
		for i := range 4 {
			r.pod(fmt.Sprint("g-", i), objects.InGroup("g"), func(p *corev1.Pod) { p.Labels[batchv1.JobCompletionIndexAnnotation] = fmt.Sprint(i) })
		}
		r.schedule()
		if got := r.placedSoon(4); got["n2"] != 4 {
			t.Errorf("pods by node: %v, want all on n2", got)
		}
	})
}

// Hundreds of pods over three zones take one round of the filters, not hundreds.
func TestAWideSpreadIsVerifiedInOneRound(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		const pods = 400
		for i := range pods {
			r.node(fmt.Sprintf("n%03d", i), 1, objects.InZone(string(rune('a'+3*i/pods))))
		}
		r.pass(settleTime)
		r.gang(pods, pods, objects.OfApp("x"), objects.SpreadOver(objects.ZoneKey, "x", 1))
		r.schedule()
		r.pass(settleTime)
		if got := len(r.assigned()); got != pods {
			t.Errorf("%d pods have nodes, want all %d: %s", got, pods, r.message())
		}
	})
}
