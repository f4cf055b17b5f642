package inventory

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// heal has the engine brought to where the cluster is: what was noted of the
// cluster is put right first, then what the engine was sent, and the key listed.
// What sources call for stands in no list, and is booked here.
func (a *audit) heal(ctx context.Context, d *finding) error {
	if d.subject.node {
		a.inventory.healNode(d.name, d.node)
		return nil
	}
	a.inventory.healSlot(types.UID(d.name), d.slot)
	return a.charge(ctx, d.slot.called)
}

func (i *Inventory) healNode(name string, n *nodeView) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n.cluster == nil {
		i.nodes.drop(name)
	} else {
		i.nodes.want(name, n.cluster, sameNode)
	}
	i.nodes.correct(name, n.engine)
	signal(i.wake)
}

func (i *Inventory) healSlot(key types.UID, s *slotView) {
	if s.pod != nil {
		i.setPod(s.pod)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	name := types.NamespacedName{Name: string(key)} // no pod has it, for it has no namespace
	switch noted := i.pods[key]; {
	case s.pod != nil:
		name = types.NamespacedName{Namespace: s.pod.Namespace, Name: s.pod.Name}
	case noted != nil:
		name = types.NamespacedName{Namespace: noted.Namespace, Name: noted.Name}
		i.forget(name)
		i.holds.drop(name)
	}
	// Of what the engine has, this is not the sources'.
	i.holds.correct(name, slices.DeleteFunc(slices.Clone(s.has), func(h hold) bool {
		return slices.ContainsFunc(s.called, h.sameSlot)
	}))
	signal(i.wake)
}

// waits reports whether what a difference is about stands in line to be sent.
func (i *Inventory) waits(d finding) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if d.subject.node {
		return i.nodes.waits(d.name)
	}
	if _, ok := i.doubted[types.UID(d.name)]; ok {
		return true
	}
	names := []types.NamespacedName{{Name: d.name}}
	if pod := d.slot.pod; pod != nil {
		names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	if pod := i.pods[types.UID(d.name)]; pod != nil {
		names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	return slices.ContainsFunc(names, i.holds.waits)
}
