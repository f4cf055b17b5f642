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

// Admission says which pods may enter the scheduling queue, in which order they stand there, and
// why the others may not.
type Admission struct{ *core }

// Admit decides on a pod that wants to enter the queue. It changes nothing but
// the choice of a representative, the place of those that pass, and since when a group
// could be asked for.
func (g Admission) Admit(uid types.UID, now time.Time) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Verdict{Reason: reason.NotSeenYet, Message: "the pod was not seen yet"}
	}
	v := g.admit(m, now)
	if !v.Pass {
		return v
	}
	m.created = m.group.creation(m)
	if m.urgent = m.replaces(); m.seat == nil {
		m.extra = m.group.started && !m.urgent
	}
	rank := m.rank()
	g.queue.set(uid, rank)
	if m.seat != nil {
		return v
	}
	v.Key, v.Rank = m.group.key, rank
	if !m.urgent {
		v.Asks = m.group.asking(now)
	}
	return v
}

// Rank returns a pod's place in the queue. It stays what it was when Admit last let the pod
// pass.
func (g Admission) Rank(pod *corev1.Pod) Rank {
	if r, ok := g.queue.get(pod.UID); ok {
		return r
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil {
		return m.rank()
	}
	r := rankOf(pod)
	r.Key = group.Of(pod, g.owners).Key
	return r
}

// MayAsk says whether a group may ask for nodes now, as far as it goes itself.
func (g Admission) MayAsk(key types.NamespacedName, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.unseated[key]
	return s != nil && len(g.admissible(nil, s, now)) > 0
}

// LetPass takes note of whether the other plugins let a pod pass that asks for its group. The
// scheduler asks plugins in any order, and none after one that holds the pod: of a pod for
// which this was never said nothing is known, and it counts as held.
func (g Admission) LetPass(uid types.UID, passes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil {
		m.letPass = passes
	}
}

// An Asker is a namespace of which groups may ask for nodes.
type Asker struct {
	Namespace string
	// Priority is the highest of such a group.
	Priority int32
}

// Askers lists the namespaces of which groups may ask for nodes now, those with the highest
// priority first. It looks at all groups that wait. One whose pods another plugin keeps out of the
// queue does not ask.
func (g Admission) Askers(now time.Time) []Asker {
	g.mu.Lock()
	defer g.mu.Unlock()
	highest := map[string]int32{}
	var one []*corev1.Pod
	for _, s := range g.unseated {
		one = slices.DeleteFunc(g.admissible(one[:0], s, now), func(pod *corev1.Pod) bool { return !g.members[pod.UID].letPass })
		if len(one) == 0 {
			continue
		}
		p := rankOf(one[0]).Priority
		if h, there := highest[s.key.Namespace]; !there || p > h {
			highest[s.key.Namespace] = p
		}
	}
	all := make([]Asker, 0, len(highest))
	for namespace, p := range highest {
		all = append(all, Asker{namespace, p})
	}
	slices.SortFunc(all, func(a, b Asker) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Namespace, b.Namespace))
	})
	return all
}

// Admissible lists the pods that Admit lets pass and that have no seat yet: the
// representatives of groups that may ask for all their members, or for those that
// are late. The caller puts them into the queue.
func (g Admission) Admissible(now time.Time) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.unseated {
		pods = g.admissible(pods, s, now)
	}
	return pods
}

// AdmissibleOf lists those of some groups only.
func (g Admission) AdmissibleOf(keys []types.NamespacedName, now time.Time) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, k := range keys {
		if s := g.unseated[k]; s != nil {
			pods = g.admissible(pods, s, now)
		}
	}
	return pods
}
