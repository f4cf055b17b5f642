package gang

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Rank is a pod's place in the queue. Replacements of missing members
// come first. Then the order is by priority, by the creation of the group,
// by the group and by the pod. For a late pod that replaces no member, the
// start of its wait counts if that is later than the creation of the group.
type Rank struct {
	Urgent   bool
	Priority int32
	Since    time.Time
	Key      types.NamespacedName
	Pod      string
}

// Less reports whether a goes before b.
func (a Rank) Less(b Rank) bool { return a.Compare(b) < 0 }

// Compare returns a negative number if a goes before b, a
// positive one if b goes before a, and 0 if they are the same.
func (a Rank) Compare(b Rank) int {
	if a.Urgent != b.Urgent {
		if a.Urgent {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
		cmp.Compare(a.Pod, b.Pod),
	)
}

// notBefore returns the rank, with t as the creation if the creation was earlier.
func (a Rank) notBefore(t time.Time) Rank {
	if a.Since.Before(t) {
		a.Since = t
	}
	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// rankOf returns the rank of a pod by its fields alone: priority, creation and name.
func rankOf(pod *corev1.Pod) Rank {
	r := Rank{Since: pod.CreationTimestamp.Time, Pod: pod.Name}
	if pod.Spec.Priority != nil {
		r.Priority = *pod.Spec.Priority
	}
	return r
}

// A Turn is a namespace and a priority. One group of each Turn at a time has nodes reserved,
// out of the groups that have waited for room for so long that others may not pass them.
type Turn struct {
	Namespace string
	Priority  int32
}

// TurnOf returns the Turn of a group, by the rank of one of its pods.
func TurnOf(key types.NamespacedName, r Rank) Turn { return Turn{key.Namespace, r.Priority} }

// A queueOrder holds the ranks of pods, as they were when the pods came
// into the queue. It has a separate lock, because the queue compares pods
// under its lock: it must not wait for calls that look through all groups.
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
