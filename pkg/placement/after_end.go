package placement

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// FindAfterEnd searches for room for the required pods of a group for which Place found none, as if the
// ending slots were free already. of is the result of Place. It returns no slots if the group does not fit
// then either. known is false if there is no answer: the attempt's budget is used up, or the matcher cannot say. The
// filters are not run again: a node that they ruled out because of a pod that is ending stays ruled out.
func (p *Placer) FindAfterEnd(ctx context.Context, of Result, ending []match.SlotRef) (slots []match.Slot, known bool) {
	q := of.attempt
	if q == nil || q.budget.isOver() {
		return nil, false
	}
	requests := q.requestsOfRequired()
	if isTooLarge(requests) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, max(q.budget.left(), time.Millisecond))
	defer cancel()
	a, err := p.matchWith(ctx, q, match.WithoutAllocating, requests, q.keysFor(requests), assumptions{expected: q.expected(), ending: ending})
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		return nil, no.Reason.Code != match.TooHard && no.Reason.Code != match.Overtaken
	}
	if err != nil {
		return nil, false
	}
	return a.Slots, true
}

// requestsOfRequired returns the requests for the required pods alone, as they were tried first.
func (q *attempt) requestsOfRequired() []translate.ShapeRequest {
	requests := slices.Clone(q.requests)
	if q.firstTried != nil {
		requests = q.requestsFor(*q.firstTried, q.firstLimits)
	}
	for i := range requests {
		requests[i].Max = requests[i].Min
	}
	return requests
}

// expected returns the room that others are about to take, or that is kept for them.
func (q *attempt) expected() []match.Slot { return slices.Concat(q.cluster.Expected, q.cluster.Kept) }
