package placement

import (
	"context"
	"errors"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// FindLater searches for the earliest time at which the required pods of a group fit for which Place found no room. of is
// the result of Place. It overlooks the reservations of the jobs that ignored returns, and no others. It returns nil if there is
// no such time, or if none is known. A node that the filters rule out now is not used. The error is match.ErrInvalid if the
// matcher's engine has no reservations. It is another one if there is no answer.
func FindLater(ctx context.Context, p *Placer, of Result, ignored func() []match.JobID) (*match.Allocation, error) {
	if of.attempt == nil || of.attempt.budget.isOver() {
		return nil, context.DeadlineExceeded
	}
	q := *of.attempt
	q.cluster.Overlooked = func() (all, spared []match.JobID) { return ignored(), nil }
	q.cluster.readOverlooked()
	requests := q.requestsOfRequired()
	if isTooLarge(requests) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(q.budget.left(), time.Millisecond))
	defer cancel()
	a, err := p.matchWith(ctx, &q, match.WithoutAllocatingFuture, requests, q.keysFor(requests), assumptions{expected: q.expected()})
	if no, refused := errors.AsType[*match.Refusal](err); refused && no.Reason.Code != match.TooHard && no.Reason.Code != match.Overtaken {
		return nil, nil
	}
	return a, err
}
