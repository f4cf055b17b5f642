package translate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/objects"
)

var zoneAndRack = []Level{{Type: "zone", Key: "topology.kubernetes.io/zone"}, {Type: "rack", Key: "example.com/rack"}}

func nodeWith(labels map[string]string, allocatable ...string) *corev1.Node {
	return objects.ReadyNode("n1", 0, objects.Having(allocatable...), func(n *corev1.Node) { n.Labels = labels })
}

// paths renders the graph as lines of path, type, size and unit.
func paths(g *resource.Graph) string {
	var b strings.Builder
	for _, v := range g.Vertices {
		b.WriteString(strings.Join([]string{v.Path, v.Type, quantity(v.Unit, v.Size)}, " ") + "\n")
	}
	return b.String()
}

func TestNode(t *testing.T) {
	cases := map[string]struct {
		labels      map[string]string
		allocatable []string
		levels      []Level
		want        string
	}{
		"without levels the node stands below the cluster": {
			allocatable: []string{"cpu", "4", "memory", "8Gi", "pods", "110"},
			want: `
/cluster0 cluster 1
/cluster0/n1 node 1
/cluster0/n1/core0 core 4
/cluster0/n1/memory0 memory 8Gi
/cluster0/n1/pods0 pods 110
`,
		},
		"levels stand between, named by the labels' values": {
			labels:      map[string]string{"topology.kubernetes.io/zone": "eu-1a", "example.com/rack": "r7", "other": "x"},
			allocatable: []string{"cpu", "4", "memory", "8Gi", "pods", "110"},
			levels:      zoneAndRack,
			want: `
/cluster0 cluster 1
/cluster0/eu-1a zone 1
/cluster0/eu-1a/r7 rack 1
/cluster0/eu-1a/r7/n1 node 1
/cluster0/eu-1a/r7/n1/core0 core 4
/cluster0/eu-1a/r7/n1/memory0 memory 8Gi
/cluster0/eu-1a/r7/n1/pods0 pods 110
`,
		},
		"a node without a label stands apart, and so does one with an empty label": {
			labels:      map[string]string{"topology.kubernetes.io/zone": ""},
			allocatable: []string{"cpu", "4", "memory", "8Gi", "pods", "110"},
			levels:      zoneAndRack,
			want: `
/cluster0 cluster 1
/cluster0/_none zone 1
/cluster0/_none/_none rack 1
/cluster0/_none/_none/n1 node 1
/cluster0/_none/_none/n1/core0 core 4
/cluster0/_none/_none/n1/memory0 memory 8Gi
/cluster0/_none/_none/n1/pods0 pods 110
`,
		},
		"empty pools are there, and those that every pod needs in any case": {
			allocatable: []string{"nvidia.com/gpu", "0", "hugepages-2Mi", "0"},
			want: `
/cluster0 cluster 1
/cluster0/n1 node 1
/cluster0/n1/core0 core 0
/cluster0/n1/hugepages-2Mi0 hugepages-2Mi 0
/cluster0/n1/memory0 memory 0
/cluster0/n1/nvidia.com:gpu0 nvidia.com/gpu 0
/cluster0/n1/pods0 pods 0
`,
		},
		"every resource is a pool": {
			allocatable: []string{"cpu", "3920m", "memory", "1Gi", "pods", "250", "ephemeral-storage", "10Gi", "nvidia.com/gpu", "8"},
			want: `
/cluster0 cluster 1
/cluster0/n1 node 1
/cluster0/n1/core0 core 3920m
/cluster0/n1/ephemeral-storage0 ephemeral-storage 10Gi
/cluster0/n1/memory0 memory 1Gi
/cluster0/n1/nvidia.com:gpu0 nvidia.com/gpu 8
/cluster0/n1/pods0 pods 250
`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := Node(nodeWith(tc.labels, tc.allocatable...), tc.levels)
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), paths(g)); diff != "" {
				t.Errorf("Node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheEdgesOfANodeFollowItsPaths(t *testing.T) {
	g := Node(nodeWith(nil, "cpu", "1", "nvidia.com/gpu", "1"), zoneAndRack)
	if len(g.Edges) != len(g.Vertices)-1 {
		t.Fatalf("%d vertices have %d edges", len(g.Vertices), len(g.Edges))
	}
	for n, e := range g.Edges {
		parent, child := g.Vertices[e.Source], g.Vertices[e.Target]
		if want := parent.Path + "/" + child.Name; child.Path != want || e.Target != n+1 {
			t.Errorf("edge %d leads from %v to %v", n, parent.Paths, child.Paths)
		}
		if child.UniqID != int64(e.Target) {
			t.Errorf("vertex %s has the number %d, want %d", child.Name, child.UniqID, e.Target)
		}
	}
}

func TestPropertiesOfANodeAreItsTopologyLabels(t *testing.T) {
	node := nodeWith(map[string]string{"example.com/rack": "r7", "kubernetes.io/hostname": "n1"})
	want := map[string]map[string]string{resource.TypeNode: {"example.com/rack": "r7"}}
	got := map[string]map[string]string{}
	for _, v := range Node(node, zoneAndRack).Vertices {
		if v.Properties != nil {
			got[v.Type] = v.Properties
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("properties by type (-want +got):\n%s", diff)
	}
}

func TestStatusOfANode(t *testing.T) {
	ready := func(s corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: s}}
	}
	cases := map[string]struct {
		change func(*corev1.Node)
		want   resource.Status
	}{
		"ready":                       {func(n *corev1.Node) { n.Status.Conditions = ready(corev1.ConditionTrue) }, resource.Up},
		"not ready":                   {func(n *corev1.Node) { n.Status.Conditions = ready(corev1.ConditionFalse) }, resource.Down},
		"silent":                      {func(n *corev1.Node) { n.Status.Conditions = ready(corev1.ConditionUnknown) }, resource.Down},
		"never heard of":              {func(n *corev1.Node) { n.Status.Conditions = nil }, resource.Down},
		"being deleted":               {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, resource.Down},
		"cordoned is for the filters": {func(n *corev1.Node) { n.Spec.Unschedulable = true }, resource.Up},
		"tainted is for the filters": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		}, resource.Up},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := nodeWith(nil)
			tc.change(node)
			for _, v := range Node(node, zoneAndRack).Vertices {
				want := resource.Up
				if v.Type == resource.TypeNode {
					want = tc.want
				}
				if v.Status != want {
					t.Errorf("%s %s has status %d, want %d", v.Type, v.Name, v.Status, want)
				}
			}
		})
	}
}

func TestPools(t *testing.T) {
	got := Pools(Node(nodeWith(nil, "cpu", "2", "memory", "1Gi", "nvidia.com/gpu", "0"), zoneAndRack))
	want := Amounts{"core": 2000, "memory": gi, "nvidia.com/gpu": 0, "pods": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Pools (-want +got):\n%s", diff)
	}
}
