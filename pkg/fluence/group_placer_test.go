package fluence

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// nodeOf returns the only node that PreFilter left.
func (r *rig) nodeOf(pod *corev1.Pod) string {
	r.Helper()
	_, result, status := r.preFilter(pod)
	if !status.IsSuccess() || len(result.NodeNames) != 1 {
		r.Fatalf("PreFilter of %s: %v %q, nodes %v; want one node", pod.Name, status.Code(), status.Message(), result)
	}
	return result.NodeNames.UnsortedList()[0]
}

func TestOneMatchAsksForAllPodsOfAGroup(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.podGroupAPI.put(aPodGroup(g.Name, 3, "pg"))
		pods := []*corev1.Pod{
			r.pod("g-0", objects.InGroup(g.Name)),
			r.pod("g-1", objects.InGroup(g.Name), objects.CPU("4")),
			r.pod("g-2", objects.InGroup(g.Name)),
			r.pod("g-3", objects.InGroup(g.Name)),
			r.pod("g-4", objects.InGroup(g.Name), objects.CPU("2")), // beyond the minimum, and of another shape
		}
		r.give("n1", "n1", "n2", "n3")
		var nodes []string
		for _, p := range pods[:4] {
			nodes = append(nodes, r.nodeOf(p))
		}
		// Keys are in the order of shapes, and in each shape the required pods come first.
		if want := []string{"n1", "n3", "n1", "n2"}; !slices.Equal(nodes, want) {
			t.Errorf("nodes = %v, want %v", nodes, want)
		}
		requests := r.matches()
		if len(requests) != 1 {
			r.Fatalf("%d matches, want one for all", len(requests))
		}
		want := match.Request{
			Epoch: 1, Op: match.Allocate, ID: requests[0].ID, Now: requests[0].Now, Policy: match.PolicyLonode, Holder: "ns/g",
			Keys: []string{"g-0", "g-2", "g-3", "g-1"},
			Jobspec: translate.Jobspec([]translate.ShapeRequest{
				{Label: "shape0", Amounts: translate.Amounts{"core": 1000, "pods": 1}, Min: 2, Max: 3},
				{Label: "shape1", Amounts: translate.Amounts{"core": 4000, "pods": 1}, Min: 1, Max: 1},
			}),
		}
		if diff := cmp.Diff(want, requests[0]); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		if requests[0].ID == 0 || !requests[0].Now.Equal(time.Now()) {
			t.Errorf("job %d at %v, want a job of its own at %v", requests[0].ID, requests[0].Now, time.Now())
		}
	})
}

func TestPodsForDifferentNodesAreDifferentShapes(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		for _, zone := range []string{"a", "b"} {
			r.node("n-"+zone, 8, func(n *corev1.Node) { n.Labels["zone"] = zone })
		}
		r.podGroupAPI.put(aPodGroup(g.Name, 2, "pg"))
		inZone := func(zone string) func(*corev1.Pod) {
			return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": zone} }
		}
		first := r.pod("g-0", objects.InGroup(g.Name), inZone("a"))
		r.pod("g-1", objects.InGroup(g.Name), inZone("b"))
		r.give("n-a", "n-b")
		r.nodeOf(first)
		requests := r.matches()
		if len(requests) != 1 || len(requests[0].Jobspec.Resources) != 2 {
			r.Fatalf("requests = %+v, want one for two shapes", requests)
		}
		for label, hosts := range map[string][]string{"shape0": {"n-b"}, "shape1": {"n-a"}} {
			got := requests[0].Jobspec.Attributes.System.Fluence[label].Constraints
			if diff := cmp.Diff(matchtest.Not(matchtest.Hosts(hosts...)), got); diff != "" {
				t.Errorf("constraint of %s (-want +got):\n%s", label, diff)
			}
		}
	})
}

