package fluence

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// groupPlacer places groups in their scheduling cycles, by calls to the matcher.
type groupPlacer struct {
	*base
	throttler     *throttler
	reserver      *reserver
	binder        *binder
	groupReporter *groupReporter
	// nominations are the pods of other schedulers that are nominated to a node.
	nominations nominations
	// endedPods are the pods that have ended, and that the scheduler's cache may still count.
	endedPods endedPods
	// releases is the queue of releases to the matcher.
	releases *releaseQueue
	// timeouts has the namespaces whose matches timed out.
	timeouts timeouts
	// cycle counts the scheduling cycles.
	cycle uint64
}

// placeGroup places all pods of a plan together, and gives each pod its assignment.
// It returns the node of the plan's first pod. The node is "" if another pod of the
// group has to be placed first. If no nodes are found, placeGroup returns the
// refusal. throttlePassed means that the throttle was already checked in this cycle.
func (a *groupPlacer) placeGroup(ctx context.Context, plan gang.Plan, throttlePassed bool, nodes []fwk.NodeInfo) (node string, refused *gang.Refusal) {
	stayPromised(a, plan.Key)
	if queued := whyPlanQueued(a.base, plan); queued != nil {
		return "", queued
	}
	plan, held := takeRoom(a, plan)
	if held != nil {
		return "", held
	}

	// 1. If the namespace is throttled, groups of other namespaces are placed first.
	began := a.now()
	if !throttlePassed && !takes(plan) {
		if throttled := a.throttler.checkThrottle(plan, began); throttled != nil && !a.reserver.takeFreePass(plan) && !a.promises.takePass(plan.Key, began) {
			a.promises.undoubt(plan.Key, began)
			return "", throttled
		}
	}

	if !goesFirst(plan) && !takes(plan) && (a.promises.mustLetAsk(plan.Key, rankForRoom(plan), began) || a.queues.mustLetAsk()) {
		return "", mustLetAsk()
	}

	// 2. Charge the namespace for the time of the remaining steps, whether or not they find nodes.
	budget := placement.NewBudget(ctx, a.now, began, a.args.MaxAsk.Duration)
	defer func() { a.chargeAttempt(plan, budget, refused) }()

	// 3. Find a node for each pod. This step changes
	// only the matcher's graph, not the plugin's state.
	plan = a.reserver.keepPodsWithSameReservedNodes(plan)
	if plan.InsteadOf != nil {
		a.lendSeat(ctx, plan)
		defer func() {
			a.rebookSeat(ctx, plan)
			if refused != nil {
				refused.Message = fmt.Sprintf("asks for more than its seat on node %s, which is kept; %s", plan.InsteadOf.Slots[0].Node, refused.Message)
			}
		}()
	}
	found := a.placer.Place(ctx, budget, plan, nodes)
	if takes(plan) {
		defer func() { roomTaken(a, plan, found, refused) }()
	}
	if !found.MatcherCalled && takes(plan) {
		refuseRoom(a, plan, found, found.Refusal)
		return "", found.Refusal
	}
	if !found.MatcherCalled {
		a.updateClaim(ctx, plan, found, found.Refusal)
		doubtPromise(a, plan, found.Refusal)
		letOthersAsk(a, plan.Key, found.Refusal)
		return "", found.Refusal
	}

	// 4. Handle what the answers mean beyond this group: allocations
	// to release, a stale graph, a matcher that does not answer.
	refused = a.handleMatcherEffects(ctx, plan, found)
	defer func() { letOthersAsk(a, plan.Key, refused) }()

	// 5. Reserve nodes for a group that has waited too long for room.
	if refused != nil && takes(plan) {
		refuseRoom(a, plan, found, refused)
		return "", refused
	}
	if refused != nil {
		a.tellKept(plan, refused)
		a.updateClaim(ctx, plan, found, refused)
		if promiseRoom(ctx, a, plan, found, refused) {
			// The promise keeps the room that it needs, and no more.
			a.reserver.drop(plan)
		} else {
			a.reserver.reserve(ctx, plan, found, refused)
		}
		refused.AlsoRefused = found.FirstShape
		return "", refused
	}

	if takes(plan) && !hasRoomStill(a, plan) {
		a.releases.add(gang.Release{Job: plan.Job})
		return "", &gang.Refusal{Reason: reason.Queued, Message: "its job has lost its room during the match", RetryOn: gang.ClusterEvents(), Backoff: true, NodesFound: true}
	}

	// 6. Give each pod its assignment, and activate the siblings.
	plan.InOrder, plan.Epoch = found.InOrder, found.Epoch
	return a.assign(ctx, plan, found)
}

