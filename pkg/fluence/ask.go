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

// ask makes one match for all pods of a plan and seats them. It returns the node
// of the pod that asked, empty if another pod has to come to its node first, or why there is none.
// MayAsk is that its namespace was found to be allowed to ask already.
func (pl *Fluence) ask(ctx context.Context, plan gang.Plan, mayAsk bool, nodes []fwk.NodeInfo) (node string, refused *gang.Refusal) {
	// 1. A namespace that is in debt has others ask first.
	began := pl.now()
	if !mayAsk {
		if owes := pl.owes(plan, began); owes != nil && !pl.comes(plan) {
			return "", owes
		}
	}

	// 2. The namespace pays for what the rest takes, whatever comes of it.
	may := placement.Allow(ctx, pl.now, began, pl.args.MaxAsk.Duration)
	defer func() { pl.settleAsk(plan, may, refused) }()

	// 3. Find a node for each pod. This changes nothing but the matcher's graph.
	found := pl.placer.Place(ctx, may, plan, nodes)
	if !found.Asked {
		return "", found.Refusal
	}

	// 4. See to what the answer says of the matcher.
	refused = pl.follow(ctx, plan, found)

	// 5. A group that has waited for room for too long has nodes reserved for it.
	if refused != nil {
		pl.reserve(ctx, plan, found, refused)
		refused.Likewise = found.First
		return "", refused
	}

	// 6. Give each pod its seat, and wake the siblings of the pod that asked.
	plan.InOrder = found.InOrder
	return pl.seat(ctx, plan, found)
}

// settleAsk counts an enquiry, and has its namespace pay for it.
func (pl *Fluence) settleAsk(plan gang.Plan, may *placement.Allowance, refused *gang.Refusal) {
	pl.counters.enquired(refused, may.Passed())
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		// A matcher that does not answer is nobody's fault, until that is known.
		pl.charge(plan.Key.Namespace, may.Took(), refused != nil)
	}
	pl.tellHard(plan, refused, may)
}

// seat gives the pods of a plan the slots that were found for them. It returns what ask does.
func (pl *Fluence) seat(ctx context.Context, plan gang.Plan, found placement.Result) (string, *gang.Refusal) {
	slots, timeout := found.Slots, plan.Timeout
	if timeout == 0 {
		timeout = pl.args.ScheduleTimeout.Duration
	}
	// Before they have their seats: one that loses its seat is no longer expected.
	pl.expect(slots)
	node, siblings, out, err := pl.groups.Seat(plan, slots, found.At.Add(timeout))
	pl.apply(ctx, out)
	if err != nil {
		pl.noLongerExpected(keysOf(slots)...)
		return "", &gang.Refusal{Reason: reason.Gathering, Message: err.Error(), Until: gang.Cluster(), Backoff: true}
	}
	if pl.inventory.Epoch() != found.Epoch {
		// The graph was filled anew, perhaps without these seats.
		pl.apply(ctx, pl.groups.Abandon(plan.Pod(), plan.Job, found.At))
		return "", &gang.Refusal{Reason: reason.MatcherUnavailable, Message: "the matcher's graph was loaded anew during the match", Until: []gang.Event{gang.MatcherBack}}
	}
	pl.logged.forget(plan.Key)
	pl.log.V(2).Info("Group matched", "group", plan.Key, "job", plan.Job, "pods", len(slots), "nodes", nodesOf(slots), "took", pl.now().Sub(found.At))
	// Not from here: the queue is told when this cycle is over the match.
	pl.waker.pods(siblings)
	if plan.InOrder && slots[0].Key != string(plan.Pod()) {
		// Another comes first.
		pl.groups.Unclaim(plan.Pod())
		return "", nil
	}
	return node, nil
}

// outside is what is others' as it is now, and the matcher's epoch.
func (pl *Fluence) outside(plan gang.Plan) placement.Outside {
	reserved, now := pl.reservedFor(plan), pl.now()
	return placement.Outside{
		At:    now,
		Epoch: pl.inventory.Epoch(),
		// As kube-scheduler does when it filters.
		Expected: pl.nominated.slots(lowest(slices.Concat(plan.Required, plan.Optional)), now),
		Reserved: reserved,
	}
}

// charge has a namespace pay for what an enquiry took of the loop, and for what it took in vain
// if it found no nodes.
func (pl *Fluence) charge(namespace string, took time.Duration, inVain bool) {
	if !pl.args.Unthrottled {
		pl.counters.vainFor(namespace, pl.debts.charge(namespace, took, inVain, pl.now()))
	}
	pl.counters.hardFor(namespace, took-freeAsk)
	if _, err := pl.namespaces.Get(namespace); apierrors.IsNotFound(err) {
		// It may have gone, and been forgotten, in the moment before.
		pl.forgetNamespace(namespace)
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
func (pl *Fluence) follow(ctx context.Context, plan gang.Plan, found placement.Result) *gang.Refusal {
	key, after, refused := plan.Key, found.After, found.Refusal
	pl.counters.placed(found.Stats)
	pl.reservations.contested(found.Contested, key.Namespace)
	for _, r := range after.Release {
		pl.returns.add(r)
	}
	if after.Stale {
		pl.inventory.Resync()
	}
	if after.Broke != nil {
		klog.FromContext(ctx).Error(after.Broke, "Match", "group", key, "job", plan.Job)
		if refused.Hard {
			pl.charge(key.Namespace, mostDebt, true)
		}
	}
	if after.Late {
		if blame, owed := pl.suspects.timedOut(key, pl.breaker.answered(), pl.args.MatchTimeout.Duration, pl.now()); blame {
			pl.charge(key.Namespace, owed, true)
			pl.breaker.doubt()
			return placement.TooHard(whyTimeout)
		}
	}
	if after.Silent {
		pl.breaker.trip(placement.WhyUnavailable)
	}
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		pl.suspects.clear(key)
	}
	return refused
}
