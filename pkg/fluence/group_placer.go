package fluence

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// An asker asks the matcher for groups in their scheduling cycles.
type groupPlacer struct {
	*base
	accounts      *accounts
	reserver      *reserver
	binder        *binder
	groupReporter *groupReporter
	// nominations are pods of others that are about to take room, and returns what the matcher is to be
	// given back.
	nominations nominations
	releases    *releaseQueue
	timeouts    timeouts
}

// placeGroup makes one match for all pods of a plan and seats them. It returns the node
// of the pod that asked, empty if another pod has to come to its node first, or why there is none.
// MayAsk is that its namespace was found to be allowed to ask already.
func (a *groupPlacer) placeGroup(ctx context.Context, plan gang.Plan, throttlePassed bool, nodes []fwk.NodeInfo) (node string, refused *gang.Refusal) {
	// 1. A namespace that is in debt has others ask first.
	began := a.now()
	if !throttlePassed {
		if owes := a.accounts.checkThrottle(plan, began); owes != nil && !a.reserver.useFreePass(plan) {
			return "", owes
		}
	}

	// 2. The namespace pays for what the rest takes, whatever comes of it.
	budget := placement.NewBudget(ctx, a.now, began, a.args.MaxAsk.Duration)
	defer func() { a.chargeAttempt(plan, budget, refused) }()

	// 3. Find a node for each pod. This changes nothing but the matcher's graph.
	plan = a.reserver.withSameReserved(plan)
	found := a.placer.Place(ctx, budget, plan, nodes)
	if !found.MatcherCalled {
		return "", found.Refusal
	}

	// 4. See to what the answer says of the matcher.
	refused = a.handleMatcherEffects(ctx, plan, found)

	// 5. A group that has waited for room for too long has nodes reserved for it.
	if refused != nil {
		a.reserver.reserve(ctx, plan, found, refused)
		refused.AlsoRefused = found.FirstShape
		return "", refused
	}

	// 6. Give each pod its seat, and wake the siblings of the pod that asked.
	plan.InOrder = found.InOrder
	return a.assign(ctx, plan, found)
}

// chargeAttempt counts an enquiry, and has its namespace pay for it.
func (a *groupPlacer) chargeAttempt(plan gang.Plan, budget *placement.Budget, refused *gang.Refusal) {
	a.counters.countAttempt(refused, budget.Elapsed())
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		// A matcher that does not answer is nobody's fault, until that is known.
		a.accounts.charge(plan.Key.Namespace, budget.Took(), refused != nil)
	}
	a.logSlow(plan, refused, budget)
}

// assign gives the pods of a plan the slots that were found for them. It returns what ask does.
func (a *groupPlacer) assign(ctx context.Context, plan gang.Plan, found placement.Result) (string, *gang.Refusal) {
	slots, timeout := found.Slots, plan.Timeout
	if timeout == 0 {
		timeout = a.args.ScheduleTimeout.Duration
	}
	// Before they have their seats: one that loses its seat is no longer expected.
	a.binder.expect(slots)
	node, siblings, out, err := a.groups.Assign(plan, slots, found.At.Add(timeout))
	a.apply(ctx, out)
	if err != nil {
		a.binder.unexpect(keysOf(slots)...)
		return "", &gang.Refusal{Reason: reason.Gathering, Message: err.Error(), RetryOn: gang.ClusterEvents(), Backoff: true, NodesFound: true}
	}
	if a.inventory.Epoch() != found.Epoch {
		// The graph was filled anew, perhaps without these seats.
		a.apply(ctx, a.groups.RevokeLost(plan.Pod(), plan.Job, found.At))
		return "", &gang.Refusal{Reason: reason.MatcherUnavailable, Message: "the matcher's graph was loaded anew during the match", RetryOn: []gang.Event{gang.MatcherBack}}
	}
	a.groupReporter.logged.forget(plan.Key)
	a.log.V(2).Info("Group matched", "group", plan.Key, "job", plan.Job, "pods", len(slots), "nodes", countNodes(slots), "took", a.now().Sub(found.At))
	// Not from here: the queue is told when this cycle is over the match.
	a.activator.activatePods(siblings)
	if plan.InOrder && slots[0].Key != string(plan.Pod()) {
		// Another comes first.
		a.groups.Unclaim(plan.Pod())
		return "", nil
	}
	return node, nil
}

// clusterState is what is others' as it is now, and the matcher's epoch.
func (a *groupPlacer) clusterState(plan gang.Plan) placement.ClusterState {
	reserved, now := a.reserver.reservedFor(plan), a.now()
	return placement.ClusterState{
		At:    now,
		Epoch: a.inventory.Epoch(),
		// As kube-scheduler does when it filters.
		Expected: a.nominations.slots(minPriority(slices.Concat(plan.Required, plan.Optional)), now),
		Reserved: reserved,
	}
}

// charge has a namespace pay for what an enquiry took of the loop, and for what it took in vain
// if it found no nodes.
func (c *accounts) charge(namespace string, took time.Duration, failed bool) {
	if !c.args.Unthrottled {
		c.counters.countFailedTime(namespace, c.debts.charge(namespace, took, failed, c.now()))
	}
	c.counters.countOverrun(namespace, took-freePerAttempt)
	if _, err := c.namespaces.Get(namespace); apierrors.IsNotFound(err) {
		// It may have gone, and been forgotten, in the moment before.
		c.forgetNamespace(namespace)
	}
}

// countNodes counts the nodes of slots.
func countNodes(slots []match.Slot) int {
	names := sets.New[string]()
	for i := range slots {
		names.Insert(slots[i].Node)
	}
	return len(names)
}

// handleMatcherEffects does what follows from the matcher's answers. It counts what was done, and takes note of
// reservations that are in the group's way. It returns why the group has no nodes: that may be another
// reason than was found, where the matcher answers other groups.
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
		klog.FromContext(ctx).Error(after.Err, "Match", "group", key, "job", plan.Job)
		if refused.LongBackoff {
			a.accounts.charge(key.Namespace, maxDebt, true)
		}
	}
	if after.TimedOut {
		if blame, owed := a.timeouts.observe(key, a.breaker.recoveryCount(), a.args.MatchTimeout.Duration, a.now()); blame {
			a.accounts.charge(key.Namespace, owed, true)
			a.breaker.requestPing()
			return placement.TooHard(whyTimeout)
		}
	}
	if after.NoAnswer {
		a.breaker.trip(placement.WhyUnavailable)
	}
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		a.timeouts.clear(key)
	}
	return refused
}
