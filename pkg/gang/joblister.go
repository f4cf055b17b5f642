package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// JobOf returns the job that a pod was matched under, or the one that stands
// for a pod matched by nobody known.
func (g Lister) JobOf(pod *corev1.Pod) match.JobID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil && m.assignment != nil && (pod.Spec.NodeName == "" || m.assignment.slot.Node == pod.Spec.NodeName) {
		return m.assignment.job
	}
	return match.NewJobID("pod", string(pod.UID))
}

// JobsOf returns, for pods in turn, what JobOf does. Alone returns the job of a pod that has no
// seat; it is asked with a lock held.
func (g Lister) JobsOf(pods []*corev1.Pod, alone func(*corev1.Pod) match.JobID) []match.JobID {
	g.mu.Lock()
	defer g.mu.Unlock()
	jobs := make([]match.JobID, len(pods))
	for i, pod := range pods {
		if m := g.members[pod.UID]; m != nil && m.assignment != nil && (pod.Spec.NodeName == "" || m.assignment.slot.Node == pod.Spec.NodeName) {
			jobs[i] = m.assignment.job
		} else {
			jobs[i] = alone(pod)
		}
	}
	return jobs
}

// GroupOfJob returns the group with a PodGroup of which members were matched under a job
// and still have their seats, or else such a pod; false if there is none.
func (g Lister) GroupOfJob(job match.JobID) (key types.NamespacedName, alone *corev1.Pod, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.jobs[job].group
	switch {
	case s == nil:
		return types.NamespacedName{}, nil, false
	case s.inPodGroup:
		return s.key, nil, true
	}
	return s.key, s.first(func(m *member) bool { return m.assignment != nil && m.assignment.job == job }).pod, true
}

// Tentative lists the seats that the API does not show yet: what an engine must
// be told of beside the pods, so that it does not give them out again.
func (g Lister) Tentative() []match.Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	byID := map[match.JobID]*match.Job{}
	var ids []match.JobID
	for _, s := range g.tentativeGroups {
		for _, m := range s.ordered(func(m *member) bool { return m.assignment != nil && !m.hasNode() }) {
			j := byID[m.assignment.job]
			if j == nil {
				j = &match.Job{ID: m.assignment.job}
				byID[m.assignment.job] = j
				ids = append(ids, m.assignment.job)
			}
			j.Slots = append(j.Slots, m.assignment.slot)
		}
	}
	slices.Sort(ids)
	jobs := make([]match.Job, 0, len(ids))
	for _, id := range ids {
		jobs = append(jobs, *byID[id])
	}
	return jobs
}

// HasAssignment says whether a pod has a seat.
func (g Lister) HasAssignment(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	return m != nil && m.assignment != nil
}

// ReservedOn lists the members of a pod's group that were reserved on a node.
func (g Lister) ReservedOn(uid types.UID, node string) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	var uids []types.UID
	if m := g.members[uid]; m != nil {
		for _, o := range m.group.ordered((*member).isReserved) {
			if o.assignment.slot.Node == node {
				uids = append(uids, o.pod.UID)
			}
		}
	}
	return uids
}
