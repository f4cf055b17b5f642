package podgroup

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionIncomplete is the type of a condition. It is True while a
// group has pods on nodes, but has had fewer than it needs for longer
// than its timeout. A group that was never incomplete does not have it.
const ConditionIncomplete = "Incomplete"

// The shortest and the longest time between two attempts to evict pods. It doubles after each
// attempt (exponential backoff).
const (
	minEvictBackoff = 10 * time.Second
	maxEvictBackoff = 5 * time.Minute
)

// A shortfall is the state that the controller keeps about missing members, from one reconcile to
// the next.
type shortfall struct {
	// since is the time at which the timeout began: when members went missing, or when the number
	// of members on nodes last rose. So the timeout begins again with each pod that is bound.
	since time.Time
	// maxOnNodes is the largest number of members on nodes since then.
	maxOnNodes int32
	// completeWith is the number of pods that the group needed when it was last complete. It is
	// lowered whenever the group needs fewer, and is 0 while no pod of the group is on a node.
	//
	// If the group needs more pods now, the additional ones do not count as missing before all of
	// them have been on nodes. For example, if a group with 4 pods on nodes is to grow to 6, it is
	// incomplete only with fewer than 4.
	completeWith int32
	// isReported is true if the condition Incomplete is True.
	isReported bool
	// restartEventSent is true if the event Restarting was sent.
	restartEventSent bool
	// evictAt is the time of the next attempt to evict.
	evictAt time.Time
	// delay is the time between the last attempt and the next one.
	delay time.Duration
	// evictError is the error of the last eviction that failed. reportedError is the error that the
	// condition shows.
	evictError, reportedError string
}

// An incompleteDecision says what to do about missing members.
type incompleteDecision struct {
	shortfall
	// condition is the condition to set. It is nil to set none.
	condition *metav1.Condition
	// mustWrite is true if the condition must be written at once.
	mustWrite    bool
	evict        []podSet
	events       []pendingEvent
	requeueAfter time.Duration
}

// setCondition sets the condition in a status.
func (v incompleteDecision) setCondition(o observation, s *scheduling.PodGroupStatus) {
	if v.condition != nil {
		v.condition.Type, v.condition.ObservedGeneration = ConditionIncomplete, o.podGroup.Generation
		v.condition.LastTransitionTime = metav1.NewTime(o.now)
		meta.SetStatusCondition(&s.Conditions, *v.condition)
	}
}

// incompletePolicy returns the policy for a group that lacks members, and the time after which the
// policy applies. For an invalid annotation it returns the default, and an error that can be shown
// to users.
func (o observation) incompletePolicy(timeout time.Duration) (policy string, after time.Duration, err error) {
	said, err := o.annotation(group.IncompletePolicyAnnotation)
	if err == nil {
		policy, err = group.ParseIncompletePolicy(said)
	}
	if err != nil {
		policy = group.IncompleteWait
	}
	said, wrong := o.annotation(group.IncompleteTimeoutAnnotation)
	if wrong == nil {
		after, wrong = group.ParseIncompleteTimeout(said, timeout)
	}
	if wrong != nil {
		after = timeout
	}
	return policy, after, cmp.Or(err, wrong)
}

// needs returns how many pods of a group have to be on nodes, and how many are. Jobs need fewer
// pods once they have fewer completions left. In a group without Jobs, a pod that has succeeded
// counts as a pod on a node. For a group whose owners have ended, or want no pods now, both numbers
// are 0, whatever pods are still on nodes.
func (o observation) needs(w sizeDecision) (need, have int32) {
	if o.hasEnded() || o.idle() {
		return 0, 0
	}
	c := countOf(o.pods)
	need, have = o.remainingMin(group.Size{Size: w.size, Min: w.minMember}), c.active
	for _, p := range o.podOwners {
		if p.job != nil {
			return need, have
		}
	}
	return need, have + c.succeeded
}

// updateThreshold updates completeWith, and returns the number of pods below which a group is
// incomplete: the number that it needs now, but at most completeWith once the group has been
// complete. Pods that are added to a running group and still wait are not missing.
func (l *shortfall) updateThreshold(need, have int32) int32 {
	if have >= need {
		l.completeWith = need
	}
	if l.completeWith > 0 {
		l.completeWith = min(l.completeWith, need)
		return l.completeWith
	}
	return need
}

