package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/cluster"
)

// zones is the number of zones.
const zones = 3

// taintKey is the key of the taints that come and go.
const taintKey = "chaos"

func zoneName(n int) string { return fmt.Sprintf("zone-%d", n) }

func nodeName(n int) string { return fmt.Sprintf("node-%04d", n) }

// nodeShape is the resources and the zone of a node.
type nodeShape struct {
	CPU, GiB, GPUs, Zone int
}

func drawShape(d *dice) nodeShape {
	s := nodeShape{CPU: oneOf(d, 8, 12, 16), GiB: oneOf(d, 32, 64), Zone: d.IntN(zones)}
	if d.chance(30) {
		s.GPUs = 4
	}
	return s
}

// firstShape returns the shape of the i-th node at the beginning.
func firstShape(i int) nodeShape {
	s := nodeShape{CPU: []int{8, 12, 16}[i%3], GiB: 32, Zone: i / 3 % zones}
	if i%4 == 0 {
		s.GPUs = 4
	}
	return s
}

func (s nodeShape) allocatable() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(s.CPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(s.GiB)<<30, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	if s.GPUs > 0 {
		list[gpu] = *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)
	}
	return list
}

// firstNodes returns the nodes at the beginning.
func firstNodes(n int) cluster.Nodes {
	return cluster.Nodes{
		Count: n,
		Name:  nodeName,
		Edit: func(i int, node *corev1.Node) {
			s := firstShape(i)
			node.Status.Allocatable = s.allocatable()
			node.Status.Capacity = s.allocatable()
			node.Labels[corev1.LabelTopologyZone] = zoneName(s.Zone)
			putInRack(node.Labels, i/9%(racks+1))
		},
	}
}

type addNode struct {
	Number uint32
	Shape  nodeShape
}

func (a addNode) String() string { return fmt.Sprintf("%d %+v", a.Number, a.Shape) }

func (a addNode) do(ctx context.Context, r *run) error {
	names := r.view.nodeNames()
	if len(names) >= r.cfg.Nodes+r.cfg.Nodes/6+1 {
		return removeNode{Victim: a.Number}.do(ctx, r)
	}
	// Reuse a name of an earlier node, if one is free.
	span := r.cfg.Nodes + r.cfg.Nodes/6 + 2
	n := int(a.Number) % span
	for slices.Contains(names, nodeName(n)) {
		n = (n + 1) % span
	}
	name := nodeName(n)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:     name,
			corev1.LabelOSStable:     "linux",
			corev1.LabelArchStable:   "amd64",
			corev1.LabelTopologyZone: zoneName(a.Shape.Zone),
		}},
		Status: corev1.NodeStatus{Allocatable: a.Shape.allocatable(), Capacity: a.Shape.allocatable()},
	}
	putInRack(node.Labels, int(a.Number)%(racks+1))
	return r.try(ctx, func(ctx context.Context) error {
		_, err := r.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

type removeNode struct{ Victim uint32 }

func (n removeNode) String() string { return fmt.Sprintf("node %d", n.Victim) }

func (n removeNode) do(ctx context.Context, r *run) error {
	names := r.view.nodeNames()
	if len(names) <= r.cfg.Nodes*3/4 {
		r.stats.moot.Add(1)
		return nil
	}
	name := names[int(n.Victim)%len(names)]
	return r.try(ctx, func(ctx context.Context) error {
		return r.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// nodeVictim returns a suitable node by number, or nil if no node suits.
func (r *run) nodeVictim(n uint32, suits func(*corev1.Node) bool) *corev1.Node {
	var all []*corev1.Node
	for _, name := range r.view.nodeNames() {
		if node := r.view.node(name); node != nil && (suits == nil || suits(node)) {
			all = append(all, node)
		}
	}
	if len(all) == 0 {
		r.stats.moot.Add(1)
		return nil
	}
	return all[int(n)%len(all)]
}

// closed returns the number of nodes that take no pods.
func (r *run) closed() int {
	n := 0
	for _, name := range r.view.nodeNames() {
		if node := r.view.node(name); node != nil && (node.Spec.Unschedulable || tainted(node)) {
			n++
		}
	}
	return n
}

func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintKey })
}

// patchNode changes a node by a merge patch.
func (r *run) patchNode(ctx context.Context, name string, patch any, subresources ...string) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	return r.try(ctx, func(ctx context.Context) error {
		_, err := r.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
		return err
	})
}
