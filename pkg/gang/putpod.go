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

// PutPod records a pod as the API shows it now.
func (g Watches) PutPod(pod *corev1.Pod, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := group.IdentityOf(pod, g.owners)
	if m := g.members[pod.UID]; m != nil && m.restartsWait(pod, id) {
		m.waitRestart = now.Truncate(creationPrecision)
	}
	g.putPod(pod, id)
	return g.output()
}

// creationPrecision is the precision of a pod's creation time. Times that are compared with a creation are
// truncated to it, so that groups that become ready together stay in the order of their names.
const creationPrecision = time.Second

// restartsWait reports whether a member begins to wait anew: its last
// scheduling gate went, or it has come to another group because its label
// or its owner changed. To learn its owner for the first time is no change.
func (m *member) restartsWait(pod *corev1.Pod, id group.Identity) bool {
	if m.isGated() {
		return len(pod.Spec.SchedulingGates) == 0
	}
	if m.group.key == id.Key || id.MissingOwner != (group.Owner{}) && !id.InPodGroup {
		return false
	}
	return m.missingOwner == (group.Owner{}) || m.pod.Labels[group.Label] != pod.Labels[group.Label]
}

// putPod records a pod with its identity. It moves the
// pod to another group if the identity has changed.
func (g Watches) putPod(pod *corev1.Pod, id group.Identity) {
	m := g.members[pod.UID]
	var formerPosition *position
	var waitRestart time.Time
	preplaced := pod.Spec.NodeName != "" && !isBound(pod)
	// A pod whose owner is deleted first stays in its group.
	keepsGroup := m != nil && id.MissingOwner != (group.Owner{}) && !id.InPodGroup
	if m != nil && m.group.key != id.Key && !keepsGroup {
		// The group label was changed, or the owner was seen: the
		// pod goes to another group. If it has a node, it keeps it.
		if m.hasNode() {
			g.unassign(m)
			m.retirePosition()
			formerPosition, m.formerPosition = m.formerPosition, nil
		}
		g.drop(m, fmt.Sprintf("pod %s moved to group %s", pod.Name, id.Key))
		if m.hasNode() {
			g.out.Recheck = append(g.out.Recheck, pod.UID)
		}
		// A pod that was placed for its old group is preplaced in the new one.
		preplaced = m.preplaced || m.hasNode() && m.missingOwner == (group.Owner{})
		waitRestart = m.waitRestart
		m = nil
	}
	if m == nil {
		s := g.group(id.Key)
		s.inPodGroup = s.inPodGroup || id.InPodGroup
		m = &member{group: s, missingOwner: id.MissingOwner, preplaced: preplaced, waitRestart: waitRestart, memberPosition: memberPosition{formerPosition: formerPosition}}
		m.update(pod)
		s.members[pod.UID] = m
		s.changed(m)
		g.members[pod.UID] = m
		if m.isWaiting() {
			s.podsChanged()
		}
		if uid := id.MissingOwner.UID; id.MissingOwner != (group.Owner{}) {
			if g.byMissingOwner[uid] == nil {
				g.byMissingOwner[uid] = map[types.UID]*member{}
			}
			g.byMissingOwner[uid][pod.UID] = m
		}
	}
	was, waited := m.pod, m.isWaiting()
	m.update(pod)
	m.group.changed(m)
	if !m.hasNode() {
		g.freeFormerPosition(m)
	}
	if !keepsGroup {
		m.needsPodGroup, m.needsMinimum = id.InPodGroup && id.NeedsPodGroup, id.NeedsMinimum
	}
	if m.assignment == nil && (waited || m.isWaiting()) {
		// The request may no longer be the refused one.
		switch {
		case !maps.Equal(was.Annotations, pod.Annotations):
			m.group.requestChanged()
		case waited != m.isWaiting() || was.Generation != pod.Generation || !maps.Equal(was.Labels, pod.Labels):
			m.group.podsChanged()
		}
	}
	m.labelFault, m.policyError = m.validateSizeLabels(), group.ValidateMatchPolicy(pod.Annotations[group.MatchPolicyAnnotation])
	_, m.durationError = group.ParseDuration(pod.Annotations[group.DurationAnnotation])
	switch {
	case m.assignment == nil:
	case m.hasNode() && m.assignment.slot.Node != pod.Spec.NodeName:
		// Another scheduler bound the pod. The API is right, and the slot is free.
		g.out.release(m.assignment.job, m.assignment.slot.Key)
		g.unassign(m)
	case isTerminal(pod) && pod.Spec.NodeName != "":
		// The pod may have ended before the inventory saw it on its node, so it is released here.
		g.out.release(m.assignment.job, m.assignment.slot.Key)
		g.unassign(m)
	case isTerminal(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		g.leaveSeat(m, m.whyGone())
		g.revoke(m, m.whyGone())
	}
	m.group.changed(m)
	g.recompute(m.group)
	g.settleExclusivity(m.group)
	g.out.activate(m.group.key)
}

// whyGone returns why the assignment of a pod is revoked that has ended or is being deleted.
func (m *member) whyGone() string {
	if isTerminal(m.pod) {
		return fmt.Sprintf("pod %s ended before it was bound", m.pod.Name)
	}
	return fmt.Sprintf("pod %s was deleted", m.pod.Name)
}

// isBound reports whether a pod was bound to its node. The API server
// says so with the bind itself, by the condition PodScheduled. For a
// pod that was created on a node, the kubelet says the same later.
func isBound(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
}

// update records the member's pod as it is now.
func (m *member) update(pod *corev1.Pod) {
	m.pod, m.topology = pod, group.TopologyAnnotationsOf(pod.Annotations)
}

// validateSizeLabels returns a refusal if what the user wrote
// on the pod about the size is invalid. It returns nil if they are valid.
func (m *member) validateSizeLabels() *Refusal {
	read := group.UserSizeOf
	if !m.group.inPodGroup && m.missingOwner == (group.Owner{}) {
		read = group.SizeAlone
	}
	if _, err := read(m.pod.Labels, m.pod.Annotations); err != nil {
		return &Refusal{Reason: reason.InvalidGroupSize, Message: err.Error()}
	}
	return nil
}

// ObserveOwner records that Owners knows an object
// now. The pods that waited for it find their group.
func (g Watches) ObserveOwner(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.byMissingOwner[uid] {
		g.forgetMissingOwner(m)
		g.putPod(m.pod, group.IdentityOf(m.pod, g.owners))
	}
	return g.output()
}

// DropPod forgets a pod that the API no longer has.
func (g Watches) DropPod(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.forget(uid)
	if m := g.members[uid]; m != nil {
		g.drop(m, fmt.Sprintf("pod %s was deleted", m.pod.Name))
		g.out.activate(m.group.key)
	}
	return g.output()
}

// drop removes a member from its group, and revokes its assignment with the reason why.
func (g Watches) drop(m *member, why string) {
	if m.assignment != nil && m.hasNode() {
		// The pod may have gone before the inventory saw it on its node, so it is released here.
		g.out.release(m.assignment.job, m.assignment.slot.Key)
		g.unassign(m)
	}
	g.leaveSeat(m, why)
	g.revoke(m, why)
	m.vacate()
	g.freeFormerPosition(m)
	if m.isWaiting() {
		m.group.podsChanged()
	}
	delete(m.group.members, m.pod.UID)
	m.group.changed(m)
	delete(g.members, m.pod.UID)
	g.forgetMissingOwner(m)
	if m.group.representative == m.pod.UID {
		m.group.representative = ""
	}
	g.recompute(m.group)
	if m.group.podGroup == nil {
		g.out.forget(m.group.key)
	}
}

// freeFormerPosition records that a member no longer has a node in its former position.
func (g Watches) freeFormerPosition(m *member) {
	p := m.formerPosition
	if p == nil {
		return
	}
	m.formerPosition = nil
	p.terminating--
	if s := p.group; s != nil {
		s.changedPositions = append(s.changedPositions, p)
		if s != m.group {
			g.recompute(s)
		}
	}
}
