package placement

import (
	"context"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// FindAfterEnd searches for room for the required pods of a group for which Place found none, as if the
// ending slots were free already. of is the result of Place. It returns no slots if the group does not fit
// then either, if the attempt's budget is used up, or if the matcher cannot say. The filters are not
// run again: a node that they ruled out because of a pod that is ending stays ruled out.
func (p *Placer) FindAfterEnd(ctx context.Context, of Result, ending []match.SlotRef) []match.Slot {
	q := of.attempt
	if q == nil || len(ending) == 0 || q.budget.isOver() {
		return nil
	}
	requests := slices.Clone(q.requests)
	if q.firstTried != nil {
		requests = q.requestsFor(*q.firstTried, q.firstLimits)
	}
	for i := range requests {
		requests[i].Max = requests[i].Min
	}
	if isTooLarge(requests) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(q.budget.left(), time.Millisecond))
	defer cancel()
	expected := slices.Concat(q.cluster.Expected, q.cluster.Kept)
	a, err := p.matchWith(ctx, q, match.WithoutAllocating, requests, q.keysFor(requests), assumptions{expected: expected, ending: ending})
	if err != nil {
		return nil
	}
	return a.Slots
}
