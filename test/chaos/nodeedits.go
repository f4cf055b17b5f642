package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type cordon struct {
	Victim uint32
	Cordon bool
}

func (c cordon) String() string { return fmt.Sprintf("node %d", c.Victim) }

func (c cordon) do(ctx context.Context, r *run) error {
	if c.Cordon && r.closed() > r.cfg.Nodes/3 {
		c.Cordon = false
	}
	n := r.nodeVictim(c.Victim, func(n *corev1.Node) bool { return n.Spec.Unschedulable != c.Cordon })
	if n == nil {
		return nil
	}
	return r.patchNode(ctx, n.Name, map[string]any{"spec": map[string]any{"unschedulable": c.Cordon}})
}

type taint struct {
	Victim uint32
	Taint  bool
	// Evict also evicts the pods that run on the node.
	Evict bool
}

func (t taint) String() string { return fmt.Sprintf("node %d evict=%t", t.Victim, t.Evict) }

func (t taint) do(ctx context.Context, r *run) error {
	if t.Taint && r.closed() > r.cfg.Nodes/3 {
		t.Taint = false
	}
	n := r.nodeVictim(t.Victim, func(n *corev1.Node) bool { return tainted(n) != t.Taint })
	if n == nil {
		return nil
	}
	effect := corev1.TaintEffectNoSchedule
	if t.Evict {
		effect = corev1.TaintEffectNoExecute
	}
	return r.try(ctx, func(ctx context.Context) error {
		node, err := r.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintKey })
		if t.Taint {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taintKey, Effect: effect})
		}
		_, err = r.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

type resizeNode struct {
	Victim uint32
	// Percent is the percentage of the capacity that becomes allocatable.
	Percent int
}

func (s resizeNode) String() string { return fmt.Sprintf("node %d to %d%%", s.Victim, s.Percent) }

func (s resizeNode) do(ctx context.Context, r *run) error {
	n := r.nodeVictim(s.Victim, nil)
	if n == nil {
		return nil
	}
	milli := n.Status.Capacity.Cpu().MilliValue() * int64(s.Percent) / 100
	mem := n.Status.Capacity.Memory().Value() / 100 * int64(s.Percent)
	return r.patchAllocatable(ctx, n.Name, map[string]any{
		"cpu": fmt.Sprintf("%dm", milli), "memory": strconv.FormatInt(mem, 10),
	})
}

func (r *run) patchAllocatable(ctx context.Context, name string, list map[string]any) error {
	return r.patchNode(ctx, name, map[string]any{"status": map[string]any{"allocatable": list}}, "status")
}

// gpus is a device plugin that starts late, or whose devices fail.
type gpus struct {
	Victim uint32
	Count  int
}

func (g gpus) String() string { return fmt.Sprintf("node %d to %d", g.Victim, g.Count) }

func (g gpus) do(ctx context.Context, r *run) error {
	n := r.nodeVictim(g.Victim, nil)
	if n == nil {
		return nil
	}
	return r.patchAllocatable(ctx, n.Name, map[string]any{string(gpu): strconv.Itoa(g.Count)})
}

// notReady makes a node's kubelet report that it is not
// ready. The simulated kubelet reports otherwise soon after.
type notReady struct{ Victim uint32 }

func (n notReady) String() string { return fmt.Sprintf("node %d", n.Victim) }

func (n notReady) do(ctx context.Context, r *run) error {
	node := r.nodeVictim(n.Victim, nil)
	if node == nil {
		return nil
	}
	return r.try(ctx, func(ctx context.Context) error {
		node, err := r.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
				c.Status, c.Reason, c.Message = corev1.ConditionFalse, "Chaos", "the kubelet says no"
				c.LastTransitionTime = metav1.Now()
			}
		}
		_, err = r.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

type zone struct {
	Victim uint32
	Zone   int
	// Rack is the rack that the node moves to. The number after the last rack
	// takes the node out of all racks. A greater number changes nothing.
	Rack int
}

func (z zone) String() string { return fmt.Sprintf("node %d to %d, rack %d", z.Victim, z.Zone, z.Rack) }

func (z zone) do(ctx context.Context, r *run) error {
	n := r.nodeVictim(z.Victim, nil)
	if n == nil {
		return nil
	}
	labels := map[string]any{corev1.LabelTopologyZone: zoneName(z.Zone)}
	switch {
	case z.Rack < racks:
		labels[rackLabel] = rackName(z.Rack)
	case z.Rack == racks:
		labels[rackLabel] = nil
	}
	return r.patchNode(ctx, n.Name, map[string]any{"metadata": map[string]any{"labels": labels}})
}

// restoreNodes undoes all changes that keep pods from nodes.
func (r *run) restoreNodes(ctx context.Context) error {
	var nodes *corev1.NodeList
	err := r.try(ctx, func(ctx context.Context) (err error) {
		nodes, err = r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		taints := slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintKey })
		if err := r.patchNode(ctx, n.Name, map[string]any{"spec": map[string]any{"unschedulable": false, "taints": taints}}); err != nil {
			return fmt.Errorf("restore node %s: %w", n.Name, err)
		}
		list := map[string]any{}
		for name, q := range n.Status.Capacity {
			list[string(name)] = q.String()
		}
		if err := r.patchAllocatable(ctx, n.Name, list); err != nil {
			return fmt.Errorf("restore node %s: %w", n.Name, err)
		}
	}
	return nil
}