// chargeAttempt counts and logs an attempt, and charges the namespace for its time.
func (a *groupPlacer) chargeAttempt(plan gang.Plan, budget *placement.Budget, refused *gang.Refusal) {
	a.counters.countAttempt(refused, budget.Elapsed())
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		// If the matcher does not answer, the cause is not known yet. If the namespace's
		// groups turn out to be the cause, handleMatcherEffects charges the namespace.
		a.throttler.charge(plan.Key.Namespace, budget.Used(), refused != nil)
	}
	a.logSlow(plan, refused, budget)
}

// assign gives the pods of a plan the slots that were
// found for them. It returns the same as placeGroup.
func (a *groupPlacer) assign(ctx context.Context, plan gang.Plan, found placement.Result) (string, *gang.Refusal) {
	slots, timeout := found.Slots, plan.Timeout
	if timeout == 0 {
		timeout = a.args.ScheduleTimeout.Duration
	}
	// Call expect before Assign: a pod may lose its assignment right
	// after Assign, and then unexpect has to come after expect.
	ofPods := slotsOfPods(plan, slots)
	a.binder.expect(ofPods)
	node, siblings, out, err := a.groups.Assign(plan, slots, found.At.Add(timeout))
	a.apply(ctx, out)
	if err != nil {
		a.binder.removeFromBindQueue(keysOf(slots)...)
		return "", &gang.Refusal{Reason: reason.Gathering, Message: err.Error(), RetryOn: gang.ClusterEvents(), Backoff: true, NodesFound: true}
	}
	if a.inventory.Epoch() != found.Epoch {
		// The graph was reloaded during the match and may lack these assignments.
		a.apply(ctx, a.groups.RevokeAbandoned(plan.Pod(), plan.Job, found.At))
		a.releases.book(plan.Key) // seats that a started group has got
		return "", &gang.Refusal{Reason: reason.MatcherUnavailable, Message: "the matcher's graph was reloaded during the match", RetryOn: []gang.Event{gang.MatcherBack}}
	}
	askDisturbed(a, plan, slots)
	// All three are called, whatever the others return.
	used, claimed, offered := a.restarts.use(plan.Key, nodesOf(ofPods), !plan.Late), a.useClaim(plan), a.freed.use(plan.Key, a.now(), a.groups.FirstWaiting)
	if used || claimed || offered {
		roomFreed(a.base, gang.Released)
	}
	a.groupReporter.logged.forget(plan.Key)
	a.log.V(2).Info("Group matched", "group", plan.Key, "job", plan.Job, "pods", len(slots), "nodes", countNodes(slots), "took", a.now().Sub(found.At))
	// The siblings come into the queue after this call, but before the next pod is popped.
	a.activator.activatePods(siblings)
	if plan.InOrder && ofPods[0].Key != string(plan.Pod()) {
		// Another pod of the group has to be placed first.
		a.groups.Unclaim(plan.Pod())
		return "", nil
	}
	return node, nil
}

