package gang

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Queueing says which pods may enter the scheduling queue, in which order they stand there, and
// why the others may not.
type Queueing struct{ *core }

// PreEnqueue decides on a pod that wants to enter the queue. It changes nothing but
// the choice of a representative, the place of those that pass, and since when a group
// could be asked for.
func (g Queueing) PreEnqueue(uid types.UID, now time.Time) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Verdict{Reason: reason.NotSeenYet, Message: "the pod was not seen yet"}
	}
	v := g.verdict(m, now)
	if !v.Pass {
		return v
	}
	m.created = m.group.creation(m)
	if m.urgent = m.isReplacement(); m.assignment == nil {
		m.extra = m.group.started && !m.urgent
	}
	rank := m.rank()
	g.queue.set(uid, rank)
	if m.assignment != nil {
		return v
	}
	v.Key, v.Rank = m.group.key, rank
	if !m.urgent {
		v.PodsToPlace = m.group.podsToPlace(now)
	}
	return v
}

// Rank returns a pod's place in the queue. It stays what it was when Admit last let the pod
// pass.
func (g Queueing) Rank(pod *corev1.Pod) Rank {
	if r, ok := g.queue.get(pod.UID); ok {
		return r
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil {
		return m.rank()
	}
	r := rankOf(pod)
	r.Key = group.IdentityOf(pod, g.owners).Key
	return r
}

// MayPlace says whether a group may ask for nodes now, as far as it goes itself.
func (g Queueing) MayPlace(key types.NamespacedName, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.unassignedGroups[key]
	return s != nil && len(g.appendEnqueueable(nil, s, now)) > 0
}

// ObserveOtherPlugins takes note of whether the other plugins let a pod pass that asks for its group. The
// scheduler asks plugins in any order, and none after one that holds the pod: of a pod for
// which this was never said nothing is known, and it counts as held.
func (g Queueing) ObserveOtherPlugins(uid types.UID, passes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil {
		m.passedOtherPlugins = passes
	}
}

// An Asker is a namespace of which groups may ask for nodes.
type ReadyNamespace struct {
	Namespace string
	// Priority is the highest of such a group.
	Priority int32
}

// ReadyNamespaces lists the namespaces of which groups may ask for nodes now, those with the highest
// priority first. It looks at all groups that wait. One whose pods another plugin keeps out of the
// queue does not ask.
func (g Queueing) ReadyNamespaces(now time.Time) []ReadyNamespace {
	g.mu.Lock()
	defer g.mu.Unlock()
	highest := map[string]int32{}
	var one []*corev1.Pod
	for _, s := range g.unassignedGroups {
		one = slices.DeleteFunc(g.appendEnqueueable(one[:0], s, now), func(pod *corev1.Pod) bool { return !g.members[pod.UID].passedOtherPlugins })
		if len(one) == 0 {
			continue
		}
		p := rankOf(one[0]).Priority
		if h, there := highest[s.key.Namespace]; !there || p > h {
			highest[s.key.Namespace] = p
		}
	}
	all := make([]ReadyNamespace, 0, len(highest))
	for namespace, p := range highest {
		all = append(all, ReadyNamespace{namespace, p})
	}
	slices.SortFunc(all, func(a, b ReadyNamespace) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Namespace, b.Namespace))
	})
	return all
}

// Enqueueable lists the pods that Admit lets pass and that have no seat yet: the
// representatives of groups that may ask for all their members, or for those that
// are late. The caller puts them into the queue.
func (g Queueing) Enqueueable(now time.Time) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.unassignedGroups {
		pods = g.appendEnqueueable(pods, s, now)
	}
	return pods
}

// EnqueueableOf lists those of some groups only.
func (g Queueing) EnqueueableOf(keys []types.NamespacedName, now time.Time) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, k := range keys {
		if s := g.unassignedGroups[k]; s != nil {
			pods = g.appendEnqueueable(pods, s, now)
		}
	}
	return pods
}
