package cli

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// conditionFinished is a condition of the controller. It is True if no more pods of the group are to
// come, with the reason why the group ended, and since when.
const conditionFinished = "Finished"

// addTimes adds when the group started and ended, and for how long it waited and ran until now.
func (g *groupSummary) addTimes(pg *scheduling.PodGroup, pods []*corev1.Pod, now metav1.Time) {
	g.Started = startOf(pods)
	if c := meta.FindStatusCondition(pg.Status.Conditions, conditionFinished); g.Bound == 0 && c != nil && c.Status == metav1.ConditionTrue {
		g.Ended, g.Result = c.LastTransitionTime, c.Reason
	} else if g.Bound == 0 && hasEnded(g.Phase) {
		g.Ended, g.Result = endOf(pods), g.Phase
	}
	// The pods that got their nodes first may be gone.
	if c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled); c != nil && c.Status == metav1.ConditionTrue && (g.Bound > 0 || g.Result != "") {
		if at := g.notBeforeCreation(c.LastTransitionTime); g.Started.IsZero() || at.Before(&g.Started) {
			g.Started = at
		}
	}
	g.addWait(pods)
	g.measure(now)
}

// addWait adds since when the group has asked for nodes: when the first of the pods was made that wait for nodes or, if
// none does, that waited until the group started. It adds nothing if no pod waits or has waited, or if that is not known.
func (g *groupSummary) addWait(pods []*corev1.Pod) {
	ended := !g.Ended.IsZero() || hasEnded(g.Phase)
	asks := firstMade(pods, func(pod *corev1.Pod) bool { return waits(pod) && !gated(pod) })
	if g.asks = !asks.IsZero() && !ended; !g.asks && (g.Bound > 0 || ended) {
		asks = firstMade(pods, func(pod *corev1.Pod) bool {
			return pod.Spec.NodeName != "" && !g.Started.Before(&pod.CreationTimestamp)
		})
		if asks.IsZero() && !g.Started.IsZero() {
			// The pods with which it started are gone. The group is as old as the first of them.
			asks = g.Created
		}
	}
	if g.asked = asks; g.asks {
		// A pod may be older than its PodGroup, whose age is shown beside the wait.
		g.asked = g.notBeforeCreation(asks)
	}
}

// addPromise adds from when a group that waits is promised room, as its message says. A message whose age is not known counts
// as one of now.
func (g *groupSummary) addPromise(now metav1.Time) {
	if !g.Decided.IsZero() {
		now = g.Decided
	}
	if g.Status == statusWaiting {
		g.Promised = metav1.NewTime(report.PromisedFrom(g.Message, now.Time))
	}
}

// start returns when a group started or, while it waits, from when it is promised room. It returns zero if it is not.
func (g *groupSummary) start() metav1.Time {
	if g.Status == statusWaiting {
		return g.Promised
	}
	return g.Started
}

// firstMade returns when the first of some pods was made, or zero if there is none.
func firstMade(pods []*corev1.Pod, which func(*corev1.Pod) bool) (first metav1.Time) {
	for _, pod := range pods {
		if which(pod) && (first.IsZero() || pod.CreationTimestamp.Before(&first)) {
			first = pod.CreationTimestamp
		}
	}
	return first
}

// measure sets for how long the group has waited for nodes and has run until now, or did so before.
func (g *groupSummary) measure(now metav1.Time) {
	g.WaitSeconds, g.RunSeconds = nil, nil
	if g.isIdle() {
		return
	}
	ended := !g.Ended.IsZero() || hasEnded(g.Phase)
	if g.asks && !ended {
		g.WaitSeconds = seconds(g.asked, now)
	}
	if g.Bound == 0 && g.Pending > 0 && !ended {
		// It waits now. The pods that had nodes before have ended.
		return
	}
	until := now
	if !g.Ended.IsZero() {
		until = g.Ended
	}
	if endUnknown := g.Result != "" && g.Ended.IsZero(); !g.Started.IsZero() && !endUnknown {
		g.RunSeconds = seconds(g.Started, until)
	}
	if !g.Started.IsZero() {
		until = g.Started
	}
	// Without a start it is not known how long a group waited that has had nodes.
	if hadNodes := g.Bound > 0 || g.Result != ""; g.WaitSeconds == nil && !g.asked.IsZero() && (!hadNodes || !g.Started.IsZero()) {
		g.WaitSeconds = seconds(g.asked, until)
	}
}

// seconds returns the whole seconds between two times, at least 0.
func seconds(from, to metav1.Time) *int64 {
	n := int64(max(0, to.Sub(from.Time)).Round(time.Second) / time.Second)
	return &n
}

// startOf returns when the first of the pods got its node. It returns zero if none has had one.
func startOf(pods []*corev1.Pod) (first metav1.Time) {
	for _, pod := range pods {
		var at metav1.Time
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
				at = c.LastTransitionTime
			}
		}
		if at.IsZero() && pod.Status.StartTime != nil {
			at = *pod.Status.StartTime
		}
		if pod.Spec.NodeName != "" && !at.IsZero() && (first.IsZero() || at.Before(&first)) {
			first = at
		}
	}
	return first
}

// endOf returns when the last of the pods ended. It returns zero if that is not known.
func endOf(pods []*corev1.Pod) (last metav1.Time) {
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && last.Before(&t.FinishedAt) {
				last = t.FinishedAt
			}
		}
	}
	return last
}

// ended says in words how and when a finished group ended.
func (o *options) ended(g *groupSummary) string {
	verb := "finished"
	switch g.Result {
	case reason.Finished, reason.Succeeded:
	case "":
		if g.Failed > 0 && g.Succeeded == 0 {
			verb = "failed"
		}
	default:
		verb = "failed"
	}
	text := verb
	if !g.Ended.IsZero() {
		text += " " + o.age(g.Ended) + " ago"
	}
	if verb == "failed" && g.Result != "" && g.Result != reason.Failed {
		text = strings.Replace(text, "failed", "ended", 1) + ": " + g.Result
	}
	if pods := g.endedPods(); pods != "" {
		separator := ": "
		if strings.Contains(text, ": ") {
			separator = ", "
		}
		text += separator + pods
	}
	return text
}

// endedPods says in words how many pods have ended. It returns "" if none has.
func (g *groupSummary) endedPods() string {
	var parts []string
	if g.Succeeded > 0 {
		parts = append(parts, fmt.Sprintf("%d succeeded", g.Succeeded))
	}
	if g.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", g.Failed))
	}
	return strings.Join(parts, ", ")
}
