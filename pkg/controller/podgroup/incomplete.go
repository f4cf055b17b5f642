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

// ConditionIncomplete is the type of the condition that says whether a group has
// pods on nodes, but has had fewer than it needs for longer than its timeout. A
// group that never came to that has none.
const ConditionIncomplete = "Incomplete"

// Times between two attempts to evict pods that may not be evicted yet.
const (
	firstEvictDelay = 10 * time.Second
	lastEvictDelay  = 5 * time.Minute
)

// A lack is what is remembered of members that are missing.
type shortfall struct {
	// since is when the group began to lack members, or last gained one: one whose
	// pods are being bound is on its way.
	since time.Time
	// maxOnNodes is how many it has had on nodes since then.
	maxOnNodes int32
	// completeWith is the need that the group has met since it last had no pod on a node,
	// as far as it still has that need; 0 is none. What it never had is not lost.
	completeWith int32
	// isReported says that the group was told to be incomplete.
	isReported bool
	// restarting says that the eviction was told, evictAt when it is tried again
	// and delay how long after the last time.
	restarting bool
	evictAt    time.Time
	delay      time.Duration
	// evictError is why the last eviction was not made, and told what of it was.
	evictError, reportedError string
}

// A verdict is what is to be done about members that are missing.
type incompleteDecision struct {
	shortfall
	// condition is nil if it is to stay away.
	condition *metav1.Condition
	// mustWrite says that it must be written at once.
	mustWrite bool
	evict     []*corev1.Pod
	events    []pendingEvent
	after     time.Duration
}

// setCondition sets the condition.
func (v incompleteDecision) setCondition(o observation, s *scheduling.PodGroupStatus) {
	if v.condition != nil {
		v.condition.Type, v.condition.ObservedGeneration = ConditionIncomplete, o.podGroup.Generation
		v.condition.LastTransitionTime = metav1.NewTime(o.now)
		meta.SetStatusCondition(&s.Conditions, *v.condition)
	}
}

// incompletePolicy returns what is to become of a group that lacks members, and after
// which time. For a wrong annotation it returns the default and an error, which
// names it in words fit for a user.
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

// needs returns how many pods of a group have to be on nodes, and how many are.
// Jobs need fewer while they run out; in a group without Jobs the pods that have
// succeeded count. What has ended, or wants no pods now, needs none.
func (o observation) needs(w wantedSize) (need, have int32) {
	if o.hasEnded() || o.idle() {
		return 0, 0
	}
	c := countOf(o.pods)
	need, have = o.capMin(group.Size{Size: w.size, Min: w.minMember}), c.active
	for _, p := range o.podOwners {
		if p.job != nil {
			return need, have
		}
	}
	return need, have + c.succeeded
}

// threshold returns how many pods of its need a group must not be without: all, or once
// it was whole as many as it was whole with. Who asks for more of a group that runs
// has lost nothing while these wait.
func (l *shortfall) threshold(need, have int32) int32 {
	if have >= need {
		l.completeWith = need
	}
	if l.completeWith > 0 {
		l.completeWith = min(l.completeWith, need)
		return l.completeWith
	}
	return need
}

// decideOnIncomplete decides about members that are missing.
func (c Config) decideOnIncomplete(o observation, w wantedSize, l shortfall) incompleteDecision {
	before := meta.FindStatusCondition(o.podGroup.Status.Conditions, ConditionIncomplete)
	wasReported := l.isReported || before != nil && before.Status == metav1.ConditionTrue
	serving := countOf(o.pods).active
	need, have := o.needs(w)
	if serving == 0 {
		return completeDecision(wasReported, shortfall{}, serving, need, have)
	}
	if need = l.threshold(need, have); have >= need {
		return completeDecision(wasReported, shortfall{completeWith: l.completeWith}, serving, need, have)
	}
	policy, timeout, _ := o.incompletePolicy(c.IncompleteTimeout)
	if l.since.IsZero() || have > l.maxOnNodes {
		l.since, l.maxOnNodes = o.now, have
	}
	if wait := l.since.Add(timeout).Sub(o.now); wait > 0 && !wasReported {
		return incompleteDecision{shortfall: l, after: wait}
	}
	v := incompleteDecision{shortfall: l, mustWrite: !wasReported}
	v.isReported = true
	because, text := reason.MembersMissing, fmt.Sprintf("%d of %d pods are on nodes; policy %s", have, need, policy)
	if !wasReported {
		v.events = append(v.events, pendingEvent{eventType: corev1.EventTypeWarning, reason: because, text: text})
	}
	switch {
	case policy != group.IncompleteRestart:
	case l.completeWith == 0 && !isRestarting(before):
		text += "; not evicted, for the controller has not seen the group whole since it was started"
	default:
		v.restart(o, serving)
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

// isRestarting says that the group was being restarted when the condition was written.
func isRestarting(before *metav1.Condition) bool {
	return before != nil && before.Status == metav1.ConditionTrue && before.Reason == reason.Restarting
}

// completeDecision is the verdict on a group that lacks nothing.
func completeDecision(wasReported bool, l shortfall, serving, need, have int32) incompleteDecision {
	if !wasReported {
		return incompleteDecision{shortfall: l}
	}
	condition := &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason.Complete, Message: fmt.Sprintf("%d pods are on nodes, %d are needed", have, need)}
	if serving == 0 && have < need {
		condition.Reason, condition.Message = reason.NotStarted, "no pod of the group is on a node"
	}
	return incompleteDecision{shortfall: l, condition: condition, mustWrite: true}
}

// restart evicts the pods that hold nodes, again and again until all are gone.
// What has succeeded holds none.
func (v *incompleteDecision) restart(o observation, serving int32) {
	if wait := v.evictAt.Sub(o.now); wait > 0 {
		v.after = wait
		return
	}
	for _, pod := range o.pods {
		if pod.Spec.NodeName != "" && !hasEnded(pod) && pod.DeletionTimestamp == nil {
			v.evict = append(v.evict, pod)
		}
	}
	v.delay = min(lastEvictDelay, max(firstEvictDelay, 2*v.delay))
	v.evictAt = o.now.Add(v.delay)
	v.after = v.delay
	if !v.restarting {
		v.restarting = true
		v.events = append(v.events, pendingEvent{eventType: corev1.EventTypeNormal, reason: reason.Restarting, text: fmt.Sprintf("Evicting %d pods, so that the group starts again as a whole", serving)})
	}
}
