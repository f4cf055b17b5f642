package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A pendingEvent is an event to send. about is the pod that it is about, or nil for the PodGroup.
type pendingEvent struct {
	about             *corev1.Pod
	eventType, reason string
	text              string
}

// newEvents returns the events about a group's pods that were not sent yet.
func (m *memory) newEvents(o observation, w sizeDecision) []pendingEvent {
	var notes []pendingEvent
	because, text := o.whyInvalid(w)
	if text != "" && m.reportedInvalid != text {
		notes = append(notes, pendingEvent{eventType: corev1.EventTypeWarning, reason: because, text: text})
	}
	m.reportedInvalid = text
	if !w.valid {
		return notes
	}
	for _, n := range []pendingEvent{{reason: reason.OtherScheduler, text: w.lack}, {reason: reason.SizesDiffer, text: w.differ}, {reason: reason.SizeUnknown, text: w.unsaid}} {
		if n.eventType = corev1.EventTypeWarning; n.text != "" && !strings.Contains(m.reportedWarnings, n.text) {
			notes = append(notes, n)
		}
	}
	m.reportedWarnings = w.lack + w.differ + w.unsaid
	notes = append(notes, m.unknownKeyEvents(o)...)
	c := countOf(o.pods)
	have := c.members - c.failed
	was := m.enoughPods
	m.enoughPods = have >= w.minMember
	switch o.podGroup.Status.Phase {
	case "", scheduling.PodGroupPending, scheduling.PodGroupIdle, scheduling.PodGroupSuspended:
	default:
		// A phase beyond Pending means that the group was complete before this process started.
		m.reportedComplete = ""
		return notes
	}
	text = fmt.Sprintf("%d pods exist, minMember is %d", have, w.minMember)
	if have == 1 {
		text = fmt.Sprintf("1 pod exists, minMember is %d", w.minMember)
	}
	// A pod that is replaced before the start completes
	// the group again. The same event is not sent twice.
	if m.enoughPods && !was && m.reportedComplete != text {
		m.reportedComplete = text
		notes = append(notes, pendingEvent{eventType: corev1.EventTypeNormal, reason: reason.Complete, text: text})
	}
	return notes
}

// eventsHeldFor returns for how long the events Created and Complete of a group are held of which
// nothing was told: until pods have had nodes since boundSince for StatusDelay, and the group does not
// run yet, and for FirstStatusDelay at most.
func (c Config) eventsHeldFor(o observation, next *scheduling.PodGroupStatus, boundSince time.Time) time.Duration {
	if !waits(next.Phase) {
		return 0
	}
	until := o.firstSeen.Add(c.FirstStatusDelay)
	if at := boundSince.Add(c.StatusDelay); !boundSince.IsZero() && at.Before(until) {
		until = at
	}
	return max(0, until.Sub(o.now))
}

// holdComplete removes the event Complete from events, and remembers it until eventsHeldFor has
// passed. If the group runs by then, nobody misses the event, nor the one that the PodGroup
// was created: the PodGroup has its minMember, its owners and its creation time.
func (m *memory) holdComplete(notes []pendingEvent) []pendingEvent {
	return slices.DeleteFunc(notes, func(n pendingEvent) bool {
		if n.reason == reason.Complete {
			m.complete = n.text
		}
		return n.reason == reason.Complete
	})
}

// withComplete adds the event that holdComplete has removed, if there are still enough pods.
func (m *memory) withComplete(notes []pendingEvent) []pendingEvent {
	if m.complete != "" && m.enoughPods {
		notes = append(notes, pendingEvent{eventType: corev1.EventTypeNormal, reason: reason.Complete, text: m.complete})
	}
	m.complete = ""
	return notes
}

// createdDelay is the time for which the event that a PodGroup was created is held, to go into the
// event that enough pods exist. In a burst of Jobs it takes seconds until the Job controller has
// created all pods. Until then the PodGroup itself shows when and for what it was created.
const createdDelay = 10 * time.Second

// withCreated adds to events the one that the controller has created the PodGroup, once it is due:
// together with another event, or createdDelay after the creation. It becomes a part of the event
// that enough pods exist. If it is not due, withCreated returns the time after which it is.
func (m *memory) withCreated(notes []pendingEvent, now time.Time) ([]pendingEvent, time.Duration) {
	if m.created == "" {
		return notes, 0
	}
	created := pendingEvent{eventType: corev1.EventTypeNormal, reason: reason.Created, text: m.created}
	if i := slices.IndexFunc(notes, func(n pendingEvent) bool { return n.reason == reason.Complete }); i >= 0 {
		notes[i].text = m.created + "; " + notes[i].text
		m.created = ""
		return notes, 0
	}
	if wait := m.firstSeen.Add(createdDelay).Sub(now); wait > 0 && len(notes) == 0 {
		return notes, wait
	}
	m.created = ""
	return append([]pendingEvent{created}, notes...), 0
}
