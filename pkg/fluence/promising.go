package fluence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// promiseRoom promises room to a group that was just refused for lack of room, if it is one of the first that wait. It adds
// the promise to the refusal's message. It reports whether the group has a promise.
func promiseRoom(ctx context.Context, a *groupPlacer, plan gang.Plan, found placement.Result, refused *gang.Refusal) bool {
	depth := a.args.Promises.Depth
	if depth == 0 || plan.Late {
		return false
	}
	old, rank, now := a.promises.get(plan.Key), rankForRoom(plan), a.now()
	switch {
	case refused.Reason == reason.MatcherUnavailable, refused.WaitsFor == gang.WaitsForAnswer:
		return old != nil // nothing new is known
	case refused.Reason != reason.NoRoom || refused.WaitsFor != gang.WaitsForRoom || a.promises.before(rank) >= depth:
		endPromise(a, plan.Key)
		return false
	}
	// All promises of groups before it count, also for a group without an end.
	later, err := a.placer.FindLater(ctx, found, a.promises.ignoredBy(plan.Key, rank, false, true, now))
	tell := func(text string) {
		refused.Message, refused.Equivalence = translate.Shorten(text+"; "+refused.Message), ""
	}
	switch {
	case errors.Is(err, match.ErrInvalid):
		endPromise(a, plan.Key)
		refused.Message = translate.Shorten(refused.Message + "; no room is promised: the matcher's engine has no reservations")
		return false
	case err != nil && old == nil, later != nil && !later.Reserved:
		return old != nil
	case later == nil && err == nil:
		if old != nil {
			a.log.V(2).Info("A promise has ended: there is no time at which the group is known to fit", "group", plan.Key, "was", old.at())
		}
		endPromise(a, plan.Key)
		return false
	}
	made := old
	if later != nil {
		made = promised(a, plan, old, later, now)
	}
	if made != old {
		if err := a.releases.bookNow(ctx, found.Epoch, made.job); err != nil {
			a.log.V(2).Info("A promise could not be booked", "group", plan.Key, "err", err)
			return old != nil
		}
		a.promises.set(plan.Key, made)
		followPromise(a, old, made)
		a.log.V(2).Info("A group is promised room", "group", plan.Key, "from", made.at(), "nodes", made.nodes.Len(), "before", made.before, "why", made.why)
	}
	tell(describePromise(made, now))
	return true
}

// promised returns the promise of a group of which a search has found room later. It is the old one if nothing has changed,
// or if nothing is known that could have moved it to a later time.
func promised(a *groupPlacer, plan gang.Plan, old *promise, later *match.Allocation, now time.Time) *promise {
	made := &promise{rank: rankForRoom(plan), madeAt: now, askAt: later.Start.Add(promiseDelay)}
	made.nodes, made.ends = sets.New(nodesOf(later.Slots)...), map[types.UID]time.Time{}
	for node := range made.nodes {
		for _, pod := range a.occupants.on(node) {
			made.ends[pod.UID] = a.walltimes.expectedEnd(pod)
		}
	}
	made.job = match.Job{Slots: later.Slots, Reserved: true, Start: later.Start, End: later.End}
	made.strictAt = later.Start.Add(-a.args.Promises.Horizon.Duration)
	if waited := a.groups.WaitsForRoomSince(plan.Key, now).Add(a.args.MaxBypass.Duration); waited.Before(made.strictAt) {
		made.strictAt = waited
	}
	if old == nil {
		made.job.ID = a.promises.newJob(plan.Key)
		return made
	}
	same := made.nodes.Equal(old.nodes)
	switch {
	case later.Start.Equal(old.at()) && same && old.rank == made.rank:
		return old
	case later.Start.After(old.at()):
		if made.before, made.why = old.at(), whyLater(a, plan, old, now); made.why == "" {
			return old // the search may have been cut short
		}
		if !old.before.IsZero() && old.why == made.why {
			made.before = old.before
		}
		if same && !now.Before(old.at()) {
			made.askAt = now.Add(askPromisedEvery)
		}
	case !old.before.IsZero() && later.Start.After(old.before):
		made.before, made.why = old.before, old.why
	}
	made.job.ID, made.madeAt = old.job.ID, old.madeAt
	return made
}

