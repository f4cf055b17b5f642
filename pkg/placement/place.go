package placement

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// Place finds nodes for all pods of a plan. It gives up when the budget is used up.
// It may only be called inside a scheduling cycle. The caller acts on the Effects and
// the BlockingTurns of the Result, and counts its Stats.
func (p *Placer) Place(ctx context.Context, budget *Budget, plan gang.Plan, nodes []fwk.NodeInfo) Result {
	// 1. Run the filters, and compare the pods with each other, to build the requests.
	q, refused := p.newAttempt(ctx, budget, plan, nodes)
	if refused != nil {
		return Result{Refusal: refused}
	}

	// 2. Match until the filters accept the slots, and book these.
	slots, refused := p.findSlots(ctx, q)
	return Result{
		Refusal: refused, MatcherCalled: true, Slots: slots, InOrder: q.constraints != nil && q.constraints.InOrder(),
		FirstShape: uids(q.shapes[0].Pods), At: q.cluster.At, Epoch: q.cluster.Epoch,
		Effects: q.effects, BlockingTurns: q.blockingTurns, RoomRefused: roomRefused(q), Stats: q.stats, attempt: q,
	}
}
