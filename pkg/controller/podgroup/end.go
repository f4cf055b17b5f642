package podgroup

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionFinished is the type of a condition. It is True if the group has ended, well or not, and
// absent otherwise. Its lastTransitionTime is the time of the end.
const ConditionFinished = "Finished"

// An ending is how an owner of a group has ended. It is zero while the owner has not.
type ending struct {
	// done is true if the owner has succeeded, and failed if it has failed.
	done, failed bool
	// at is the time of the end. because and text are what the owner says of its failure.
	at            time.Time
	because, text string
}

// add takes one of the owner's conditions that are True into account, by the types that report an end.
func (e *ending) add(c metav1.Condition, completed, failed string) {
	switch c.Type {
	case completed:
		e.done = true
	case failed:
		e.failed, e.because, e.text = true, c.Reason, c.Message
	default:
		return
	}
	e.at = c.LastTransitionTime.Time
}

// setFinished sets or removes the condition Finished. A condition that is there stays while the owners
// that could explain it are gone.
func (o observation) setFinished(s *scheduling.PodGroupStatus) {
	if !final(s.Phase) {
		meta.RemoveStatusCondition(&s.Conditions, ConditionFinished)
		return
	}
	at := time.Time{}
	because, text := reason.Succeeded, ""
	if s.Phase == scheduling.PodGroupFailed {
		because = reason.Failed
	}
	for _, top := range o.topOwners {
		if !top.hasEnded() {
			continue
		}
		if top.at.After(at) {
			at = top.at
		}
		if top.failed && text == "" && s.Phase == scheduling.PodGroupFailed {
			if text = fmt.Sprintf("%s %s/%s has failed", top.owner.Kind, o.key.Namespace, top.owner.Name); isReason(top.because) {
				because = top.because
				text = strings.TrimSuffix(fmt.Sprintf("%s %s/%s: %s: %s", top.owner.Kind, o.key.Namespace, top.owner.Name, top.because, top.text), ": ")
			}
		}
	}
	if had := meta.FindStatusCondition(s.Conditions, ConditionFinished); had != nil && text == "" && s.Phase == scheduling.PodGroupFailed {
		because = had.Reason
		_, text, _ = strings.Cut(had.Message, "; ")
	}
	if at.IsZero() {
		at = o.now
	}
	message := endCounts(s)
	if text != "" {
		message += "; " + clip(text)
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: ConditionFinished, Status: metav1.ConditionTrue, Reason: because, Message: message,
		ObservedGeneration: o.podGroup.Generation, LastTransitionTime: metav1.NewTime(at),
	})
}

// endCounts says how many pods have succeeded, and how many have failed if any has.
func endCounts(s *scheduling.PodGroupStatus) string {
	text := reason.Plural(int(s.Succeeded), "pod") + " succeeded"
	if s.Failed > 0 || s.Phase == scheduling.PodGroupFailed {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	return text
}

// conditionReason is the pattern of metav1.Condition.Reason.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// isReason reports whether the reason of another controller can be that of a condition. The conditions of
// a Job have reasons of any form.
func isReason(text string) bool { return len(text) <= 128 && conditionReason.MatchString(text) }

// endEvents returns the event of a group's end, if the group has just ended.
func endEvents(before scheduling.PodGroupPhase, s *scheduling.PodGroupStatus) []pendingEvent {
	if s.Phase == before || !final(s.Phase) { // the event was sent already, or the group has not ended
		return nil
	}
	text := endCounts(s)
	if c := meta.FindStatusCondition(s.Conditions, ConditionFinished); c != nil {
		text = c.Message
	}
	if s.Phase == scheduling.PodGroupFinished {
		return []pendingEvent{{eventType: corev1.EventTypeNormal, reason: reason.Finished, text: text}}
	}
	return []pendingEvent{{eventType: corev1.EventTypeWarning, reason: reason.Failed, text: text}}
}
