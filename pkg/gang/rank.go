package gang

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rank is a pod's place in the queue: who takes the place of a member that a group lacks
// which has started comes first, then it goes by priority, by the group's creation, by the
// group and by the pod. For another pod of a group that has started it is the pod's own
// creation, if that was later.
type Rank struct {
	Urgent   bool
	Priority int32
	Created  time.Time
	Key      types.NamespacedName
	Pod      string
}

// Less says whether a goes before b.
func (a Rank) Less(b Rank) bool { return a.Compare(b) < 0 }

// Compare returns a negative number if a goes before b, a positive one if b goes before a, and 0 for
// the same place.
func (a Rank) Compare(b Rank) int {
	if a.Urgent != b.Urgent {
		if a.Urgent {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
		cmp.Compare(a.Pod, b.Pod),
	)
}

// notBefore is the place of one that was created so early at the most.
func (a Rank) notBefore(t time.Time) Rank {
	if a.Created.Before(t) {
		a.Created = t
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// rankOf is what a pod says itself of its place.
func rankOf(pod *corev1.Pod) Rank {
	r := Rank{Created: pod.CreationTimestamp.Time, Pod: pod.Name}
	if pod.Spec.Priority != nil {
		r.Priority = *pod.Spec.Priority
	}
	return r
}

// A Turn is what one group of a namespace and priority has at a time, of those that have waited
// for room for so long that others may not pass them.
type Turn struct {
	Namespace string
	Priority  int32
}

// TurnOf returns the turn of a group, by the rank of one of its pods.
func TurnOf(key types.NamespacedName, r Rank) Turn { return Turn{key.Namespace, r.Priority} }

// A queueOrder holds the places of pods in the queue, as they were when the pods came into it.
// The queue compares pods under its own lock: it is not to wait for those who look through
// groups.
type queueOrder struct {
	mu    sync.RWMutex
	ranks map[types.UID]Rank
}

func (q *queueOrder) set(uid types.UID, r Rank) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ranks == nil {
		q.ranks = map[types.UID]Rank{}
	}
	q.ranks[uid] = r
}

func (q *queueOrder) get(uid types.UID) (Rank, bool) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	r, ok := q.ranks[uid]
	return r, ok
}

func (q *queueOrder) forget(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.ranks, uid)
}
