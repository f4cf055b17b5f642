package gang

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// PutPod takes note of a pod as the API shows it at a time.
func (g Watches) PutPod(pod *corev1.Pod, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := group.Of(pod, g.owners)
	if m := g.members[pod.UID]; m != nil && m.isFreed(pod, id) {
		m.freed = now.Truncate(exactly)
	}
	g.putPod(pod, id)
	return g.output()
}

// exactly is how exact a creation is. Times that are compared with one are no more exact, so that what
// becomes ready together stays in the order of names.
const exactly = time.Second

// isFreed says whether a member waits for room from now on only: its last scheduling gate went, or it
// has come to another group, by its label or by what controls it. To see at last what controls it is no
// change.
func (m *member) isFreed(pod *corev1.Pod, id group.Identity) bool {
	if m.gated() {
		return len(pod.Spec.SchedulingGates) == 0
	}
	if m.group.key == id.Key || id.Unseen != (group.Owner{}) && !id.Named {
		return false
	}
	return m.unseen == (group.Owner{}) || m.pod.Labels[group.Label] != pod.Labels[group.Label]
}

func (g Watches) putPod(pod *corev1.Pod, id group.Identity) {
	m := g.members[pod.UID]
	var left *place
	var freed time.Time
	brought := pod.Spec.NodeName != "" && !isBound(pod)
	// An owner that is gone before its pods takes none of them out of its group.
	known := m != nil && id.Unseen != (group.Owner{}) && !id.Named
	if m != nil && m.group.key != id.Key && !known {
		// The group label was changed, or the owner was seen: the pod leaves one group
		// for another. What it holds on a node it keeps.
		if m.holds() {
			g.take(m)
			m.moves()
			left, m.left = m.left, nil
		}
		g.drop(m)
		if m.holds() {
			g.out.Recheck = append(g.out.Recheck, pod.UID)
		}
		// What its own group placed no other has.
		brought = m.brought || m.holds() && m.unseen == (group.Owner{})
		freed = m.freed
		m = nil
	}
	if m == nil {
		s := g.group(id.Key)
		s.named = s.named || id.Named
		m = &member{group: s, unseen: id.Unseen, brought: brought, freed: freed, successor: successor{left: left}}
		m.take(pod)
		s.members[pod.UID] = m
		g.members[pod.UID] = m
		if m.waits() {
			s.changed()
		}
		if uid := id.Unseen.UID; id.Unseen != (group.Owner{}) {
			if g.unseen[uid] == nil {
				g.unseen[uid] = map[types.UID]*member{}
			}
			g.unseen[uid][pod.UID] = m
		}
	}
	was, waited := m.pod, m.waits()
	m.take(pod)
	if !m.holds() {
		g.gone(m)
	}
	if !known {
		m.gang = id.Named && id.Gang
	}
	if m.seat == nil && (waited || m.waits()) {
		// What was refused may be another request now.
		switch {
		case !maps.Equal(was.Annotations, pod.Annotations):
			m.group.asksElse()
		case waited != m.waits() || was.Generation != pod.Generation || !maps.Equal(was.Labels, pod.Labels):
			m.group.changed()
		}
	}
	m.fault, m.badPolicy = m.examine(), group.ValidPolicy(pod.Annotations[group.MatchPolicyAnnotation])
	switch {
	case m.seat == nil:
	case m.holds() && m.seat.slot.Node != pod.Spec.NodeName:
		// Somebody else bound it. The cluster is right; the seat is free.
		g.out.release(m.seat.job, string(pod.UID))
		g.take(m)
	case terminal(pod) && pod.Spec.NodeName != "":
		// It may have ended before the inventory saw it on its node.
		g.out.release(m.seat.job, string(pod.UID))
		g.take(m)
	case terminal(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		g.unseat(m, "a member of the group was deleted")
	}
	g.settle(m.group)
	g.fence(m.group)
	g.out.wake(m.group.key)
}

// isBound says whether a pod was bound to its node, as the API server says with the bind itself. Of
// one that was created there a node's agent says the same later.
func isBound(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
}

// take takes note of the member's pod as it is now.
func (m *member) take(pod *corev1.Pod) {
	m.pod, m.said = pod, group.SaidOfTopology(pod.Annotations)
}

// examine returns what of the pod's labels and annotations is wrong.
func (m *member) examine() *Refusal {
	said := group.Said(m.pod.Labels, m.pod.Annotations)
	size, err := group.SizeOf(said)
	switch {
	case err != nil:
		return &Refusal{Reason: reason.InvalidGroupSize, Message: err.Error()}
	case !m.group.named && m.unseen == (group.Owner{}) && size.Min > 1:
		return &Refusal{Reason: reason.InvalidGroupSize, Message: fmt.Sprintf("label %s: %q: a pod that nothing controls is a group of one; name a larger one by the label %s", group.SizeLabel, said[group.SizeLabel], group.Label)}
	}
	return nil
}

// OwnerSeen takes note that Owners has come to know an object: the pods that
// waited for it find their group.
func (g Watches) OwnerSeen(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.unseen[uid] {
		g.see(m)
		g.putPod(m.pod, group.Of(m.pod, g.owners))
	}
	return g.output()
}

// DropPod forgets a pod that the API no longer has.
func (g Watches) DropPod(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.forget(uid)
	if m := g.members[uid]; m != nil {
		g.drop(m)
		g.out.wake(m.group.key)
	}
	return g.output()
}

func (g Watches) drop(m *member) {
	if m.seat != nil && m.holds() {
		// It may have gone before the inventory saw it on its node.
		g.out.release(m.seat.job, string(m.pod.UID))
		g.take(m)
	}
	g.unseat(m, "a member of the group was deleted")
	m.vacate()
	g.gone(m)
	if m.waits() {
		m.group.changed()
	}
	delete(m.group.members, m.pod.UID)
	delete(g.members, m.pod.UID)
	g.see(m)
	if m.group.representative == m.pod.UID {
		m.group.representative = ""
	}
	g.settle(m.group)
	if m.group.podGroup == nil {
		g.out.forget(m.group.key)
	}
}

// gone takes note that a member holds the room no more that it had in a place before.
func (g Watches) gone(m *member) {
	p := m.left
	if p == nil {
		return
	}
	m.left = nil
	p.leaving--
	if s := p.of; s != nil {
		s.fresh = append(s.fresh, p)
		if s != m.group {
			g.settle(s)
		}
	}
}
