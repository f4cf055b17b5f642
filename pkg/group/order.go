package group

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rank is a pod's place in the queue: by priority, then by its group's creation,
// then by the group, then by the pod.
type Rank struct {
	Priority int32
	Created  time.Time
	Key      types.NamespacedName
	Pod      string
}

// Less says whether a goes before b.
func (a Rank) Less(b Rank) bool {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
		cmp.Compare(a.Pod, b.Pod),
	) < 0
}

// Rank returns a pod's place in the queue. It stays what it was at the first
// call for as long as the group lives.
func (g *Groups) Rank(pod *corev1.Pod) Rank {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := Rank{Created: pod.CreationTimestamp.Time, Pod: pod.Name}
	if pod.Spec.Priority != nil {
		r.Priority = *pod.Spec.Priority
	}
	m := g.members[pod.UID]
	if m == nil {
		r.Key = Of(pod).Key
		return r
	}
	s := m.group
	r.Key = s.key
	if s.created.IsZero() && s.podGroup != nil {
		s.created = s.podGroup.Created
	}
	if !s.created.IsZero() {
		r.Created = s.created
	}
	return r
}
