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

// whyUnseen is the message for a pod that is not known yet.
const whyUnseen = "the scheduler has not seen the pod yet"

// Queueing is the role that decides which pods may enter the scheduling
// queue and in which order, and says why other pods may not.
type Queueing struct{ *core }

// PreEnqueue decides whether a pod may enter the queue. It changes only the choice of a
// representative, the rank of a pod that passes, and since when its group has been complete.
func (g Queueing) PreEnqueue(uid types.UID, now time.Time) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Verdict{Reason: reason.NotSeenYet, Message: whyUnseen}
	}
	v := g.verdict(m, now)
	if !v.Pass {
		return v
	}
	m.orderTime = m.group.orderTime(m)
	if m.urgent = m.isReplacement(); m.assignment == nil {
		m.addedLate = m.group.started && !m.urgent
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

// Rank returns a pod's place in the queue. PreEnqueue freezes it when it lets the pod pass.
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

// MayPlace reports whether a group may be placed now.
// It does not ask other plugins or the bind queue.
func (g Queueing) MayPlace(key types.NamespacedName, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.unassignedGroups[key]
	return s != nil && len(g.appendEnqueueable(nil, s, now)) > 0
}

// ObserveOtherPlugins records whether the other plugins let the representative of a
// group pass. A pod counts as held until this is called with true, because the
// scheduler asks plugins in any order, and asks none after a plugin that holds the pod.
func (g Queueing) ObserveOtherPlugins(uid types.UID, passes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil {
		m.passedOtherPlugins = passes
	}
}

// A ReadyNamespace is a namespace with groups that may be placed now.
type ReadyNamespace struct {
	Namespace string
	// Priority is the highest priority of these groups.
	Priority int32
}

// ReadyNamespaces returns the namespaces with groups that may be placed
// now, the highest priority first. It looks at all groups that wait. It
// leaves out groups that another plugin keeps out of the queue.
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

// Enqueueable returns the pods that PreEnqueue lets pass and that have no assignment yet. They
// ask for all members of their group, or for the late ones. The caller puts them into the queue.
func (g Queueing) Enqueueable(now time.Time) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.unassignedGroups {
		pods = g.appendEnqueueable(pods, s, now)
	}
	return pods
}

// EnqueueableOf does what Enqueueable does, for some groups only.
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