// decideOnIncomplete decides what to do about missing members.
func (c Config) decideOnIncomplete(o observation, w sizeDecision, l shortfall) incompleteDecision {
	before := meta.FindStatusCondition(o.podGroup.Status.Conditions, ConditionIncomplete)
	wasReported := l.isReported || before != nil && before.Status == metav1.ConditionTrue
	active := countOf(o.pods).active
	need, have := o.needs(w)
	if active > 0 && o.isMarked() {
		return incompleteDecision{shortfall: l} // the scheduler evicts the whole group
	}
	if active == 0 {
		return clearIncomplete(wasReported, shortfall{}, active, need, have)
	}
	need = l.updateThreshold(need, have)
	expected := ""
	if have >= need {
		expected = o.whyExpectedMissing()
	}
	if have >= need && expected == "" {
		return clearIncomplete(wasReported, shortfall{completeWith: l.completeWith}, active, need, have)
	}
	policy, timeout, _ := o.incompletePolicy(c.IncompleteTimeout)
	if l.since.IsZero() || have > l.maxOnNodes {
		l.since, l.maxOnNodes = o.now, have
	}
	// Pods that were expected have had their time already.
	if wait := l.since.Add(timeout).Sub(o.now); wait > 0 && !wasReported && expected == "" {
		return incompleteDecision{shortfall: l, requeueAfter: wait}
	}
	v := incompleteDecision{shortfall: l, mustWrite: !wasReported}
	v.isReported = true
	because, text := reason.MembersMissing, fmt.Sprintf("%d of %d pods are on nodes; policy %s", have, need, policy)
	if expected != "" {
		because, text = reason.ExpectedMissing, fmt.Sprintf("%s; policy %s", clip(expected), policy)
	}
	if !wasReported {
		v.events = append(v.events, pendingEvent{eventType: corev1.EventTypeWarning, reason: because, text: text})
	}
	switch {
	case policy != group.IncompleteRestart:
	case l.completeWith == 0 && !isRestarting(before):
		text += "; not evicted: the controller has not seen the group complete since the controller was started"
	default:
		v.restart(o, active)
		because = reason.Restarting
		if v.evictError != "" {
			text += "; not evicted yet: " + v.evictError
		}
		v.mustWrite = v.mustWrite || v.evictError != v.reportedError || !isRestarting(before)
		v.reportedError = v.evictError
	}
	v.condition = &metav1.Condition{Status: metav1.ConditionTrue, Reason: because, Message: text}
	return v
}

// whyExpectedMissing returns the scheduler's message on pods that their owner was to make after others, and
// that did not come while room was held for them. It returns "" if there are none.
func (o observation) whyExpectedMissing() string {
	if o.hasEnded() || o.idle() {
		return ""
	}
	c := meta.FindStatusCondition(o.podGroup.Status.Conditions, scheduling.ConditionSeatsHeld)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason.ExpectedMissing {
		return ""
	}
	return c.Message
}

// isRestarting reports whether the group was being restarted when the condition was written.
func isRestarting(before *metav1.Condition) bool {
	return before != nil && before.Status == metav1.ConditionTrue && before.Reason == reason.Restarting
}

// clearIncomplete returns the decision for a group that is not incomplete: it has enough pods on
// nodes, or none at all, or it needs none. If the condition was True, the decision sets it to False.
func clearIncomplete(wasReported bool, l shortfall, active, need, have int32) incompleteDecision {
	if !wasReported {
		return incompleteDecision{shortfall: l}
	}
	condition := &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason.Complete, Message: fmt.Sprintf("%d pods are on nodes, %d are needed", have, need)}
	switch {
	case need == 0:
		// See needs: then have is 0 although pods may be on nodes.
		condition.Message = "no pods are needed: the owners of the group have ended, or want no pods now"
	case active == 0 && have < need:
		condition.Reason, condition.Message = reason.NotStarted, "no pod of the group is on a node"
	}
	return incompleteDecision{shortfall: l, condition: condition, mustWrite: true}
}

// restart puts the pods to evict into the decision: all pods on nodes that have not ended and are
// not being deleted. As long as any is left, it does so again, with exponential backoff.
func (v *incompleteDecision) restart(o observation, active int32) {
	if wait := v.evictAt.Sub(o.now); wait > 0 {
		v.requeueAfter = wait
		return
	}
	for _, set := range o.pods {
		if set.pod.Spec.NodeName != "" && !hasEnded(set.pod) && set.pod.DeletionTimestamp == nil {
			v.evict = append(v.evict, set)
		}
	}
	v.delay = min(maxEvictBackoff, max(minEvictBackoff, 2*v.delay))
	v.evictAt = o.now.Add(v.delay)
	v.requeueAfter = v.delay
	if !v.restartEventSent {
		v.restartEventSent = true
		v.events = append(v.events, pendingEvent{eventType: corev1.EventTypeNormal, reason: reason.Restarting, text: fmt.Sprintf("Evicting %d pods, so that all pods of the group start again together", active)})
	}
}