// whyLater returns what has moved a promise to a later time. It returns nothing if that is not known.
func whyLater(a *groupPlacer, plan gang.Plan, old *promise, now time.Time) string {
	nodes := sets.List(old.nodes)
	for _, name := range nodes {
		node, err := a.nodes.Get(name)
		switch {
		case err != nil:
			return "node " + name + " is gone"
		case !nodeutil.IsNodeReady(node):
			return "node " + name + " is not ready"
		case node.Spec.Unschedulable:
			return "node " + name + " is cordoned"
		}
	}
	var overdue, foreign, placed, edited *corev1.Pod
	first := func(of **corev1.Pod, pod *corev1.Pod) {
		if *of == nil {
			*of = pod
		}
	}
	for _, name := range nodes {
		for _, pod := range a.occupants.on(name) {
			end := a.walltimes.expectedEnd(pod)
			was, known := old.ends[pod.UID]
			switch {
			case !end.IsZero() && end.Before(now):
				first(&overdue, pod)
			case !end.IsZero() && !end.After(old.at()):
			case known && (was.IsZero() || !end.IsZero() && !end.After(was)):
			case known:
				first(&edited, pod)
			case !a.isOwnScheduler(pod.Spec.SchedulerName):
				first(&foreign, pod)
			default:
				first(&placed, pod)
			}
		}
	}
	name := func(pod *corev1.Pod) string {
		if !a.mayName(pod.Namespace, plan.Key.Namespace) {
			return "a pod of another namespace"
		}
		return "pod " + podName(pod)
	}
	switch before := a.promises.before(old.rank); {
	case overdue != nil:
		return fmt.Sprintf("%s should have ended at %s", name(overdue), timeText(a.walltimes.expectedEnd(overdue), now))
	case foreign != nil:
		return fmt.Sprintf("%s of another scheduler is on node %s", name(foreign), foreign.Spec.NodeName)
	case placed != nil:
		return fmt.Sprintf("%s was placed on node %s before it", name(placed), placed.Spec.NodeName)
	case edited != nil:
		if end := a.walltimes.expectedEnd(edited); !end.IsZero() {
			return fmt.Sprintf("%s ends later now, at %s", name(edited), timeText(end, now))
		}
		return name(edited) + " has no end any more"
	case before > 0:
		return "a group before it is promised room there"
	}
	return ""
}

// followPromise lets others ask again because of a new promise: the groups after it whose room it takes, and everybody if it
// gives room back.
func followPromise(a *groupPlacer, old, made *promise) {
	askAgain(a.base, a.promises.disturbed(made.rank, made.nodes, made.job.End)...)
	for _, key := range a.promises.beyond(a.args.Promises.Depth) {
		endPromise(a, key)
	}
	if old != nil && (made.at().After(old.at()) || !made.nodes.Equal(old.nodes)) {
		a.observeEvent(gang.Released)
	}
}

// askAgain lets groups ask again.
func askAgain(b *base, keys ...types.NamespacedName) {
	for _, key := range keys {
		b.groups.RetryNow(key)
		b.activator.activateGroups(key)
	}
}

// endPromise ends the promise of a group. It reports whether there was one, so that others may take the room.
func endPromise(a *groupPlacer, key types.NamespacedName) bool {
	p := a.promises.drop(key)
	if p == nil {
		return false
	}
	a.releases.add(gang.Release{Job: p.job.ID})
	askAgain(a.base, key)
	return true
}

// usePromise ends the promise of a group that starts. The groups after it ask again whose promised room it
// takes. It reports whether others may take room by that.
func usePromise(a *groupPlacer, plan gang.Plan, slots []match.Slot) bool {
	p := a.promises.drop(plan.Key)
	if p != nil {
		a.releases.add(gang.Release{Job: p.job.ID})
	}
	rank := rankForRoom(plan)
	rank.Urgent = goesFirst(plan)
	askAgain(a.base, a.promises.disturbed(rank, sets.New(nodesOf(slots)...), time.Time{})...)
	return p != nil
}

// endPromises ends the promises of groups that do not wait for room any more. It lets groups ask whose promised time has
// come.
func (w *watcher) endPromises(now time.Time) {
	freed := false
	for _, key := range w.promises.over(now, w.groups.WaitsForRoom) {
		freed = endPromise(w.groupPlacer, key) || freed
	}
	askAgain(w.base, w.promises.due(now)...)
	if freed {
		w.observeEvent(gang.Released)
	}
}

// describePromise says what a group is promised, as the first part of a message.
func describePromise(p *promise, now time.Time) string {
	text := fmt.Sprintf("promised %s from %s", reason.Plural(p.nodes.Len(), "node"), timeText(p.at(), now))
	if !p.before.IsZero() {
		text += fmt.Sprintf(" (before: from %s; %s)", timeText(p.before, now), p.why)
	}
	return text
}

// promisedTo says in a message to the readers of a group to whom room is promised that it lacks, and from when. It
// returns nothing if that is not known.
func promisedTo(b *base, r match.Promised, reader types.NamespacedName) string {
	key, priority, ok := b.promises.owner(r.Job)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s from %s", b.describeGroup(key, priority, reader.Namespace), timeText(r.From, b.now()))
}

// timeText returns a time of today without its date.
func timeText(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if slices.Equal([]int{at.Year(), at.YearDay()}, []int{now.Year(), now.YearDay()}) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
