package chaos

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// nominate creates a pod that another scheduler has nominated
// to a node, such as a preemptor whose victims have yet to end.
type nominate struct {
	Victim   uint32
	MilliCPU int
	Priority int32
}

func drawNominate(d *dice) Action {
	return nominate{Victim: d.Uint32(), MilliCPU: oneOf(d, 500, 2000, 6000), Priority: oneOf[int32](d, -10, 0, 10, 100)}
}

func (n nominate) String() string {
	return fmt.Sprintf("%dm of priority %d to node %d", n.MilliCPU, n.Priority, n.Victim)
}

func (n nominate) do(ctx context.Context, r *run) error {
	node := r.nodeVictim(n.Victim, nil)
	if node == nil {
		return nil
	}
	r.mu.Lock()
	r.serial++
	pod := foreign(fmt.Sprintf("nominated-%d", r.serial), int64(n.MilliCPU))
	r.mu.Unlock()
	pod.Spec.PriorityClassName = priorityClass(n.Priority)
	r.remember(foreignPod{name: pod.Name, nominated: true})
	if err := r.createPods(ctx, foreignNamespace, []*corev1.Pod{pod}); err != nil {
		return err
	}
	return r.patchPod(ctx, foreignNamespace, pod.Name, fmt.Appendf(nil, `{"status":{"nominatedNodeName":%q}}`, node.Name), "status")
}

type withdraw struct {
	Victim uint32
	// Delete deletes the pod, otherwise only its nomination is removed.
	Delete bool
}

func (w withdraw) String() string { return fmt.Sprintf("nomination %d delete=%t", w.Victim, w.Delete) }

func (w withdraw) do(ctx context.Context, r *run) error {
	all := r.forget(w.Victim, 1, true)
	if len(all) == 0 {
		r.stats.moot.Add(1)
		return nil
	}
	name := all[0].name
	if w.Delete {
		return r.deletePod(ctx, name)
	}
	r.remember(foreignPod{name: name})
	return r.patchPod(ctx, foreignNamespace, name, []byte(`{"status":{"nominatedNodeName":null}}`), "status")
}
