package chaos

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// nodeNames returns the names of all nodes, in order.
func (v *view) nodeNames() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.nodes))
}

// node returns a node as it was last seen. It returns nil for an unknown one.
func (v *view) node(name string) *corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nodes[name]
}

// room returns the free CPU, in thousandths, of each node that takes pods.
func (v *view) room() map[string]int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	free := map[string]int64{}
	for name, n := range v.nodes {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			continue
		}
		used := v.used[name]
		free[name] = n.Status.Allocatable.Cpu().MilliValue() - used.Cpu().MilliValue()
	}
	return free
}

// podsOf returns the pods of a workload that have no deletion timestamp, by name.
func (v *view) podsOf(namespace, workload string) []*corev1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	var pods []*corev1.Pod
	for _, p := range v.members[namespace+"/"+workload] {
		if p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// count returns the number of pods for which a function returns true.
func (v *view) count(ask func(*corev1.Pod) bool) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, p := range v.pods {
		if ask(p) {
			n++
		}
	}
	return n
}

// until waits for a change after which done is true.
func (v *view) until(ctx context.Context, done func() bool) error {
	for {
		v.mu.Lock()
		changed := v.changed
		v.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
