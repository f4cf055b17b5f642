package fluence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A grudge is a filter that nothing of a pod foretells: at most one pod of a group on
// each of some nodes, or, in earnest, none at all on others.
type grudge struct {
	one  func(node string) bool
	none func(node string) bool
}

func (*grudge) Name() string { return "Grudge" }

func (f *grudge) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	name := node.Node().Name
	if f.one != nil && f.one(name) && len(node.GetPods()) > 0 {
		return fwk.NewStatus(fwk.Unschedulable, "one is enough")
	}
	if _, err := state.Read(chosenKey); err == nil && f.none != nil && f.none(name) {
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

func TestAPairThatAFilterRefusesIsMatchedOtherwise(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.schedule()
		r.gang(3, 3, ofApp("x"), awayFrom("nobody"))
		if got := r.placedSoon(3); got["n1"] != 3 {
			t.Errorf("pods by node = %v, want all on n1", got)
		}
		if got, want := r.ops(), []match.Op{match.WithoutAllocating, match.WithoutAllocating, match.Allocate}; !slices.Equal(got, want) {
			t.Errorf("matches = %v, want one repair and one that books", got)
		}
		if got := r.refusals(); got != 0 {
			t.Errorf("%d pods were refused on the way", got)
		}
	}, &grudge{one: is("n0")})
}

func TestWhatNoRoundRepairsIsToldByPodNodeAndFilter(t *testing.T) {
	e := realEngine(t)
	inRig(t, e, func(r *rig) {
		for i := range 8 {
			r.node(fmt.Sprintf("n%d", i), 2)
		}
		r.pass(settleTime)
		r.schedule()
		verifications, repairs := counted("fluence_verifications_total"), counted("fluence_repairs_total")
		r.gang(16, 16, ofApp("x"), awayFrom("nobody"))
		r.pass(500 * time.Millisecond)
		if v, n := counted("fluence_verifications_total")-verifications, counted("fluence_repairs_total")-repairs; v != 1 || n != 1 {
			t.Errorf("%v verifications and %v repairs are counted, want 1 each", v, n)
		}
		c := r.api.get(g).Status.Conditions
		if len(c) != 1 || c[0].Reason != reason.NodesRuledOut || !strings.Contains(c[0].Message, "on node n0 was refused by Grudge: one is enough") {
			t.Errorf("conditions = %+v, want %s with pod, node and filter", c, reason.NodesRuledOut)
		}
		if got := len(r.matches()); got > maxRepairs+1 {
			t.Errorf("%d matches in one enquiry, want %d at the most", got, maxRepairs+1)
		}
		// Also when it asks again and again the reason stays.
		r.pass(10 * time.Minute)
		if c := r.api.get(g).Status.Conditions; len(c) != 1 || c[0].Reason != reason.NodesRuledOut {
			t.Errorf("conditions = %+v, want %s", c, reason.NodesRuledOut)
		}
		r.wantAssigned(nil)
		if jobs, err := e.Jobs(r.ctx, r.pl.inventory.Epoch()); err != nil || len(jobs) != 0 {
			t.Errorf("the engine holds %+v, error %v; want nothing", jobs, err)
		}
	}, &grudge{one: func(string) bool { return true }})
}

func TestANodeThatIsRefusedInEarnestIsNotMatchedAgain(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 8)
		r.node("n1", 8)
		r.pass(time.Second) // for the news of the nodes to be out
		r.schedule()
		r.gang(2, 2, ofApp("x"), awayFrom("nobody"))
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
	}, &grudge{none: is("n0")})
}

func TestMoreThanTheMinimumIsSpreadAsFarAsItGoes(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2, inZone("a"))
		r.node("n1", 8, inZone("b"))
		r.schedule()
		r.api.put(aPodGroup(g.Name, 4, "pg"))
		for i := range 6 {
			r.pod(fmt.Sprintf("g-%d", i), inGroup(g.Name), ofApp("x"), spreadOver(zoneKey, "x", 1))
		}
		r.pass(5 * time.Second)
		// Three in b beside two in a are as many as there may be.
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
		r.pod("g-2", inGroup(g.Name), bound)
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

func TestExclusionsHoldForASetOfMembersUntilAnEvent(t *testing.T) {
	k, shapes := types.NamespacedName{Name: "k"}, map[types.UID]string{"p": "s"}
	var e exclusions
	e.begin(k, "set", shapes)
	e.add(k, "p", "n0", nil, []gang.Event{gang.PodChanged})
	e.add(k, "p", "n1", nil, []gang.Event{gang.NodeChanged})
	e.add(k, "stranger", "n2", nil, []gang.Event{gang.NodeChanged})
	e.add(types.NamespacedName{Name: "other"}, "p", "n3", nil, nil)
	want := func(step string, nodes ...string) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(e.begin(k, "set", shapes)["s"])); !slices.Equal(got, nodes) {
			t.Errorf("%s: excluded %v, want %v", step, got, nodes)
		}
	}
	want("noted", "n0", "n1")
	e.happened(gang.Freed)
	want("an event that changes nothing", "n0", "n1")
	e.happened(gang.PodChanged)
	want("an event for one of them", "n1")
	if got := e.begin(k, "another set", shapes); len(got) != 0 {
		t.Errorf("another set of members: excluded %v, want nothing", got)
	}
	want("the first set again")
}

