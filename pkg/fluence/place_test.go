package fluence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// unpredictableFilter is a filter that no field of a pod predicts. It allows at most one pod on each of some
// nodes. On others it allows none, but only in a pod's own scheduling cycle and not in a probe.
type unpredictableFilter struct {
	one  func(node string) bool
	none func(node string) bool
}

func (*unpredictableFilter) Name() string { return "Grudge" }

func (f *unpredictableFilter) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	if f.one != nil && f.one(name) && len(node.GetPods()) > 0 {
		return fwk.NewStatus(fwk.Unschedulable, "one is enough")
	}
	if _, err := state.Read(assignedNodeKey); err == nil && f.none != nil && f.none(name) {
		return fwk.NewStatus(fwk.Unschedulable, "not when it matters")
	}
	return nil
}

func is(name string) func(string) bool { return func(s string) bool { return s == name } }

func (r *rig) ops() []match.Op {
	var ops []match.Op
	for _, m := range r.matches() {
		ops = append(ops, m.Op)
	}
	return ops
}

func TestRejectedMatchIsRepeatedElsewhere(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.gang(3, 3, objects.OfApp("x"), objects.AwayFrom("nobody"))
		if got := r.placedSoon(3); got["n1"] != 3 {
			t.Errorf("pods by node = %v, want all on n1", got)
		}
		if got, want := r.ops(), []match.Op{match.WithoutAllocating, match.WithoutAllocating, match.Allocate}; !slices.Equal(got, want) {
			t.Errorf("matches = %v, want one repair and one that books", got)
		}
		if got := r.refusals(); got != 0 {
			t.Errorf("%d pods were refused on the way", got)
		}
	}, &unpredictableFilter{one: is("n0")})
}

func TestUnrepairableRejectionNamesPodNodeAndFilter(t *testing.T) {
	e := realEngine(t)
	inRig(t, e, func(r *rig) {
		for i := range 8 {
			r.node(fmt.Sprintf("n%d", i), 2)
		}
		r.pass(settleTime)
		r.schedule()
		verifications, repairs := counted("fluence_verifications_total"), counted("fluence_rematches_total")
		r.gang(16, 16, objects.OfApp("x"), objects.AwayFrom("nobody"))
		r.pass(500 * time.Millisecond)
		if v, n := counted("fluence_verifications_total")-verifications, counted("fluence_rematches_total")-repairs; v != 1 || n != 1 {
			t.Errorf("%v verifications and %v repairs are counted, want 1 each", v, n)
		}
		c := r.podGroupAPI.get(g).Status.Conditions
		if len(c) != 1 || c[0].Reason != reason.NodesRuledOut || !strings.Contains(c[0].Message, "was rejected on node n0 by Grudge: one is enough") {
			t.Errorf("conditions = %+v, want %s with pod, node and filter", c, reason.NodesRuledOut)
		}
		if got := len(r.matches()); got > 4 { // the first, and three rematches
			t.Errorf("%d matches in one attempt, want %d at the most", got, 4)
		}
		// The reason stays the same over several attempts.
		r.pass(10 * time.Minute)
		if c := r.podGroupAPI.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.NodesRuledOut {
			t.Errorf("conditions = %+v, want %s", c, reason.NodesRuledOut)
		}
		r.wantAssigned(nil)
		if jobs, err := e.Jobs(r.ctx, r.pl.inventory.Epoch()); err != nil || len(jobs) != 0 {
			t.Errorf("the engine holds %+v, error %v; want nothing", jobs, err)
		}
	}, &unpredictableFilter{one: func(string) bool { return true }})
}

func TestNodeRejectedInTheCycleIsExcluded(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.pass(time.Second) // until all parts have seen the nodes
		r.schedule()
		r.gang(2, 2, objects.OfApp("x"), objects.AwayFrom("nobody"))
		r.pass(5 * time.Second)
		if got := r.perNode(); got["n1"] != 2 {
			t.Errorf("pods by node = %v, want both on n1", got)
		}
		booked := 0
		for _, op := range r.ops() {
			if op == match.Allocate {
				booked++
			}
		}
		if booked != 2 {
			t.Errorf("%d matches were booked, want the one that was refused and the one after it", booked)
		}
	}, &unpredictableFilter{none: is("n0")})
}

func TestMoreThanTheMinimumIsSpreadAsFarAsItGoes(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2, objects.InZone("a"))
		r.node("n1", 8, objects.InZone("b"))
		r.schedule()
		r.podGroupAPI.put(aPodGroup(g.Name, 4, "pg"))
		for i := range 6 {
			r.pod(fmt.Sprintf("g-%d", i), objects.InGroup(g.Name), objects.OfApp("x"), objects.SpreadOver(objects.ZoneKey, "x", 1))
		}
		r.pass(5 * time.Second)
		// At most three may be in b with two in a.
		if got := r.perNode(); got["n0"] != 2 || got["n1"] != 3 {
			t.Errorf("pods by node = %v, want 2 and 3", got)
		}
	})
}

func TestLateMembersOfABoundGroupComeToItsDomain(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2)
		r.node("n1", 8)
		r.schedule()
		bound := func(p *corev1.Pod) { p.Annotations = map[string]string{group.TopologyRequiredAnnotation: "node"} }
		r.gang(2, 2, bound)
		r.placedSoon(2)
		r.pod("g-2", objects.InGroup(g.Name), bound)
		r.pass(5 * time.Second)
		if got := r.perNode(); len(got) != 1 || got["n0"] != 2 {
			t.Fatalf("pods by node = %v, want the late one to wait beside its siblings on n0", got)
		}
		r.remove("g-1")
		r.pass(5 * time.Second)
		if got := r.perNode(); len(got) != 1 || got["n0"] != 2 {
			t.Errorf("pods by node = %v, want the late one on n0", got)
		}
	})
}
