package fluence

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// whyLater returns what has moved a promise to a later time, or has ended it if later is nil. It returns nothing if that is
// not known. overrun reports whether it is a pod that is past its end, so that nobody knows the new time.
func whyLater(a *groupPlacer, plan gang.Plan, old *promise, later *match.Allocation, now time.Time) (why string, overrun bool) {
	nodes := sets.List(old.nodes)
	for _, name := range nodes {
		node, err := a.nodes.Get(name)
		switch {
		case err != nil:
			return "node " + name + " is gone", false
		case !nodeutil.IsNodeReady(node):
			return "node " + name + " is not ready", false
		case node.Spec.Unschedulable:
			return "node " + name + " is cordoned", false
		}
	}
	m := movers{never: later == nil}
	var from time.Time
	var still sets.Set[string]
	if later != nil {
		from, still = later.Start, sets.New(nodesOf(later.Slots)...)
	}
	for _, name := range nodes {
		for _, pod := range a.occupants.on(name) {
			m.add(a.base, old, pod, from, still.Has(name), now)
		}
	}
	name := func(pod *corev1.Pod) string {
		if !a.mayName(pod.Namespace, plan.Key.Namespace) {
			return "a pod of another namespace"
		}
		return "pod " + podName(pod)
	}
	isOver := !old.at().After(now)
	switch {
	case m.overdue != nil && later == nil:
		return fmt.Sprintf("%s should have ended at %s", name(m.overdue), reason.Time(old.ends[m.overdue.UID], now)), false
	case m.overdue != nil && (isOver || m.foreign == nil && m.placed == nil && m.edited == nil):
		return fmt.Sprintf("%s should have ended at %s", name(m.overdue), reason.Time(a.walltimes.expectedEnd(m.overdue), now)), isOver
	case m.foreign != nil:
		return fmt.Sprintf("%s of another scheduler is on node %s", name(m.foreign), m.foreign.Spec.NodeName), false
	case m.placed != nil:
		return fmt.Sprintf("%s was placed on node %s before it", name(m.placed), m.placed.Spec.NodeName), false
	case m.edited != nil:
		if end := a.walltimes.expectedEnd(m.edited); !end.IsZero() {
			return fmt.Sprintf("%s ends later now, at %s", name(m.edited), reason.Time(end, now)), false
		}
		return name(m.edited) + " has no end any more", false
	case later != nil && a.promises.meets(old.rank, old.nodes):
		return whyBefore, false
	}
	return "", false
}

// movers are pods that may have moved a promise, one of each kind. A nil one is none.
type movers struct {
	// never is set if there is no time any more from which on the room could be promised. Only a pod without an end does that.
	never bool
	// overdue is past its end, foreign was placed by others, placed by Fluence since the promise, and edited ends later than
	// before.
	overdue, foreign, placed, edited *corev1.Pod
}

// add adds a pod if it may have moved a promise to a time from which on. Room becomes free at the end of a pod. So a pod that
// ends at another time has not moved the promise, unless the pod's node is not promised still.
func (m *movers) add(b *base, old *promise, pod *corev1.Pod, from time.Time, still bool, now time.Time) {
	first := func(of **corev1.Pod) {
		if *of == nil {
			*of = pod
		}
	}
	end := b.walltimes.expectedEnd(pod)
	was, known := old.ends[pod.UID]
	switch {
	case m.never && !end.IsZero():
	case m.never && known && !was.IsZero() && !was.After(now):
		first(&m.overdue)
	case !end.IsZero() && end.Before(now):
		first(&m.overdue)
	case !end.IsZero() && !end.After(old.at()):
	case still && end.Sub(from).Abs() > sameEnd:
	case known && (was.IsZero() || !end.IsZero() && !end.After(was)):
	case known:
		first(&m.edited)
	case !b.isOwnScheduler(pod.Spec.SchedulerName):
		first(&m.foreign)
	default:
		first(&m.placed)
	}
}