// An extension is an extender in memory.
type extension struct {
	fwk.Extender
	failed, never extenderv1.FailedNodesMap
	err           error
	ignorable     bool
	indifferent   bool
	asked         [][]string
	// agrees says that it refuses nothing any more.
	agrees atomic.Bool
}

func (*extension) Name() string                    { return "ext" }
func (*extension) IsFilter() bool                  { return true }
func (x *extension) IsIgnorable() bool             { return x.ignorable }
func (x *extension) IsInterested(*corev1.Pod) bool { return !x.indifferent }

func (x *extension) Filter(_ *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	var names []string
	var passed []fwk.NodeInfo
	for _, n := range nodes {
		name := n.Node().Name
		names = append(names, name)
		if _, ok := x.failed[name]; ok && !x.agrees.Load() {
			continue
		}
		if _, ok := x.never[name]; !ok {
			passed = append(passed, n)
		}
	}
	x.asked = append(x.asked, names)
	return passed, x.failed, x.never, x.err
}

func TestExtendersNarrowTheMatch(t *testing.T) {
	busy := func() *extension {
		return &extension{failed: extenderv1.FailedNodesMap{"n1": "busy"}, never: extenderv1.FailedNodesMap{"n2": "wrong kind"}}
	}
	broken := errors.New("connection refused")
	cases := map[string]struct {
		all        []*extension
		late       bool
		never, now []string
		why        map[string]int
		refused    string
		// asked are the nodes that the last one was asked about; nil if it was not.
		asked []string
	}{
		"its words are taken over": {
			all: []*extension{busy()}, never: []string{"n0", "n2"}, now: []string{"n1"}, asked: []string{"n1", "n2", "n3"},
			why: map[string]int{"extender ext: busy": 1, "extender ext: wrong kind": 1},
		},
		"the next is asked about what is left": {
			all: []*extension{busy(), {}}, never: []string{"n0", "n2"}, now: []string{"n1"}, asked: []string{"n3"},
			why: map[string]int{"extender ext: busy": 1, "extender ext: wrong kind": 1},
		},
		"one that does not care is not asked":  {all: []*extension{{indifferent: true}}, never: []string{"n0"}, why: map[string]int{}},
		"after the time of a match none is":    {all: []*extension{busy()}, late: true, never: []string{"n0"}, why: map[string]int{}},
		"an error that may be ignored is":      {all: []*extension{{err: broken, ignorable: true}}, never: []string{"n0"}, why: map[string]int{}, asked: []string{"n1", "n2", "n3"}},
		"an error that may not is told":        {all: []*extension{{err: broken}}, never: []string{"n0"}, why: map[string]int{}, asked: []string{"n1", "n2", "n3"}, refused: "pod p: extender ext: connection refused"},
		"without extenders nothing is changed": {never: []string{"n0"}, why: map[string]int{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := siblingsAmong(t, []*nodeWith{aNode("n0"), aNode("n1"), aNode("n2"), aNode("n3")}, nil, asShape(1))
			at := time.Unix(100, 0)
			e := extenders{now: func() time.Time { return at }, deadline: at.Add(time.Second)}
			if tc.late {
				e.deadline = at.Add(-time.Second)
			}
			for _, x := range tc.all {
				e.all = append(e.all, x)
			}
			out := ruledOut{never: []string{"n0"}, why: map[string]int{}}
			out.filters = out.filters.Union(nil)
			refused := e.narrow(aPod("p"), s.nodes, &out)
			if got := ""; refused != nil {
				if got = refused.Message; got != tc.refused {
					t.Errorf("refused: %q, want %q", got, tc.refused)
				}
			} else if tc.refused != "" {
				t.Errorf("not refused, want %q", tc.refused)
			}
			if !slices.Equal(out.never, tc.never) || !slices.Equal(out.now, tc.now) || !maps.Equal(out.why, tc.why) {
				t.Errorf("never %v, now %v, why %v; want %v, %v, %v", out.never, out.now, out.why, tc.never, tc.now, tc.why)
			}
			if len(tc.all) > 0 {
				var asked []string
				for _, names := range tc.all[len(tc.all)-1].asked {
					asked = append(asked, names...)
				}
				if !slices.Equal(asked, tc.asked) {
					t.Errorf("asked about %v, want %v", asked, tc.asked)
				}
			}
		})
	}
}
