package podgroup

import (
	corev1 "k8s.io/api/core/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// counts is how many pods of a group are where.
type counts struct {
	// members is all of them.
	members int32
	// scheduled have a node, finished ones included; holding are those of them
	// that have not ended.
	scheduled, onNodes int32
	// active are those of the holding that are there to stay.
	active                     int32
	running, succeeded, failed int32
}

func countOf(pods []*corev1.Pod) counts {
	var c counts
	for _, pod := range pods {
		c.members++
		if pod.Spec.NodeName != "" {
			c.scheduled++
			if !hasEnded(pod) {
				c.onNodes++
				if pod.DeletionTimestamp == nil {
					c.active++
				}
			}
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			c.running++
		case corev1.PodSucceeded:
			c.succeeded++
		case corev1.PodFailed:
			c.failed++
		case corev1.PodPending, corev1.PodUnknown:
		}
	}
	return c
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// An outcome is what the owners of a group say of its end.
type outcome int

const (
	// byPods: nobody says anything, its pods tell.
	byPods outcome = iota
	// goesOn: what ends is replaced, or more is to come.
	goesOn
	finished
	failed
)

// outcome asks the owners of a group. A Job knows best whether it has finished or
// failed: its pods are retried, and it may have more completions than pods at a
// time. Of kinds that are not known the pods tell.
func (o observation) outcome() outcome {
	over, anyFailed := 0, false
	alive := 0
	for _, w := range o.topOwners {
		if w.lookup == missing {
			continue
		}
		alive++
		if w.hasEnded() {
			over++
			anyFailed = anyFailed || w.failed
		} else if w.lookup != unsized || w.owner.Kind == "DaemonSet" {
			return goesOn
		}
	}
	switch {
	case alive == 0 || over < alive || o.hasBarePod():
		return byPods
	case anyFailed:
		return failed
	default:
		return finished
	}
}

// phaseOf says how far a group has come. A group that is judged by its pods keeps
// its last word when they are gone.
func phaseOf(before scheduling.PodGroupPhase, c counts, minMember int32, by outcome) scheduling.PodGroupPhase {
	switch {
	case by == finished:
		return scheduling.PodGroupFinished
	case by == failed:
		return scheduling.PodGroupFailed
	case c.members == 0 && by == byPods && final(before):
		return before
	case by == byPods && c.succeeded >= minMember && c.succeeded+c.failed == c.members:
		return scheduling.PodGroupFinished
	case c.running+c.succeeded >= minMember:
		return scheduling.PodGroupRunning
	case by == byPods && c.failed > 0 && c.members-c.failed < minMember:
		return scheduling.PodGroupFailed
	case c.onNodes == 0:
		return scheduling.PodGroupPending
	case c.onNodes+c.succeeded < minMember && (before == scheduling.PodGroupRunning || before == scheduling.PodGroupUnknown):
		return scheduling.PodGroupUnknown
	default:
		return scheduling.PodGroupScheduling
	}
}

// final says that a phase is the last of a group whose pods are gone.
func final(p scheduling.PodGroupPhase) bool {
	return p == scheduling.PodGroupFinished || p == scheduling.PodGroupFailed
}
