package cli

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// The kinds of PodGroups, of Kubernetes and of Fluence, with their API groups. nativeKind
// begins the names of native PodGroups where they are shown.
const (
	nativeKind = group.NativeKind
	ownKind    = "podgroup.scheduling.x-k8s.io"
)

// shownName returns the name in the key of a group as it is shown, and as
// the command why takes it: KIND/NAME for a native PodGroup.
func shownName(name string) string {
	if name, native := group.NativeName(types.NamespacedName{Name: name}); native {
		return nativeKind + "/" + name
	}
	return name
}

// summaryOf describes a group at a time, by its PodGroup and the pods that were read. Numbers of pods come from
// the pods: the controller counts them later.
func summaryOf(pg *scheduling.PodGroup, pods []*corev1.Pod, now metav1.Time) groupSummary {
	g := groupSummary{
		Namespace: pg.Namespace, Name: shownName(pg.Name), groupNumbers: groupNumbers{Minimum: pg.Spec.MinMember},
		Phase: string(pg.Status.Phase), groupTimes: groupTimes{Created: metav1.NewTime(scheduling.CreationTime(pg).Time)}, Nodes: map[string]int{},
	}
	if refs := pg.OwnerReferences; len(refs) == 1 {
		g.Owner = refs[0].Kind + "/" + refs[0].Name
		if set := leaderWorkerSetOf(pg, pods); set != "" {
			g.Owner, g.Unit = leaderWorkerSet+"/"+set, refs[0].Name
		}
	}
	pods = ofScheduler(pg, pods)
	g.count(pods)
	g.addExpected(pg, pods)
	// The controller writes status.desired within moments after a change of the pods.
	g.Size = max(g.Size, g.Minimum, pg.Status.Desired)
	if len(pods) == 0 {
		g.Succeeded, g.Failed = pg.Status.Succeeded, pg.Status.Failed
	}
	if g.Phase = g.phase(pg, pods); g.isIdle() {
		g.Size = 0
	}
	g.addTimes(pg, pods, now)
	switch g.Status = g.status(pg); g.Status {
	case statusFinished:
		g.addLastReason(pg)
	case statusIdle:
	default:
		g.addReason(pg, pods)
	}
	g.addPromise(now)
	return g
}

// count counts the pods of a group: on nodes, waiting for one, and ended.
func (g *groupSummary) count(pods []*corev1.Pod) {
	for i, pod := range pods {
		if translate.Holds(pod) {
			g.Bound++
			g.Nodes[pod.Spec.NodeName]++
		}
		if waits(pod) {
			g.Pending++
		}
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			g.Succeeded++
		case corev1.PodFailed:
			g.Failed++
		default:
			if pod.DeletionTimestamp == nil {
				g.Size++
			}
		}
		if p := priorityOf(pod); i == 0 || p > g.Priority {
			g.Priority = p
		}
	}
}

// priorityOf returns the priority of a pod.
func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// phase returns the phase of a group. The pods show it where the status does not: in a native PodGroup, and
// until the controller has written that pods have nodes.
func (g *groupSummary) phase(pg *scheduling.PodGroup, pods []*corev1.Pod) string {
	switch phase := pg.Status.Phase; {
	case shownName(pg.Name) != pg.Name:
	case phase == "" && g.Bound > 0, phase == scheduling.PodGroupPending && g.Bound > 0, phase == scheduling.PodGroupScheduling:
	case phase == scheduling.PodGroupRunning && g.Bound == 0:
	case phase == scheduling.PodGroupIdle && g.Bound+g.Pending > 0:
	case phase == scheduling.PodGroupPending && isSuspended(pg):
		return reason.Suspended
	default:
		return string(phase)
	}
	running := g.Succeeded
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	phase := scheduling.PodGroupPending
	switch ended := g.Succeeded + g.Failed; {
	case len(pods) > 0 && g.Failed > 0 && int(ended) == len(pods):
		phase = scheduling.PodGroupFailed
	case len(pods) > 0 && int(ended) == len(pods):
		phase = scheduling.PodGroupFinished
	case running >= max(1, g.Minimum):
		phase = scheduling.PodGroupRunning
	case g.Bound > 0:
		phase = scheduling.PodGroupScheduling
	}
	return string(phase)
}

// hasEnded reports whether a phase is the last one of a group.
func hasEnded(phase string) bool {
	return phase == string(scheduling.PodGroupFinished) || phase == string(scheduling.PodGroupFailed)
}

// isIdle reports whether the owners of a group want no pods.
func (g *groupSummary) isIdle() bool { return g.Phase == string(scheduling.PodGroupIdle) }

// isSuspended reports whether the objects that make the pods of a group are suspended.
func isSuspended(pg *scheduling.PodGroup) bool {
	c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionMembersExpected)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason.Suspended
}

// What a group does at present, for users who look for groups.
const (
	statusWaiting     = "waiting"
	statusRunning     = "running"
	statusSuspended   = "suspended"
	statusIdle        = "idle"
	statusTerminating = "terminating"
	statusFinished    = "finished"
)