func TestALateMemberIsMatchedAloneNearItsSiblings(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 8)
		r.podGroupAPI.put(aPodGroup(g.Name, 2, "pg"))
		r.pod("g-0", objects.InGroup(g.Name), objects.OnNode("n1"))
		late := r.pod("g-1", objects.InGroup(g.Name))
		r.give("n2")
		if got := r.nodeOf(late); got != "n2" {
			t.Errorf("node = %s, want n2", got)
		}
		if got := r.matches()[0]; !slices.Equal(got.Keys, []string{"g-1"}) || !slices.Equal(got.Near, []string{"n1"}) {
			t.Errorf("the match asked for %v near %v, want g-1 near n1", got.Keys, got.Near)
		}
	})
}

func TestALateMemberOfAnArrayNeedNotBeNearItsSiblings(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		array := func(p *corev1.Pod) { p.Annotations = map[string]string{group.ArrayAnnotation: "true"} }
		r.node("n1", 8)
		r.podGroupAPI.put(aPodGroup(g.Name, 1, "pg"))
		r.pod("g-0", objects.InGroup(g.Name), objects.OnNode("n1"), array)
		late := r.pod("g-1", objects.InGroup(g.Name), array)
		r.give("n2")
		if got := r.nodeOf(late); got != "n2" {
			t.Errorf("node = %s, want n2", got)
		}
		if got := r.matches()[0]; !slices.Equal(got.Keys, []string{"g-1"}) || len(got.Near) > 0 {
			t.Errorf("the match asked for %v near %v, want g-1 near none", got.Keys, got.Near)
		}
	})
}

func TestExpiredAssignmentsAreRevoked(t *testing.T) {
	cases := map[string]struct {
		own  int32 // scheduleTimeoutSeconds
		want time.Duration
	}{
		"after the time in the arguments":   {want: time.Minute},
		"after the time of the group's own": {own: 5, want: 5 * time.Second},
		"after the longest time there is":   {own: math.MaxInt32, want: 15 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				pg := aPodGroup(g.Name, 2, "pg")
				if tc.own > 0 {
					pg.Spec.ScheduleTimeoutSeconds = &tc.own
				}
				r.podGroupAPI.put(pg)
				pods := []*corev1.Pod{r.pod("g-0", objects.InGroup(g.Name)), r.pod("g-1", objects.InGroup(g.Name))}
				r.give("n1", "n1")
				r.nodeOf(pods[0])
				r.pass(tc.want - time.Millisecond)
				if got := r.matcherFake.Calls(matchtest.Release); len(got) != 0 {
					t.Errorf("released before the deadline: %+v", got)
				}
				r.pass(time.Millisecond + tick)
				got := r.matcherFake.Calls(matchtest.Release)
				if len(got) != 1 || got[0].ID != r.matches()[0].ID || len(got[0].Keys) != 2 {
					t.Errorf("released %+v, want both seats", got)
				}
			})
		})
	}
}

func TestFilterLetsTheMatchedNodePassAlone(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		for _, n := range []string{"n1", "n2"} {
			r.node(n, 8)
		}
		r.give("n2")
		state, _, _ := r.preFilter(r.pod("lone"))
		nodes, err := r.snapshot.NodeInfos().List()
		if err != nil || len(nodes) != 2 {
			r.Fatalf("nodes = %v, %v", nodes, err)
		}
		for _, n := range nodes {
			want := fwk.UnschedulableAndUnresolvable
			if n.Node().Name == "n2" {
				want = fwk.Success
			}
			if got := r.pl.Filter(r.ctx, state, nil, n).Code(); got != want {
				t.Errorf("Filter of %s = %v, want %v", n.Node().Name, got, want)
			}
			empty := schedulerframework.NewCycleState()
			if got := r.pl.Filter(r.ctx, empty, nil, n).Code(); got != fwk.UnschedulableAndUnresolvable {
				t.Errorf("Filter of %s without a match = %v", n.Node().Name, got)
			}
		}
	})
}