// tellKept adds to a refusal for lack of room for which groups room is kept. A group for which some is kept
// retries by itself.
func (a *groupPlacer) tellKept(plan gang.Plan, refused *gang.Refusal) {
	if len(a.restarts.nodesOf(plan.Key)) > 0 {
		// Its own room is kept from all others, so that it finds nodes where they do not.
		refused.Equivalence = ""
	}
	if refused.Reason != reason.NoRoom {
		return
	}
	least := minPriority(slices.Concat(plan.Required, plan.Optional))
	name := func(key types.NamespacedName, priority int32) string {
		return a.describeGroup(key, priority, plan.Key.Namespace)
	}
	refused.Message += a.restarts.describe(plan.Key, least, a.now(), name)
	refused.Message += a.claims.describe(claimantOf(plan), rankForRoom(plan), goesFirst(plan), name)
	refused.Message += describeLeft(a.base, jobOf(plan.Key), plan.Key.Namespace, a.now())
	if !goesFirst(plan) {
		refused.Message += a.freed.describe(plan.Key, least, rankForRoom(plan), a.now(), name)
	}
}

// goesFirst reports whether the pods of a plan replace members that their group lacks. They go before all others.
func goesFirst(plan gang.Plan) bool { return plan.Late && plan.Missing > 0 }

// nodesOf returns the node of each slot.
func nodesOf(slots []match.Slot) []string {
	nodes := make([]string, len(slots))
	for i := range slots {
		nodes[i] = slots[i].Node
	}
	return nodes
}

// slotsOfPods returns the slots of a plan without the slots of pods that do not exist yet.
func slotsOfPods(plan gang.Plan, slots []match.Slot) []match.Slot {
	if plan.Expected == 0 {
		return slots
	}
	expected := sets.New[string]()
	for _, pod := range plan.Required[len(plan.Required)-plan.Expected:] {
		expected.Insert(string(pod.UID))
	}
	return slices.DeleteFunc(slices.Clone(slots), func(s match.Slot) bool { return expected.Has(s.Key) })
}

// clusterState returns what Place needs besides the plan: the room of nominated pods and of
// pods that have just ended, the nodes reserved for other groups, and the epoch of the graph.
func (a *groupPlacer) clusterState(plan gang.Plan) placement.ClusterState {
	c := clusterStateAnywhere(a, plan)
	keepInQueue(a, plan, &c)
	return c
}

// clusterStateAnywhere is clusterState for a group whose nodes no queue bounds.
func clusterStateAnywhere(a *groupPlacer, plan gang.Plan) placement.ClusterState {
	if takes(plan) {
		return stateOfRoom(a, plan, a.now())
	}
	reserved, now := a.reserver.reservedFor(plan), a.now()
	// Only room of the same or a higher priority counts, as in kube-scheduler.
	least := minPriority(slices.Concat(plan.Required, plan.Optional))
	kept := append(a.restarts.slots(plan.Key, least, a.holdsNode), leftSlots(a.base, jobOf(plan.Key), now)...)
	kept = slices.Concat(kept, a.claims.slots(claimantOf(plan), rankForRoom(plan), goesFirst(plan)))
	if !goesFirst(plan) {
		// A group may have the room that it claims, whoever it is offered to after the pods there have ended.
		kept = slices.Concat(kept, a.freed.slots(plan.Key, least, rankForRoom(plan), a.now(), a.claims.nodesOf(claimantOf(plan))))
	}
	// The filters count these pods anyway, so their room must not count twice. Whoever
	// has the whole node for itself is known by the kept slot alone.
	ended := a.endedPods.slots(a.handle.SnapshotSharedLister().NodeInfos(), now)
	keys := sets.New(keysOf(ended)...)
	for _, s := range leftToJobs(a, plan, now) {
		if !keys.Has(s.Key) {
			keys.Insert(s.Key)
			ended = append(ended, s)
		}
	}
	kept = slices.DeleteFunc(kept, func(s match.Slot) bool { return s.Holder == "" && keys.Has(s.Key) })
	needed := a.walltimes.needed(plan, now)
	overlooked := func() (ignored, spared []match.JobID) { return overlookedBy(a.base, plan, needed, now) }
	ignored, spared := overlooked()
	return placement.ClusterState{
		At:         now,
		Duration:   needed,
		Ignored:    ignored,
		Spared:     spared,
		Overlooked: overlooked,
		Epoch:      a.inventory.Epoch(),
		Expected:   a.nominations.slots(least, now),
		Kept:       kept,
		Ended:      ended,
		Reserved:   reserved,
	}
}

