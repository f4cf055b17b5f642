package podgroup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A note is an event to tell. About is nil for the PodGroup.
type note struct {
	about        *corev1.Pod
	kind, reason string
	text         string
}

// tell returns the events about a group's pods that were not told yet.
func (m *memory) tell(o observed, w wanted) []note {
	var notes []note
	because, text := o.wrong(w)
	if text != "" && m.invalid != text {
		notes = append(notes, note{kind: corev1.EventTypeWarning, reason: because, text: text})
	}
	m.invalid = text
	if !w.valid {
		return notes
	}
	c := countOf(o.pods)
	have := c.members - c.failed
	was := m.complete
	m.complete = have >= w.minMember
	if phase := o.podGroup.Status.Phase; phase != "" && phase != scheduling.PodGroupPending {
		// By its written phase a group that got further was complete before a restart.
		m.toldComplete = ""
		return notes
	}
	text = fmt.Sprintf("%d pods are there, minMember is %d", have, w.minMember)
	// One that is replaced before the start makes the group complete again: no news.
	if m.complete && !was && m.toldComplete != text {
		m.toldComplete = text
		notes = append(notes, note{kind: corev1.EventTypeNormal, reason: reason.Complete, text: text})
	}
	return notes
}

// endingOf returns the event of a group's end.
func endingOf(before scheduling.PodGroupPhase, s *scheduling.PodGroupStatus) []note {
	text := fmt.Sprintf("%d pods succeeded, %d failed", s.Succeeded, s.Failed)
	switch s.Phase {
	case before: // told already
		return nil
	case scheduling.PodGroupFinished:
		return []note{{kind: corev1.EventTypeNormal, reason: reason.Finished, text: text}}
	case scheduling.PodGroupFailed:
		return []note{{kind: corev1.EventTypeWarning, reason: reason.Failed, text: text}}
	default:
		return nil
	}
}
