package fluence

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement"
)

// keepSeats gives back the seats of groups that have expected pods for too long, and those whose room other
// pods have taken. A scheduler that does not lead follows what the leader records instead.
func (w *watcher) keepSeats(ctx context.Context, now time.Time) {
	if !w.stateCollector.leads.Load() {
		return
	}
	w.apply(ctx, w.groups.ExpireSeats(now))
	onNode := map[string][]gang.HeldSeat{}
	for _, t := range w.groups.HeldSeats() {
		onNode[t.Node] = append(onNode[t.Node], t)
	}
	for node, seats := range onNode {
		for _, t := range seats {
			if why := w.binder.whySeatLost(node, t, seats); why != "" {
				w.apply(ctx, w.groups.LoseSeat(t.Group, t.ID, why))
			}
		}
	}
}

// whySeatLost returns why the pod of a seat could not be on the seat's node now, or nothing. seats are all
// seats on the node: the earlier ones go before it.
func (b *binder) whySeatLost(name string, t gang.HeldSeat, seats []gang.HeldSeat) string {
	node, err := b.nodes.Get(name)
	if err != nil {
		return fmt.Sprintf("node %s is gone", name)
	}
	if why := b.bindChecks.whyRejected(b.log, node, t.Pod); why != "" {
		return why
	}
	if !b.bindChecks.room || b.inventory.WhyNoRoom(name, podsOf(seats)...) == "" {
		return ""
	}
	for i, o := range seats {
		if o.Group == t.Group && o.ID == t.ID {
			if lacking := b.inventory.WhyNoRoom(name, podsOf(seats[:i+1])...); lacking != "" {
				return fmt.Sprintf("node %s has too little room now: %s", name, lacking)
			}
		}
	}
	return ""
}

func podsOf(seats []gang.HeldSeat) []*corev1.Pod {
	pods := make([]*corev1.Pod, len(seats))
	for i, t := range seats {
		pods[i] = t.Pod
	}
	return pods
}

// searchSeats looks for the seats that a group has lost or not got yet, for one group in a cycle. It is
// called in the cycle of any pod: without such a cycle no group of Fluence takes the room.
func (a *groupPlacer) searchSeats(ctx context.Context, nodes []fwk.NodeInfo) {
	if a.whyNotReady() != "" {
		return
	}
	began := a.now()
	plan, ok := a.groups.PlanSeats(began)
	if !ok {
		return
	}
	if throttled := a.throttler.checkThrottle(plan, began); throttled != nil {
		a.apply(ctx, a.groups.RefuseSeats(plan, throttled.Message))
		return
	}
	var refused *gang.Refusal
	budget := placement.NewBudget(ctx, a.now, began, a.args.MaxAsk.Duration)
	defer func() { a.chargeAttempt(plan, budget, refused) }()
	found := a.placer.Place(ctx, budget, plan, nodes)
	if refused = found.Refusal; found.MatcherCalled {
		refused = a.handleMatcherEffects(ctx, plan, found)
	}
	if refused != nil {
		a.apply(ctx, a.groups.RefuseSeats(plan, refused.Message))
		return
	}
	a.apply(ctx, a.groups.AssignSeats(plan, found.Slots))
	a.log.V(2).Info("Seats matched", "group", plan.Key, "job", plan.Job, "seats", len(found.Slots))
	if a.inventory.Epoch() != found.Epoch {
		a.releases.book(plan.Key) // the graph was loaded again during the match
	}
}

// lendSeat releases the seat of a pod that asks for more, so that its room counts in the pod's match. No
// other match is made before rebookSeat.
func (a *groupPlacer) lendSeat(ctx context.Context, plan gang.Plan) {
	seat := plan.InsteadOf
	if err := a.releases.releaseNow(ctx, a.inventory.Epoch(), gang.Release{Job: seat.ID, Keys: []string{seat.Slots[0].Key}}); err != nil {
		a.log.V(4).Info("The room of a seat cannot be lent to its pod", "group", plan.Key, "err", err)
	}
}

// rebookSeat books a lent seat again, unless the pod has been given another node.
func (a *groupPlacer) rebookSeat(ctx context.Context, plan gang.Plan) {
	seat := *plan.InsteadOf
	id := seat.Slots[0].Key
	if !a.groups.HoldsSeat(plan.Key, seat.ID, id) {
		return
	}
	if err := a.releases.bookNow(ctx, a.inventory.Epoch(), seat); err != nil {
		a.releases.book(plan.Key)
		return
	}
	if !a.groups.HoldsSeat(plan.Key, seat.ID, id) {
		a.releases.add(gang.Release{Job: seat.ID, Keys: []string{id}}) // it was given back meanwhile
	}
}
