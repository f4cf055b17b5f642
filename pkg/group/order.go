package group

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rank is a pod's place in the queue: who takes the place of a member that a group lacks
// which has started comes first, then it goes by priority, by the group's creation, by the
// group and by the pod. For another pod of a group that has started it is the pod's own
// creation, if that was later.
type Rank struct {
	Incomplete bool
	Priority   int32
	Created    time.Time
	Key        types.NamespacedName
	Pod        string
}

// Less says whether a goes before b.
func (a Rank) Less(b Rank) bool {
	if a.Incomplete != b.Incomplete {
		return a.Incomplete
	}
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
		cmp.Compare(a.Pod, b.Pod),
	) < 0
}

// A Turn is what one group of a namespace and priority has at a time, of those that have waited
// for room for so long that others may not pass them.
type Turn struct {
	Namespace string
	Priority  int32
}

// TurnOf returns the turn of a group, by the rank of one of its pods.
func TurnOf(key types.NamespacedName, r Rank) Turn { return Turn{key.Namespace, r.Priority} }

// Rank returns a pod's place in the queue. It stays what it was when the pod came
// into the queue, and the group's creation what it was at the first call.
func (g *Groups) Rank(pod *corev1.Pod) Rank {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil {
		return g.rank(m)
	}
	r := rankOf(pod)
	r.Key = Of(pod, g.owners).Key
	return r
}

// rankOf is what a pod says itself of its place.
func rankOf(pod *corev1.Pod) Rank {
	r := Rank{Created: pod.CreationTimestamp.Time, Pod: pod.Name}
	if pod.Spec.Priority != nil {
		r.Priority = *pod.Spec.Priority
	}
	return r
}

func (g *Groups) rank(m *member) Rank {
	r, s := rankOf(m.pod), m.group
	r.Key, r.Incomplete = s.key, m.urgent
	if s.created.IsZero() {
		s.created = r.Created
		if s.podGroup != nil {
			s.created = s.podGroup.Created
		}
	}
	if !m.extra {
		r.Created = s.created
	}
	return r.notBefore(s.created)
}

// notBefore is the place of one that was created so early at the most.
func (a Rank) notBefore(t time.Time) Rank {
	if a.Created.Before(t) {
		a.Created = t
	}
	return a
}
