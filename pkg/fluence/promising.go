package fluence

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

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
	answered := true
	defer func() {
		if answered {
			a.promises.unpromised.answered(plan.Key)
		}
	}()
	switch {
	case refused.Reason == reason.MatcherUnavailable, refused.WaitsFor == gang.WaitsForAnswer:
		if old != nil {
			// Nothing new is known.
			a.promises.undoubt(plan.Key, now)
			tellPromise(refused, old, "", now)
		}
		return old != nil
	case old != nil && (refused.NodesFound || refused.Reason == reason.TooHard || refused.Reason == reason.MatchError) && !a.promises.doubt(old, now):
		// A moment later the nodes may be used: the scheduler sees ends later than the matcher. Or the next search succeeds.
		bookAgain(ctx, a, plan.Key, old, found.Epoch)
		tellPromise(refused, old, "", now)
		return true
	case refused.Reason != reason.NoRoom || refused.WaitsFor != gang.WaitsForRoom || a.promises.before(rank) >= depth:
		if endPromise(a, plan.Key) && refused.NodesFound {
			a.promises.unpromised.lose(plan.Key, cannotStart, "", now)
		}
		if refused.NodesFound {
			refused.Message = translate.Shorten(refused.Message + a.promises.unpromised.describeLoss(plan.Key, now))
		}
		return false
	}
	// All promises of groups before it count, also for a group without an end.
	later, err := placement.FindLater(ctx, a.placer, found, func() []match.JobID {
		return append(a.promises.ignoredLater(plan.Key, rank), a.queues.promisesAfter(rank)...)
	})
	switch {
	case errors.Is(err, match.ErrInvalid):
		endPromise(a, plan.Key)
		refused.Message = translate.Shorten(refused.Message + "; no room is promised: the matcher's engine has no reservations")
		return false
	case old == nil && (err != nil || later != nil && !later.Reserved):
		// There is no answer, or it fits now by the matcher.
		a.log.V(2).Info("It is not known when a group will fit; it asks again", "group", plan.Key, "err", err)
		answered = false
		a.promises.unpromised.hadNoAnswer(plan.Key, now)
		return false
	}
	fitsNow := later != nil && !later.Reserved // the next ask starts it
	if end := a.walltimes.jobDeadline(plan); later != nil && !fitsNow && !end.IsZero() && !later.Start.Before(end) {
		endPromise(a, plan.Key)
		refused.Message = translate.Shorten(fmt.Sprintf("%s; its deadline %s comes before there is room (%s)", refused.Message, reason.Time(end, now), reason.Time(later.Start, now)))
		return false
	}
	text := ""
	switch {
	case later == nil || fitsNow || later.Start.Sub(now) > maxAhead:
		what, why := noTime, ""
		switch {
		case err != nil:
			what = noAnswer
		case fitsNow:
			what = cannotStart
		case later != nil:
			what = farTime
		}
		if old != nil && err == nil && !fitsNow {
			why, _ = whyLater(a, plan, old, later, now)
		}
		if old == nil || why != "" || a.promises.doubt(old, now) {
			a.log.V(2).Info("A group is not promised room: there is no time at which it is known to fit", "group", plan.Key, "promised", old != nil)
			if endPromise(a, plan.Key) {
				a.promises.unpromised.lose(plan.Key, what, why, now)
			}
			refused.Message = translate.Shorten(refused.Message + a.promises.unpromised.describeLoss(plan.Key, now))
			return false
		}
	default:
		var made *promise
		if made, text = promised(a, plan, old, later, now); made != old {
			if !bookPromise(ctx, a, made, found.Epoch) && old != nil {
				// The old one stands. The new one may have been booked all the same.
				a.releases.add(gang.Release{Job: made.job.ID})
				a.promises.bookedIn(old, 0, now)
				tellPromise(refused, old, "", now)
				return true
			}
			a.promises.set(plan.Key, made)
			if old != nil {
				// At once: the groups after it would be promised room without it otherwise.
				releasePromise(ctx, a, old, found.Epoch)
			}
			a.log.V(2).Info("A group is promised room", "group", plan.Key, "from", made.at(), "nodes", made.nodes.Len(), "before", made.before, "why", made.why)
			followPromise(a, old, made)
			old = made
		}
	}
	bookAgain(ctx, a, plan.Key, old, found.Epoch)
	if !old.at().After(now.Add(promiseDelay)) {
		recheckOverdue(a.base, old.nodes)
	}
	tellPromise(refused, old, text, now)
	return true
}

