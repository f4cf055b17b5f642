package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// HolderOf returns the name under which a pod's group has its nodes for itself
// alone, empty if it shares them.
func (g *Groups) HolderOf(pod *corev1.Pod) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[pod.UID]
	if m == nil {
		return ""
	}
	return g.holder(m)
}

// GroupOf returns the group that a pod is in, and false if the pod was not seen.
func (g *Groups) GroupOf(uid types.UID) (Membership, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Membership{}, false
	}
	s := m.group
	return Membership{Key: s.key, Named: s.named, Started: s.started, Lacking: s.lacking(), Minimum: s.owed(), Replaces: m.replaces()}, true
}

// KeyOf returns the group of a pod, and false if the pod was not seen.
func (g *Groups) KeyOf(uid types.UID) (types.NamespacedName, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return types.NamespacedName{}, false
	}
	return m.group.key, true
}

// Knows says whether a group has pods or a PodGroup.
func (g *Groups) Knows(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groups[key] != nil
}

// A Membership is what there is to say of a pod's group.
type Membership struct {
	Key types.NamespacedName
	// Named says that Key is that of a PodGroup.
	Named bool
	// Started says that members hold nodes, Lacking how many are missing then to the
	// Minimum that the group is to have.
	Started bool
	Lacking int
	Minimum int
	// Replaces says that the pod takes the place of one that is missing.
	Replaces bool
}

// JobOf returns the job that a pod was matched under, or the one that stands
// for a pod matched by nobody known.
func (g *Groups) JobOf(pod *corev1.Pod) match.JobID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil && m.seat != nil && (pod.Spec.NodeName == "" || m.seat.slot.Node == pod.Spec.NodeName) {
		return m.seat.job
	}
	return match.NewJobID("pod", string(pod.UID))
}

// JobsOf returns, for pods in turn, what JobOf does. Alone returns the job of a pod that has no
// seat; it is asked with a lock held.
func (g *Groups) JobsOf(pods []*corev1.Pod, alone func(*corev1.Pod) match.JobID) []match.JobID {
	g.mu.Lock()
	defer g.mu.Unlock()
	jobs := make([]match.JobID, len(pods))
	for i, pod := range pods {
		if m := g.members[pod.UID]; m != nil && m.seat != nil && (pod.Spec.NodeName == "" || m.seat.slot.Node == pod.Spec.NodeName) {
			jobs[i] = m.seat.job
		} else {
			jobs[i] = alone(pod)
		}
	}
	return jobs
}

// PriorityOf returns the priority of a group; 0 where nothing is known of it.
func (g *Groups) PriorityOf(key types.NamespacedName) int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return 0
	}
	if m := s.members[s.choose()]; m != nil && !s.started {
		return m.priority()
	}
	for _, m := range s.members {
		return m.priority()
	}
	return 0
}

// OfJob returns the group with a PodGroup of which members were matched under a job
// and still have their seats, or else such a pod; false if there is none.
func (g *Groups) OfJob(job match.JobID) (key types.NamespacedName, alone *corev1.Pod, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, s := range g.groups {
		for _, m := range s.members {
			switch {
			case m.seat == nil || m.seat.job != job:
			case s.named:
				return key, nil, true
			default:
				return key, m.pod, true
			}
		}
	}
	return types.NamespacedName{}, nil, false
}
