package fluence

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// nominations are the pods of other schedulers that are nominated to a node and
// are not there yet. Most are preemptors whose victims have yet to end. Fluence
// leaves that room to a nominated pod of the same or a higher priority.
type nominations struct {
	mu   sync.Mutex
	pods map[types.UID]nomination
}

// nomination is the room that one pod is about to take.
type nomination struct {
	slot     match.Slot
	priority int32
	// until is zero while the pod is not on its node. Once the pod is there, the
	// nomination is kept for settleTime more, until the inventory is sure to have
	// booked the pod. Without that time, others could take the room in between.
	until time.Time
}

// put updates the nomination of a pod. freed reports whether the nomination was
// dropped or moved to another node, so that its room may be free now, or whether
// the pod has come to its node, so that the nomination ends after settleTime.
func (n *nominations) put(pod *corev1.Pod, now time.Time) (freed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep(now)
	was, had := n.pods[pod.UID]
	switch {
	case pod.Status.NominatedNodeName != "" && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !hasEnded(pod):
		if n.pods == nil {
			n.pods = map[types.UID]nomination{}
		}
		is := nomination{slot: translate.NominatedSlot(pod), priority: corev1helpers.PodPriority(pod)}
		n.pods[pod.UID] = is
		return had && was.slot.Node != is.slot.Node
	case !had || !was.until.IsZero():
		return false
	case pod.Spec.NodeName == was.slot.Node:
		was.until = now.Add(settleTime)
		n.pods[pod.UID] = was
	default:
		delete(n.pods, pod.UID)
	}
	return true
}

// drop removes the nomination of a pod that is gone. freed reports
// whether there was one, so that room may have become free.
func (n *nominations) drop(uid types.UID) (freed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, stood := n.pods[uid]
	delete(n.pods, uid)
	return stood
}

// slots lists the room of the nominated pods of this or a higher priority, ordered by pod.
func (n *nominations) slots(priority int32, now time.Time) []match.Slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep(now)
	var slots []match.Slot
	for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
		if p := n.pods[uid]; p.priority >= priority {
			slots = append(slots, p.slot)
		}
	}
	return slots
}

// sweep removes the nominations that have run out.
func (n *nominations) sweep(now time.Time) {
	maps.DeleteFunc(n.pods, func(_ types.UID, p nomination) bool {
		return !p.until.IsZero() && !now.Before(p.until)
	})
}

// hasEnded reports whether a pod has succeeded or failed.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// minPriority returns the lowest priority among pods. A group is placed as a whole,
// so room that must be left by its pod of the lowest priority must be left by all.
func minPriority(pods []*corev1.Pod) int32 {
	least := corev1helpers.PodPriority(pods[0])
	for _, p := range pods[1:] {
		least = min(least, corev1helpers.PodPriority(p))
	}
	return least
}
