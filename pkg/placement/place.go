package placement

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// Place asks for nodes for all pods of a plan. It takes no more of the scheduling loop than it may,
// and may only be called inside a scheduling cycle. The caller follows what the Result says of the
// matcher, counts its Stats, and takes note of what is Contested.
func (p *Placer) Place(ctx context.Context, budget *Budget, plan gang.Plan, nodes []fwk.NodeInfo) Result {
	// 1. Run the filters, and compare the pods with each other: this is what the matcher is asked.
	q, refused := p.newAttempt(ctx, budget, plan, nodes)
	if refused != nil {
		return Result{Refusal: refused}
	}

	// 2. Ask until the filters pass what the matcher gives, and book that.
	slots, refused := p.findSlots(ctx, q)
	return Result{
		Refusal: refused, MatcherCalled: true, Slots: slots, InOrder: q.constraints != nil && q.constraints.InOrder(),
		FirstShape: uids(q.shapes[0].Pods), At: q.cluster.At, Epoch: q.cluster.Epoch,
		Effects: q.effects, BlockingTurns: q.blockingTurns, Stats: q.stats, attempt: q,
	}
}