// status returns what the group does at present.
func (g *groupSummary) status(pg *scheduling.PodGroup) string {
	switch {
	case g.Bound > 0:
		return statusRunning
	case !g.Ended.IsZero() || hasEnded(g.Phase):
		return statusFinished
	case g.isIdle():
		// Its owner may also be suspended.
		return statusIdle
	case (isSuspended(pg) || g.Phase == reason.Suspended) && g.Pending == 0:
		// The PodGroup can still say so when pods of a resumed owner wait.
		return statusSuspended
	}
	return statusWaiting
}

// addReason adds why the group, or a part of it, waits.
func (g *groupSummary) addReason(pg *scheduling.PodGroup, pods []*corev1.Pod) {
	waiting := slices.ContainsFunc(pods, waits)
	switch c, held := waitingCondition(pg), whyGated(pods); {
	case g.Status == statusSuspended && (c == nil || c.Type != podgroup.ConditionValid):
		g.addSuspension(pg, "the owner of the group is suspended")
	case c != nil && c.Type == podgroup.ConditionValid && g.Bound >= g.Minimum && !waiting:
		g.Fault = c.Reason + ": " + c.Message
	case c != nil && c.Type == report.ConditionScheduled && g.Bound >= max(1, g.Minimum):
		// The pods have nodes, and the scheduler has not written that yet.
	case c != nil:
		g.WaitingFor, g.Message, g.Since = c.Reason, c.Message, g.notBeforeCreation(c.LastTransitionTime)
		g.Decided = decidedAt(pg, c)
	case pg.Status.Phase == scheduling.PodGroupUnknown && g.Bound < g.Minimum:
		g.WaitingFor, g.Message = reason.MembersMissing, fmt.Sprintf("%d of the %d pods that it needs are missing: they ended or were deleted", g.Minimum-g.Bound, g.Minimum)
	case held != "":
		g.WaitingFor, g.Message = corev1.PodReasonSchedulingGated, held
	case waiting:
		if why, message := report.WhyWithoutNodes(pg); why != "" {
			g.WaitingFor, g.Message = why, message
			g.Decided = decidedAt(pg, meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled))
		}
	}
}

// addLastReason adds to a finished group why it had no nodes when it ended, if the condition Scheduled says it.
func (g *groupSummary) addLastReason(pg *scheduling.PodGroup) {
	c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled)
	switch {
	case c == nil || c.Status != metav1.ConditionFalse:
		return
	case c.Reason == reason.Failed, c.Reason == reason.Finished:
		g.Message = c.Message
	default:
		// The scheduler has not written yet that the group ended.
		g.Message = fmt.Sprintf("the group had no nodes when it ended; its reason was %s: %s", c.Reason, c.Message)
	}
	if g.Started.IsZero() && g.Succeeded == 0 && g.Failed == 0 {
		g.Message = "it never ran: " + g.Message
	}
}

// notBeforeCreation returns a time, or the creation of the group if that is later: a controller may make
// the PodGroup anew, with the time of the first one.
func (g *groupSummary) notBeforeCreation(t metav1.Time) metav1.Time {
	if t.Before(&g.Created) {
		return g.Created
	}
	return t
}

// decidedAt returns when the scheduler wrote a condition. It returns zero if another program wrote it, or if
// the time is not known.
func decidedAt(pg *scheduling.PodGroup, c *metav1.Condition) metav1.Time {
	if c.Type != report.ConditionScheduled {
		return metav1.Time{}
	}
	return metav1.NewTime(writtenBy(pg, report.FieldManager))
}

const (
	// leaderWorkerSet is a kind. leaderWorkerSetLabel is the label with its name on the pods of its units.
	leaderWorkerSet      = "LeaderWorkerSet"
	leaderWorkerSetLabel = "leaderworkerset.sigs.k8s.io/name"
)

// leaderWorkerSetOf returns the name of the LeaderWorkerSet of which the group is a unit. It returns "" if
// the group is none: the owner of a unit's PodGroup is the leader pod.
func leaderWorkerSetOf(pg *scheduling.PodGroup, pods []*corev1.Pod) string {
	if refs := pg.OwnerReferences; len(refs) != 1 || refs[0].Kind != "Pod" {
		return ""
	}
	for _, pod := range pods {
		if set := pod.Labels[leaderWorkerSetLabel]; set != "" {
			return set
		}
	}
	return ""
}

// ofScheduler leaves out the pods of other schedulers, which the group does not count. If the controller
// did not make the PodGroup, its scheduler is not known, and no pod is left out.
func ofScheduler(pg *scheduling.PodGroup, pods []*corev1.Pod) []*corev1.Pod {
	scheduler := pg.Annotations[podgroup.SchedulerAnnotation]
	if scheduler == "" {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName != scheduler })
}

// waitingCondition returns the condition that says why a group waits: Valid if it is False, else
// Scheduled if it is False, else MembersExpected if it is False, else Incomplete if it is True. It
// returns nil if there is none.
func waitingCondition(pg *scheduling.PodGroup) *metav1.Condition {
	for _, c := range []struct {
		kind string
		when metav1.ConditionStatus
	}{
		{podgroup.ConditionValid, metav1.ConditionFalse},
		{report.ConditionScheduled, metav1.ConditionFalse},
		{scheduling.ConditionMembersExpected, metav1.ConditionFalse},
		{podgroup.ConditionIncomplete, metav1.ConditionTrue},
	} {
		if found := meta.FindStatusCondition(pg.Status.Conditions, c.kind); found != nil && found.Status == c.when {
			return found
		}
	}
	return nil
}
