package inventory

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// repair corrects the record of the cluster and the record of the values that were sent, and queues
// the key. Slots of sources are in no ledger, so repair books them here.
func (a *audit) repair(ctx context.Context, d *finding) error {
	if d.subject.node {
		a.inventory.repairNode(d.name, d.node)
		return nil
	}
	a.inventory.repairSlot(types.UID(d.name), d.slot)
	return a.book(ctx, d.slot.fromSources)
}

func (i *Inventory) repairNode(name string, n *nodeSides) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n.cluster == nil {
		i.nodes.drop(name)
	} else {
		i.nodes.set(name, n.cluster, sameNode)
	}
	i.nodes.correct(name, n.engine)
	signal(i.wake)
}

func (i *Inventory) repairSlot(key types.UID, s *slotSides) {
	if s.pod != nil {
		i.setPod(nil, s.pod)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	name := types.NamespacedName{Name: string(key)} // no pod has this name, because it has no namespace
	switch noted := i.pods[key]; {
	case s.pod != nil:
		name = types.NamespacedName{Namespace: s.pod.Namespace, Name: s.pod.Name}
	case noted != nil:
		name = types.NamespacedName{Namespace: noted.Namespace, Name: noted.Name}
		i.unindex(name)
		i.holds.drop(name)
	}
	// Leave out the slots that the engine has because of a source.
	i.holds.correct(name, slices.DeleteFunc(slices.Clone(s.engine), func(h hold) bool {
		return slices.ContainsFunc(s.fromSources, h.sameSlot)
	}))
	signal(i.wake)
}

// queuedSubjects returns the subjects that are queued to be sent or to be rechecked.
func (i *Inventory) queuedSubjects() map[subject]bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	line := make(map[subject]bool, len(i.nodes.queue)+len(i.holds.queue)+len(i.toRecheck))
	for _, name := range i.nodes.queue {
		line[nodeSubject(name)] = true
	}
	for _, name := range i.holds.queue {
		e := i.holds.entries[name]
		for _, h := range slices.Concat(e.mayHave, e.desired) {
			line[slotSubject(h.slot.Key)] = true
		}
	}
	for uid := range i.toRecheck {
		line[slotSubject(string(uid))] = true
	}
	return line
}

// isReleasing reports whether the suspect is a slot that only the engine has, and that the caller
// is about to release. The release may take a while.
func (i *Inventory) isReleasing(s *suspect) bool {
	return s.slot != nil && slices.ContainsFunc(s.slot.engine, func(h hold) bool {
		return !slices.ContainsFunc(s.slot.cluster, h.sameSlot) && i.cfg.IsReleasing(h.job, h.slot.Key)
	})
}
