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

// Nominations are the pods of others that are about to take room on a node and have
// not got there: mostly preemptors whose victims have yet to end. Who stands in the
// queue behind them leaves them that room.
type nominations struct {
	mu   sync.Mutex
	pods map[types.UID]nomination
}

type nomination struct {
	slot     match.Slot
	priority int32
	// until is zero until the pod has come to its node. From then on the inventory
	// charges it; the nomination stands until that is sure to have been done.
	until time.Time
}

// put takes note of a pod as it is now, and says whether room may have become free,
// or will with the end of the nomination.
func (n *nominations) put(pod *corev1.Pod, now time.Time) (freed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep(now)
	was, stood := n.pods[pod.UID]
	switch {
	case pod.Status.NominatedNodeName != "" && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !hasEnded(pod):
		if n.pods == nil {
			n.pods = map[types.UID]nomination{}
		}
		is := nomination{slot: translate.NominatedSlot(pod), priority: corev1helpers.PodPriority(pod)}
		n.pods[pod.UID] = is
		return stood && was.slot.Node != is.slot.Node
	case !stood || !was.until.IsZero():
		return false
	case pod.Spec.NodeName == was.slot.Node:
		was.until = now.Add(settleTime)
		n.pods[pod.UID] = was
	default:
		delete(n.pods, pod.UID)
	}
	return true
}

// drop takes note that a pod is gone, and says whether room may have become free.
func (n *nominations) drop(uid types.UID) (freed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, stood := n.pods[uid]
	delete(n.pods, uid)
	return stood
}

// slots lists what is nominated at this priority or above it, ordered by pod.
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

// sweep forgets the nominations that have had their time.
func (n *nominations) sweep(now time.Time) {
	maps.DeleteFunc(n.pods, func(_ types.UID, p nomination) bool {
		return !p.until.IsZero() && !now.Before(p.until)
	})
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// minPriority returns the lowest priority among pods: what is kept for those above it is
// kept from all of them, for they go together.
func minPriority(pods []*corev1.Pod) int32 {
	least := corev1helpers.PodPriority(pods[0])
	for _, p := range pods[1:] {
		least = min(least, corev1helpers.PodPriority(p))
	}
	return least
}