// tellPromise puts what a group is promised before the message of its refusal, with text behind it. The group asks by itself.
func tellPromise(refused *gang.Refusal, p *promise, text string, now time.Time) {
	refused.Message, refused.Equivalence = translate.Shorten(describePromise(p, now)+text+"; "+refused.Message), ""
}

// maxBookTime is how long the booking of a promise may take in a scheduling cycle.
const maxBookTime = 500 * time.Millisecond

// bookPromise books the reservation of a promise. It returns false if it is not known whether that succeeded. Then the next
// ask books it, which is soon.
func bookPromise(ctx context.Context, a *groupPlacer, p *promise, epoch match.Epoch) bool {
	ctx, cancel := context.WithTimeout(ctx, maxBookTime)
	defer cancel()
	err := a.releases.bookNow(ctx, epoch, p.job)
	if err != nil {
		a.log.V(2).Info("A promise could not be booked; it is tried again", "job", p.job.ID, "err", err)
		epoch = 0
	}
	a.promises.bookedIn(p, epoch, a.now())
	return err == nil
}

// bookAgain books the reservation of a promise that stands if that is not known of an epoch of the matcher's graph.
func bookAgain(ctx context.Context, a *groupPlacer, key types.NamespacedName, p *promise, epoch match.Epoch) {
	if p.booked == epoch {
		return
	}
	bookPromise(ctx, a, p, epoch)
	if a.promises.get(key) != p {
		a.releases.add(gang.Release{Job: p.job.ID}) // it has ended meanwhile
	}
}

// releasePromise releases the reservation of a promise that has moved.
func releasePromise(ctx context.Context, a *groupPlacer, p *promise, epoch match.Epoch) {
	ctx, cancel := context.WithTimeout(ctx, maxBookTime)
	defer cancel()
	if release := (gang.Release{Job: p.job.ID}); a.releases.releaseNow(ctx, epoch, release) != nil {
		a.releases.add(release)
	}
}

// doubtPromise ends the promise of a group that was refused before the matcher was asked, if that lasts.
func doubtPromise(a *groupPlacer, plan gang.Plan, refused *gang.Refusal) {
	p := a.promises.get(plan.Key)
	if p == nil || plan.Late {
		return
	}
	if refused.Reason == reason.MatcherUnavailable || refused.WaitsFor == gang.WaitsForAnswer || refused.WaitsFor == gang.WaitsForThrottle {
		a.promises.undoubt(plan.Key, a.now())
		return
	}
	if !a.promises.doubt(p, a.now()) {
		tellPromise(refused, p, "", a.now())
		return
	}
	if endPromise(a, plan.Key) {
		roomFreed(a.base, gang.Released)
	}
}

// promised returns the promise of a group of which a search has found room later. It is the old one if nothing has changed,
// and for a while if nothing is known that could have moved it to a later time. text is what the message says beside it.
func promised(a *groupPlacer, plan gang.Plan, old *promise, later *match.Allocation, now time.Time) (made *promise, text string) {
	rank, job := rankForRoom(plan), match.Job{Slots: later.Slots, Reserved: true, Start: later.Start, End: later.End}
	var before time.Time
	why := ""
	if old != nil {
		// The matcher drops a reservation whose end has passed.
		over := !old.job.End.IsZero() && !old.job.End.After(now.Add(2*askPromisedEvery))
		switch {
		case old.rank == rank && !over && sameRoom(old.job, job):
			a.promises.confirm(old, now)
			return old, ""
		case later.Start.After(old.at()):
			var overrun bool
			why, overrun = whyLater(a, plan, old, later, now)
			if overrun && !over {
				// Nobody knows when the pods end. The promise stands, so that the group starts then.
				return old, ", which is over: " + why
			}
			if why == "" && !over && !a.promises.doubt(old, now) {
				return old, ""
			}
			if before = old.at(); why == "" {
				why = whyChanged
			} else if why == old.why {
				before = old.before
			}
		case later.Start.After(old.before):
			before, why = old.before, old.why
		}
	}
	made = &promise{rank: rank, job: job, nodes: sets.New(nodesOf(later.Slots)...), madeAt: now, before: before, why: why, askAt: later.Start.Add(promiseDelay), ends: map[types.UID]time.Time{}}
	made.job.ID = a.promises.newJob(plan.Key)
	if old != nil {
		made.changedAt = old.changedAt
		made.askAt = made.askOfChange(now, made.askAt)
	}
	for node := range made.nodes {
		for _, pod := range a.occupants.on(node) {
			made.ends[pod.UID] = a.walltimes.expectedEnd(pod)
		}
	}
	made.strictAt = later.Start.Add(-a.args.Promises.Horizon.Duration)
	if waited := a.groups.WaitsForRoomSince(plan.Key, now).Add(a.args.MaxBypass.Duration); waited.Before(made.strictAt) {
		made.strictAt = waited
	}
	return made, ""
}

