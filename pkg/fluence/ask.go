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
type asker struct {
	*base
	accounts *accounts
	turns    *turns
	binder   *binder
	teller   *teller
	// nominated are pods of others that are about to take room, and returns what the matcher is to be
	// given back.
	nominated nominations
	returns   *returns
	suspects  suspects
}

// ask makes one match for all pods of a plan and seats them. It returns the node
// of the pod that asked, empty if another pod has to come to its node first, or why there is none.
// MayAsk is that its namespace was found to be allowed to ask already.
func (a *asker) ask(ctx context.Context, plan gang.Plan, mayAsk bool, nodes []fwk.NodeInfo) (node string, refused *gang.Refusal) {
	// 1. A namespace that is in debt has others ask first.
	began := a.now()
	if !mayAsk {
		if owes := a.accounts.owes(plan, began); owes != nil && !a.turns.comes(plan) {
			return "", owes
		}
	}

	// 2. The namespace pays for what the rest takes, whatever comes of it.
	may := placement.Allow(ctx, a.now, began, a.args.MaxAsk.Duration)
	defer func() { a.settleAsk(plan, may, refused) }()

	// 3. Find a node for each pod. This changes nothing but the matcher's graph.
	plan = a.turns.alike(plan)
	found := a.placer.Place(ctx, may, plan, nodes)
	if !found.Asked {
		return "", found.Refusal
	}

	// 4. See to what the answer says of the matcher.
	refused = a.follow(ctx, plan, found)

	// 5. A group that has waited for room for too long has nodes reserved for it.
	if refused != nil {
		a.turns.reserve(ctx, plan, found, refused)
		refused.Likewise = found.First
		return "", refused
	}

	// 6. Give each pod its seat, and wake the siblings of the pod that asked.
	plan.InOrder = found.InOrder
	return a.seat(ctx, plan, found)
}

// settleAsk counts an enquiry, and has its namespace pay for it.
func (a *asker) settleAsk(plan gang.Plan, may *placement.Allowance, refused *gang.Refusal) {
	a.counters.enquired(refused, may.Passed())
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		// A matcher that does not answer is nobody's fault, until that is known.
		a.accounts.charge(plan.Key.Namespace, may.Took(), refused != nil)
	}
	a.tellHard(plan, refused, may)
}

// seat gives the pods of a plan the slots that were found for them. It returns what ask does.
func (a *asker) seat(ctx context.Context, plan gang.Plan, found placement.Result) (string, *gang.Refusal) {
	slots, timeout := found.Slots, plan.Timeout
	if timeout == 0 {
		timeout = a.args.ScheduleTimeout.Duration
	}
	// Before they have their seats: one that loses its seat is no longer expected.
	a.binder.expect(slots)
	node, siblings, out, err := a.groups.Seat(plan, slots, found.At.Add(timeout))
	a.apply(ctx, out)
	if err != nil {
		a.binder.noLongerExpected(keysOf(slots)...)
		return "", &gang.Refusal{Reason: reason.Gathering, Message: err.Error(), Until: gang.Cluster(), Backoff: true, Found: true}
	}
	if a.inventory.Epoch() != found.Epoch {
		// The graph was filled anew, perhaps without these seats.
		a.apply(ctx, a.groups.Abandon(plan.Pod(), plan.Job, found.At))
		return "", &gang.Refusal{Reason: reason.MatcherUnavailable, Message: "the matcher's graph was loaded anew during the match", Until: []gang.Event{gang.MatcherBack}}
	}
	a.teller.logged.forget(plan.Key)
	a.log.V(2).Info("Group matched", "group", plan.Key, "job", plan.Job, "pods", len(slots), "nodes", nodesOf(slots), "took", a.now().Sub(found.At))
	// Not from here: the queue is told when this cycle is over the match.
	a.waker.pods(siblings)
	if plan.InOrder && slots[0].Key != string(plan.Pod()) {
		// Another comes first.
		a.groups.Unclaim(plan.Pod())
		return "", nil
	}
	return node, nil
}

// outside is what is others' as it is now, and the matcher's epoch.
func (a *asker) outside(plan gang.Plan) placement.Outside {
	reserved, now := a.turns.reservedFor(plan), a.now()
	return placement.Outside{
		At:    now,
		Epoch: a.inventory.Epoch(),
		// As kube-scheduler does when it filters.
		Expected: a.nominated.slots(lowest(slices.Concat(plan.Required, plan.Optional)), now),
		Reserved: reserved,
	}
}

// charge has a namespace pay for what an enquiry took of the loop, and for what it took in vain
// if it found no nodes.
func (c *accounts) charge(namespace string, took time.Duration, inVain bool) {
	if !c.args.Unthrottled {
		c.counters.vainFor(namespace, c.debts.charge(namespace, took, inVain, c.now()))
	}
	c.counters.hardFor(namespace, took-freeAsk)
	if _, err := c.namespaces.Get(namespace); apierrors.IsNotFound(err) {
		// It may have gone, and been forgotten, in the moment before.
		c.forgetNamespace(namespace)
	}
}

// nodesOf counts the nodes of slots.
func nodesOf(slots []match.Slot) int {
	names := sets.New[string]()
	for i := range slots {
		names.Insert(slots[i].Node)
	}
	return len(names)
}

// follow does what follows from the matcher's answers. It counts what was done, and takes note of
// reservations that are in the group's way. It returns why the group has no nodes: that may be another
// reason than was found, where the matcher answers other groups.
func (a *asker) follow(ctx context.Context, plan gang.Plan, found placement.Result) *gang.Refusal {
	key, after, refused := plan.Key, found.After, found.Refusal
	a.counters.placed(found.Stats)
	a.turns.reservations.contested(found.Contested, key.Namespace)
	for _, r := range after.Release {
		a.returns.add(r)
	}
	if after.Stale {
		a.inventory.Resync()
	}
	if after.Broke != nil {
		klog.FromContext(ctx).Error(after.Broke, "Match", "group", key, "job", plan.Job)
		if refused.Hard {
			a.accounts.charge(key.Namespace, mostDebt, true)
		}
	}
	if after.Late {
		if blame, owed := a.suspects.timedOut(key, a.breaker.answered(), a.args.MatchTimeout.Duration, a.now()); blame {
			a.accounts.charge(key.Namespace, owed, true)
			a.breaker.doubt()
			return placement.TooHard(whyTimeout)
		}
	}
	if after.Silent {
		a.breaker.trip(placement.WhyUnavailable)
	}
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		a.suspects.clear(key)
	}
	return refused
}
