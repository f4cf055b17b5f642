package fluence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/objects"
)

// TestAReasonNamesTheConstraint has groups that a constraint keeps waiting, and not what others use.
func TestAReasonNamesTheConstraint(t *testing.T) {
	fill := func(r *rig, nodes ...string) {
		for _, n := range nodes {
			r.pod("on-"+n, objects.CPU("2"), objects.OnNode(n))
		}
	}
	onOneNode := annotated(group.TopologyRequiredAnnotation, "node")
	awayFromRacks := func(p *corev1.Pod) {
		objects.AwayFrom("x")(p)
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = "rack"
	}
	cases := map[string]struct {
		others func(r *rig)
		pods   int
		edits  []func(*corev1.Pod)
		want   string
	}{
		"a spread over racks of which one is full": {
			others: func(r *rig) { r.racks(4, 8, 2); fill(r, "n000", "n004") },
			pods:   8, edits: []func(*corev1.Pod){objects.OfApp("x"), objects.SpreadOver("rack", "x", 1)},
			want: "NoRoom: needs 8 pods; room for 3: spread over rack, maxSkew 1: r0 has room for 0, so at most 1 in each of the 4",
		},
		"more pods than nodes, at most one to a node": {
			others: func(r *rig) { r.racks(1, 3, 2) },
			pods:   4, edits: []func(*corev1.Pod){objects.OfApp("x"), objects.AwayFrom("x")},
			want: "NeverFits: needs 4 pods; the nodes could hold 3 if they were empty: at most one to a node (podAntiAffinity on kubernetes.io/hostname), 3 nodes",
		},
		"at most one to a node, and nodes are full": {
			others: func(r *rig) { r.racks(1, 4, 2); fill(r, "n000") },
			pods:   4, edits: []func(*corev1.Pod){objects.OfApp("x"), objects.AwayFrom("x")},
			want: "NoRoom: needs 4 pods with cpu 1; room for 3: at most one to a node (podAntiAffinity on kubernetes.io/hostname), room on 3 of 4 nodes; cpu is short on 1 of 4 nodes (0 free); room for 1 more if pod ns/on-n000 ends",
		},
		"a host port": {
			others: func(r *rig) { r.racks(1, 3, 4) },
			pods:   4, edits: []func(*corev1.Pod){objects.HostPort(8080)},
			want: "NeverFits: needs 4 pods; the nodes could hold 3 if they were empty: at most one to a node (host port 8080), 3 nodes",
		},
		"all beside each other": {
			others: func(r *rig) { r.racks(2, 4, 2); fill(r, "n000", "n001") },
			pods:   4, edits: []func(*corev1.Pod){objects.OfApp("x"), objects.NextTo("rack", "x")},
			want: "NoRoom: needs 4 pods with cpu 1; room for 2: all in one domain (podAffinity on rack), r0 has room for 2; cpu is short on 1 of 2 nodes (0 free); room for 2 more if pod ns/on-n000 ends; of 4 nodes, 2 are excluded",
		},
		"nodes without the resource do not count as short of it": {
			others: func(r *rig) {
				r.node("cpu0", 4)
				r.node("cpu1", 4)
				for _, n := range []string{"gpu0", "gpu1"} {
					r.node(n, 4, objects.Having("cpu", "4", "pods", "110", "example.com/gpu", "1"))
					r.pod("on-"+n, objects.Asking("example.com/gpu", "1"), objects.OnNode(n))
				}
			},
			pods: 2, edits: []func(*corev1.Pod){objects.Asking("example.com/gpu", "1")},
			want: "NoRoom: needs 2 pods with example.com/gpu 1; room for 0: both nodes with example.com/gpu are full; room for 1 more if pod ns/on-gpu0 ends",
		},
		"no node has the resource": {
			others: func(r *rig) { r.racks(1, 2, 2) },
			pods:   2, edits: []func(*corev1.Pod){objects.Asking("example.com/gpu", "1")},
			want: "NeverFits: no node is large enough: no node has example.com/gpu",
		},
		"too many pods for an empty cluster": {
			others: func(r *rig) { r.racks(1, 2, 2); fill(r, "n000") },
			pods:   5,
			want:   "NeverFits: needs 5 pods with cpu 1; the nodes could hold 4 if they were empty: cpu is not enough for all pods (at most 2 on a node)",
		},
		"the domains with room at present are no matter of an empty cluster": {
			others: func(r *rig) { r.racks(4, 4, 2); fill(r, "n000", "n001") },
			pods:   3, edits: []func(*corev1.Pod){onOneNode, objects.OfApp("x"), awayFromRacks},
			want: "NeverFits: needs 3 pods in one node; node n000 could hold 1 if it were empty",
		},
		"what others use is no matter of the anti-affinity": {
			others: func(r *rig) { r.racks(1, 2, 2); fill(r, "n000", "n001") },
			pods:   2, edits: []func(*corev1.Pod){objects.OfApp("x"), objects.AwayFrom("x")},
			want: "NoRoom: needs 2 pods with cpu 1; room for 0: none of the 2 nodes has free cpu; room for 1 more if pod ns/on-n001 ends",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				tc.others(r)
				r.pass(time.Second)
				r.schedule()
				r.gang(int32(tc.pods), tc.pods, tc.edits...)
				r.pass(4 * time.Second)
				if got := r.condition(); got != tc.want {
					t.Errorf("the group says\n%s\nwant\n%s", got, tc.want)
				}
			})
		})
	}
}

// TestAReasonNamesTheDomainThatTheGroupMustStayIn has a late member whose siblings are on a full node. The
// nodes elsewhere are not counted as excluded, because the domain explains them.
func TestAReasonNamesTheDomainThatTheGroupMustStayIn(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n0", 2)
		r.node("n1", 8)
		r.schedule()
		onOneNode := annotated(group.TopologyRequiredAnnotation, "node")
		r.gang(2, 2, onOneNode)
		r.placedSoon(2)
		r.pod("g-2", objects.InGroup(g.Name), onOneNode)
		r.pass(5 * time.Second)
		const want = "needs 1 pod with cpu 1; room for 0: must stay in n0, where its 2 other pods run; cpu is short on 1 of 1 node (0 free)"
		if got := r.podMessage("g-2"); !strings.Contains(got, want) {
			t.Errorf("the pod says\n%s\nwant\n%s", got, want)
		}
	})
}
