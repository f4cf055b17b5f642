package podgroup

import (
	corev1 "k8s.io/api/core/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// counts counts the pods of a group by state.
type counts struct {
	// members counts all pods.
	members int32
	// onNodes counts the pods with a node that have not ended.
	onNodes int32
	// active counts the pods on nodes that are not being deleted.
	// unended counts the pods that have not ended and are not being deleted.
	active, unended            int32
	running, succeeded, failed int32
}

func countOf(pods []podSet) counts {
	var c counts
	for _, set := range pods {
		pod := set.pod
		c.members += set.n
		if !hasEnded(pod) && pod.DeletionTimestamp == nil {
			c.unended += set.n
		}
		if pod.Spec.NodeName != "" {
			if !hasEnded(pod) {
				c.onNodes += set.n
				if pod.DeletionTimestamp == nil {
					c.active += set.n
				}
			}
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			c.running += set.n
		case corev1.PodSucceeded:
			c.succeeded += set.n
		case corev1.PodFailed:
			c.failed += set.n
		case corev1.PodPending, corev1.PodUnknown:
		}
	}
	return c
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// An ownerVerdict says whether the group has ended, as its owners report it.
type ownerVerdict int

const (
	// decidedByPods means that the owners do not tell, so the phases of the pods decide.
	decidedByPods ownerVerdict = iota
	// notEnded means that pods that end are replaced, or that more pods will come.
	notEnded
	finished
	failed
)

// ownerVerdict returns the verdict of the owners of a group about its end. A Job knows best whether
// it has finished or failed: it retries its pods, and it may have more completions than pods at a
// time. For owners of unknown kinds the pods decide.
func (o observation) ownerVerdict() ownerVerdict {
	over, anyFailed := 0, false
	alive := 0
	for _, top := range o.topOwners {
		if top.state == missing {
			continue
		}
		alive++
		if top.hasEnded() {
			over++
			anyFailed = anyFailed || top.failed
		} else if top.state != unsized || top.owner.Kind == "DaemonSet" {
			return notEnded
		}
	}
	switch {
	case alive == 0 || over < alive || o.hasBarePod():
		return decidedByPods
	case anyFailed:
		return failed
	default:
		return finished
	}
}

// phaseOf returns the phase of a group. A group whose phase comes
// from its pods keeps Finished or Failed when the pods are gone.
func phaseOf(before scheduling.PodGroupPhase, c counts, minMember int32, by ownerVerdict) scheduling.PodGroupPhase {
	switch {
	case by == finished:
		return scheduling.PodGroupFinished
	case by == failed:
		return scheduling.PodGroupFailed
	case c.members == 0 && by == decidedByPods && final(before):
		return before
	case by == decidedByPods && c.succeeded >= minMember && c.succeeded+c.failed == c.members:
		return scheduling.PodGroupFinished
	case c.running+c.succeeded >= minMember:
		return scheduling.PodGroupRunning
	case by == decidedByPods && c.failed > 0 && c.members-c.failed < minMember:
		return scheduling.PodGroupFailed
	case c.onNodes == 0:
		return scheduling.PodGroupPending
	case c.onNodes+c.succeeded < minMember && (before == scheduling.PodGroupRunning || before == scheduling.PodGroupUnknown):
		return scheduling.PodGroupUnknown
	default:
		return scheduling.PodGroupScheduling
	}
}

// final reports whether a phase is kept when the pods of a group are gone.
func final(p scheduling.PodGroupPhase) bool {
	return p == scheduling.PodGroupFinished || p == scheduling.PodGroupFailed
}
