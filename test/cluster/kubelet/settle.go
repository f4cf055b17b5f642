package kubelet

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// roster is the set of pods that hold or await room on a node at a moment.
type roster map[types.UID]bool

// wait adds a pod to the pods that wait. A newer version replaces the older one in its place.
func (a *account) wait(pod *corev1.Pod) {
	for i, p := range a.waiting {
		if p.UID == pod.UID {
			a.waiting[i] = pod
			return
		}
	}
	a.waiting = append(a.waiting, pod)
}

// inDoubt reports whether a pod waits that does not fit on its node by the ledger.
// The caller must then call settle for the node. Until that call, all later pods of
// the node wait too. Otherwise a later pod could take the room of an earlier one.
func (l *ledger) inDoubt(node string) bool {
	a := l.account(node)
	return a.known && len(a.waiting) > 0
}

// roster returns the pods that a node has now. settle needs a roster taken before its list.
func (l *ledger) roster(node string) roster {
	out := roster{}
	for uid, held := range l.pods {
		if held.node == node {
			out[uid] = true
		}
	}
	for _, pod := range l.account(node).waiting {
		out[pod.UID] = true
	}
	return out
}

// settle corrects a node's account by a list of its pods that was read after the roster
// was taken. A pod of the roster that is not listed, or is listed as finished, loses
// what it holds. It returns verdicts on the pods of the roster that waited, in the order
// of arrival, now including rejections. The list proves nothing about pods that came
// after the roster. They keep what they hold, and remain in doubt if they do not fit.
func (l *ledger) settle(node string, before roster, listed []*corev1.Pod) []verdict {
	lost := maps.Clone(before)
	for _, pod := range listed {
		if !finished(pod) {
			delete(lost, pod.UID)
		}
	}
	a := l.account(node)
	for uid := range l.roster(node) {
		if lost[uid] {
			gone := &corev1.Pod{}
			gone.UID, gone.Spec.NodeName = uid, node
			l.giveBack(gone)
			l.gone[uid] = true
		}
	}
	return l.advance(a, before)
}

// advance decides on the pods that wait, in the order of arrival. It stops at the
// first pod that does not fit and is not in sure. Only pods in sure may be rejected.
func (l *ledger) advance(a *account, sure roster) []verdict {
	var out []verdict
	for a.known && len(a.waiting) > 0 {
		pod := a.waiting[0]
		asked := askedBy(pod)
		name, short := a.short(asked)
		if short && !sure[pod.UID] {
			break
		}
		a.waiting = a.waiting[1:]
		if !short {
			l.charge(pod, asked)
			out = append(out, verdict{pod: pod, admitted: true})
			continue
		}
		l.rejected[pod.UID] = true
		out = append(out, verdict{
			pod:    pod,
			reason: "OutOf" + string(name),
			message: fmt.Sprintf("Pod was rejected: Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
				name, asked[name], a.used[name], a.capacity[name]),
		})
	}
	return out
}