// overlookedBy returns the reservations that a match for a plan overlooks. It also returns which of them a first match spares:
// the promises to groups and jobs after the plan, whose room it takes only if it finds no other. Two kinds of plans spare
// nothing. With optional pods, a first match would place fewer pods, and the others would ignore these reservations a moment
// later. Pods that replace lost members and have no kept end go before everything.
func overlookedBy(b *base, plan gang.Plan, needed time.Duration, now time.Time) (ignored, spared []match.JobID) {
	rank, first := rankForRoom(plan), goesFirst(plan) && needed == 0
	ignored = b.promises.ignoredBy(plan.Key, rank, first, needed > 0, now)
	rank.Urgent = first
	ofJobs := b.queues.promisesAfter(rank)
	if len(plan.Optional) == 0 && !first {
		spared = append(b.promises.sparedBy(plan.Key, rank), ofJobs...)
	}
	return append(ignored, ofJobs...), spared
}

// charge charges a namespace for the time that an attempt took in the scheduling
// loop. failed means that the attempt found no nodes. Its first freePerAttempt,
// which is free otherwise, then counts as time of failed attempts.
func (c *throttler) charge(namespace string, took time.Duration, failed bool) {
	if !c.args.Unthrottled {
		c.counters.countFailedTime(namespace, c.debts.charge(namespace, took, failed, c.now()))
	}
	c.counters.countOverrun(namespace, took-freePerAttempt)
	if _, err := c.namespaces.Get(namespace); apierrors.IsNotFound(err) {
		// The namespace may just have been deleted: then drop what the lines above have created.
		c.forgetNamespace(namespace)
	}
}

// countNodes returns the number of different nodes in slots.
func countNodes(slots []match.Slot) int {
	names := sets.New[string]()
	for i := range slots {
		names.Insert(slots[i].Node)
	}
	return len(names)
}

// handleMatcherEffects handles the consequences of the matcher's answers: metrics, contested
// reservations, allocations to release, a stale graph, and a matcher that does not answer. It
// returns the group's refusal, which is found.Refusal with one exception: if matches of the
// namespace time out again and again while the matcher answers others, the reason is TooHard.
func (a *groupPlacer) handleMatcherEffects(ctx context.Context, plan gang.Plan, found placement.Result) *gang.Refusal {
	key, after, refused := plan.Key, found.Effects, found.Refusal
	a.counters.countPlacement(found.Stats)
	a.reserver.reservations.markContested(found.BlockingTurns, key.Namespace)
	for _, r := range after.Release {
		a.releases.add(r)
	}
	if after.Stale {
		a.inventory.Resync()
	}
	if after.Err != nil {
		klog.FromContext(ctx).Error(after.Err, "Failed to match a group", "group", key, "job", plan.Job)
		if refused.LongBackoff {
			a.throttler.charge(key.Namespace, maxDebt, true)
		}
	}
	if after.TimedOut {
		if blame, owed := a.timeouts.observe(key, a.breaker.confirmedPingCount(), a.args.MatchTimeout.Duration, a.now()); blame {
			a.throttler.charge(key.Namespace, owed, true)
			a.breaker.requestPing()
			return placement.TooHard(whyTimedOut(a.args.MatchTimeout.Duration))
		}
	}
	if after.NoAnswer {
		a.breaker.trip(placement.WhyUnavailable)
	}
	if after.Loading {
		a.breaker.trip(placement.WhyLoading)
	}
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		a.timeouts.clear(key)
	}
	return refused
}
