package podgroup

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A lostMember is a pod that was on a node, and is not any more or will soon not be, though it has not
// succeeded. It is zero for none.
type lostMember struct {
	pod, node string
	// how says what has become of the pod.
	how string
	// more is the number of other pods that were lost with it.
	more int32
}

// maxLost bounds the names in podIndex.lost, which has names that are no group's.
const maxLost = 10000

// noteLost notes a pod that leaves its node, under the names of the groups that it can be in. after is the
// pod as it is now, or nil if it is gone. The caller holds the lock.
func (x *podIndex) noteLost(p *indexedPod, after *corev1.Pod) {
	was := p.set.traits
	if !was.onNode || was.deleting || hasEnded(p.pod) {
		return
	}
	how := "was deleted"
	switch {
	case after == nil || after.UID != p.pod.UID:
	case after.Status.Phase == corev1.PodFailed:
		how = "has failed"
		if after.Status.Reason != "" {
			how += " (" + after.Status.Reason + ")"
		}
	case after.DeletionTimestamp != nil && after.Status.Phase != corev1.PodSucceeded:
		how = "is being deleted"
	default:
		return
	}
	if len(x.lost) >= maxLost {
		clear(x.lost)
	}
	for _, name := range p.set.names {
		key := types.NamespacedName{Namespace: was.namespace, Name: name}
		if l, known := x.lost[key]; known {
			l.more++
			x.lost[key] = l
			continue
		}
		x.lost[key] = lostMember{pod: p.pod.Name, node: p.pod.Spec.NodeName, how: how}
	}
}

// takeLost returns a member that was lost since the last call.
func (x *podIndex) takeLost(key types.NamespacedName) lostMember {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.lost[key]
	delete(x.lost, key)
	return l
}

// membersTold is what the events about members of a started group have said.
type membersTold struct {
	// lost is the first member that was lost since the group was complete. lostTold is true if an
	// event named it.
	lost     lostMember
	lostTold bool
	// lostAt is the time of the last event MemberLost.
	lostAt time.Time
	// partly is true if a group that has started was seen with fewer pods on nodes than it wants.
	// allPlaced is the number of pods of the last event AllPlaced.
	partly    bool
	allPlaced int32
}

// lose adds members that were lost.
func (t *membersTold) lose(l lostMember) {
	switch {
	case l.pod == "":
	case t.lost.pod == "":
		t.lost = l
	default:
		t.lost.more += 1 + l.more
	}
}

// newEvents returns the events about a group's members that were not sent yet. l is the group's shortfall
// before this decision. No MemberLost follows another within quiet: a rolling update takes one pod after
// another. A Recovered follows each MemberLost, and a condition Incomplete that was True.
func (t *membersTold) newEvents(o observation, w sizeDecision, next *scheduling.PodGroupStatus, l shortfall, quiet time.Duration) []pendingEvent {
	need, have := o.needs(w)
	if need == 0 || final(next.Phase) || o.whySuspended() != "" {
		*t = membersTold{}
		return nil
	}
	var notes []pendingEvent
	need = min(need, cmp.Or(l.completeWith, need))
	switch {
	case have >= need:
		if t.lostTold || l.isReported {
			notes = append(notes, pendingEvent{eventType: corev1.EventTypeNormal, reason: reason.Recovered, text: fmt.Sprintf("%d of %d pods are on nodes again", have, need)})
		}
		t.lost, t.lostTold = lostMember{}, false
	case l.completeWith > 0 && t.lost.pod != "" && !t.lostTold && (t.lostAt.IsZero() || o.now.Sub(t.lostAt) >= quiet):
		text := fmt.Sprintf("pod %s on node %s %s", t.lost.pod, t.lost.node, clip(t.lost.how))
		if t.lost.more > 0 {
			text += fmt.Sprintf(", and %d more are lost", t.lost.more)
		}
		notes = append(notes, pendingEvent{eventType: corev1.EventTypeWarning, reason: reason.MemberLost, text: fmt.Sprintf("%s: %d of %d pods are on nodes", text, have, need)})
		t.lostTold, t.lostAt = true, o.now
	}
	switch {
	case next.Desired <= w.minMember || next.Scheduled < w.minMember:
	case next.Scheduled < next.Desired:
		t.partly = true
	case max(next.Scheduled, countOf(o.pods).unended) > next.Desired: // such as during a rollout
	case t.partly && t.allPlaced != next.Desired:
		t.partly, t.allPlaced = false, next.Desired
		notes = append(notes, pendingEvent{eventType: corev1.EventTypeNormal, reason: reason.AllPlaced, text: fmt.Sprintf("all %d pods have nodes; the group starts with %d", next.Desired, w.minMember)})
	}
	return notes
}