// sameEnd is how far two ends of a pod may be apart that are the same: the matcher may have the one of before the bind.
const sameEnd = 2 * time.Second

// sameRoom reports whether two reservations are of the same room for the same pods.
func sameRoom(a, b match.Job) bool {
	if !a.Start.Equal(b.Start) || a.End.IsZero() != b.End.IsZero() || a.End.Sub(b.End).Abs() > sameEnd || len(a.Slots) != len(b.Slots) {
		return false
	}
	for i := range a.Slots {
		s, o := &a.Slots[i], &b.Slots[i]
		if s.Key != o.Key || s.Node != o.Node || s.Holder != o.Holder || !reflect.DeepEqual(s.R.Vertices, o.R.Vertices) {
			return false
		}
	}
	return true
}

// whyChanged is said of a promise that has moved if nothing else is known.
const whyChanged = "its nodes, or what it asks for, have changed"

// whyBefore is what moves a promise if one before it takes its room.
const whyBefore = "a group before it is promised room there"

// followPromise lets others ask again because of a new promise: the groups after it whose room it takes, and everybody if it
// gives room back.
func followPromise(a *groupPlacer, old, made *promise) {
	askAgain(a.base, a.promises.disturbed(made.rank, made.nodes, made.job.End)...)
	for _, key := range a.promises.beyond(a.args.Promises.Depth) {
		endPromise(a, key)
	}
	if old != nil && (made.at().After(old.at()) || !made.nodes.IsSuperset(old.nodes)) {
		roomFreed(a.base, gang.Released)
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
	a.groups.Yield(key, "", nil, a.now())
	askAgain(a.base, key)
	return true
}

// askDisturbed lets the groups ask again whose promised room a group takes that has found nodes. Its own promise stands until it
// has started: a filter may refuse a node yet, and then the group asks again. Nobody may run there until then, but the
// others are promised that room: one that it keeps from them might be promised to a group after them when it starts.
func askDisturbed(a *groupPlacer, plan gang.Plan, slots []match.Slot) {
	a.promises.setLeaves(plan.Key, true)
	if own := a.promises.get(plan.Key); own != nil {
		a.promises.doubt(own, a.now()) // in case that it never starts
	}
	rank := rankForRoom(plan)
	rank.Urgent = goesFirst(plan)
	askAgain(a.base, a.promises.disturbed(rank, sets.New(nodesOf(slots)...), time.Time{})...)
	if len(plan.Room.Nodes) > 0 {
		return // a job has this room already, and nothing is taken from others
	}
	a.queues.Overtaken(rank, nodesOf(slots), func(reader, node string) string {
		return fmt.Sprintf("%s was placed on node %s before it", a.describeGroup(plan.Key, plan.Rank.Priority, reader), node)
	})
}

// stayPromised records that a group asks again, and so does not leave the room that it is promised. Others may have been
// promised this room meanwhile.
func stayPromised(a *groupPlacer, key types.NamespacedName) {
	p := a.promises.setLeaves(key, false)
	if p == nil {
		return
	}
	askAgain(a.base, a.promises.disturbed(p.rank, p.nodes, p.job.End)...)
	for _, beyond := range a.promises.beyond(a.args.Promises.Depth) {
		endPromise(a, beyond)
	}
}

// usePromise ends the promise of a group that has started. Others may take the room that it leaves.
func usePromise(a *groupPlacer, key types.NamespacedName) {
	wasLast, p := a.promises.asked(key), a.promises.drop(key)
	if p != nil {
		a.releases.add(gang.Release{Job: p.job.ID})
		a.groups.Yield(key, "", nil, a.now()) // it may lose its nodes yet, and wait again
	}
	if p != nil || wasLast {
		roomFreed(a.base, gang.Released)
	}
}

// mustLetAsk returns the refusal of a group that lets others ask first.
func mustLetAsk() *gang.Refusal {
	return &gang.Refusal{
		Reason: reason.NoRoom, Message: "others ask first that were promised room before the scheduler was restarted",
		RetryOn: append(gang.ClusterEvents(), gang.Released, gang.MatcherBack), WaitsFor: gang.WaitsForAnswer,
	}
}

// letOthersAsk lets all groups ask when the last has got its answer that was promised room by an earlier process: it is
// promised room again, or does not get any. One that has found nodes has its answer when it starts.
func letOthersAsk(a *groupPlacer, key types.NamespacedName, refused *gang.Refusal) {
	switch {
	case refused == nil, refused.Reason == reason.MatcherUnavailable, refused.NodesFound:
		return
	case refused.WaitsFor == gang.WaitsForAnswer, a.promises.unpromised.isUnanswered(key):
		return
	}
	if a.promises.asked(key) {
		roomFreed(a.base, gang.Released)
	}
}

// endPromises ends the promises of groups that do not wait for room any more. It lets groups ask whose promised time has
// come.
func (w *watcher) endPromises(now time.Time) {
	freed := w.promises.expectNoMore(now)
	gone, unused := w.promises.over(now, w.inventory.Epoch() != 0, w.groups.WaitsForRoom)
	for _, key := range gone {
		freed = endPromise(w.groupPlacer, key) || freed
	}
	for _, key := range unused {
		if endPromise(w.groupPlacer, key) {
			freed = true
			w.promises.unpromised.lose(key, cannotStart, "", now)
		}
	}
	due := w.promises.due(now)
	for _, key := range due {
		if p := w.promises.get(key); p != nil && !now.Before(p.at()) {
			recheckOverdue(w.base, p.nodes)
		}
	}
	askAgain(w.base, due...)
	unanswered := w.promises.unpromised.due(now)
	w.groups.AskAgain(unanswered, now)
	w.activator.activateGroups(unanswered...)
	if freed {
		roomFreed(w.base, gang.Released)
	}
}

// recheckOverdue lets the inventory look again at the pods on some nodes that are past their ends for so long that they count
// as without one, or as ending when somebody makes them. The matcher may still have their ends.
func recheckOverdue(b *base, nodes sets.Set[string]) {
	for node := range nodes {
		for _, pod := range b.occupants.on(node) {
			if end := b.walltimes.expectedEnd(pod); end.IsZero() || end.After(b.now()) {
				b.inventory.Recheck(pod.UID)
			}
		}
	}
}

// describePromise says what a group is promised, as the first part of a message.
func describePromise(p *promise, now time.Time) string {
	text := fmt.Sprintf("promised %s from %s", reason.Plural(p.nodes.Len(), "node"), reason.Time(p.at(), now))
	if p.at().Sub(p.before) >= time.Second && !p.before.IsZero() {
		text += fmt.Sprintf(" (before: from %s; %s)", reason.Time(p.before, now), p.why)
	}
	return text
}

// promisedTo says in a message to the readers of a group to whom room is promised that it lacks, and from when. It
// returns nothing if that is not known.
func promisedTo(b *base, r match.Promised, reader types.NamespacedName) string {
	key, priority, ok := b.promises.owner(r.Job)
	if !ok {
		return promisedToJob(b, r, reader)
	}
	return fmt.Sprintf("%s from %s", b.describeGroup(key, priority, reader.Namespace), reason.Time(r.From, b.now()))
}

// promisedToJob is promisedTo for what is promised to a job of a queue.
func promisedToJob(b *base, r match.Promised, reader types.NamespacedName) string {
	o, ok := b.queues.Owner(r.Job)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s from %s", describeJob(b, o, reader.Namespace), reason.Time(r.From, b.now()))
}
