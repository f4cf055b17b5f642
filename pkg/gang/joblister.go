package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// JobOf returns the job that a pod was matched under. If this process has no assignment
// of the pod to its node, JobOf returns an id that is made from the pod's UID.
func (g Lister) JobOf(pod *corev1.Pod) match.JobID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil && m.assignment != nil && (pod.Spec.NodeName == "" || m.assignment.slot.Node == pod.Spec.NodeName) {
		return m.assignment.job
	}
	return match.NewJobID("pod", string(pod.UID))
}

// MatchedAs returns the job and the slot that a match gave to a pod on its node, and
// the epoch of the graph in which it was matched. The epoch is 0 if there is none.
func (g Lister) MatchedAs(pod *corev1.Pod) (match.JobID, match.Slot, match.Epoch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil && m.assignment != nil && m.assignment.slot.Node == pod.Spec.NodeName {
		// The key of a seat is not the pod's UID. The caller books the pod, and then releases the seat.
		return m.assignment.job, m.assignment.slot, m.assignment.epoch
	}
	return 0, match.Slot{}, 0
}

// JobsOf returns the jobs of many pods, in their order, as JobOf does. For
// a pod without an assignment to its node it calls fallback, with a lock held.
func (g Lister) JobsOf(pods []*corev1.Pod, fallback func(*corev1.Pod) match.JobID) []match.JobID {
	g.mu.Lock()
	defer g.mu.Unlock()
	jobs := make([]match.JobID, len(pods))
	for i, pod := range pods {
		if m := g.members[pod.UID]; m != nil && m.assignment != nil && (pod.Spec.NodeName == "" || m.assignment.slot.Node == pod.Spec.NodeName) {
			jobs[i] = m.assignment.job
		} else {
			jobs[i] = fallback(pod)
		}
	}
	return jobs
}

// GroupOfJob returns the group whose members have assignments under
// a job. If the group has no PodGroup, lonePod is its pod. GroupOfJob
// returns false if no member has an assignment under the job.
func (g Lister) GroupOfJob(job match.JobID) (key types.NamespacedName, lonePod *corev1.Pod, ok bool) {
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

// Tentative returns the assignments that the API does not show yet, and the free seats, by job. The matcher has
// to know these besides the pods. Otherwise it would give the same resources out again.
func (g Lister) Tentative() []match.Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	byID := map[match.JobID]*match.Job{}
	var ids []match.JobID
	for _, s := range g.unconfirmedGroups {
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
	for _, s := range g.seatedGroups {
		for _, t := range s.free {
			j := byID[t.job]
			if j == nil {
				j = &match.Job{ID: t.job}
				byID[t.job] = j
				ids = append(ids, t.job)
			}
			j.Slots = append(j.Slots, t.slot)
		}
	}
	slices.Sort(ids)
	jobs := make([]match.Job, 0, len(ids))
	for _, id := range ids {
		jobs = append(jobs, *byID[id])
	}
	return jobs
}

// HasAssignment reports whether a pod has an assignment.
func (g Lister) HasAssignment(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	return m != nil && m.assignment != nil
}

// ReservedOn returns the members of a pod's group that have reserved assignments on a node.
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
