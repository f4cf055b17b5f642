package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// answer makes the match, and returns the slots in the order in which the pods take
// them up.
func (p *Placer) answer(ctx context.Context, q *enquiry) ([]match.Slot, *gang.Refusal) {
	if q.siblings != nil {
		return p.placeSiblings(ctx, q)
	}
	if tooManyHosts(q.requests) {
		return nil, TooHard(whyTooManyHosts)
	}
	a, err := p.match(ctx, q, match.Allocate, q.requests, q.keys)
	if err != nil {
		return nil, p.refused(q, err)
	}
	return a.Slots, nil
}

// What a group is told that cannot be matched for now.
const (
	WhyUnavailable = "the matcher does not answer"
	WhyLoading     = "the matcher's graph is being loaded"
)

// refused is what the group is told where the matcher found no room, or gave no answer.
func (p *Placer) refused(q *enquiry, err error) *gang.Refusal {
	r := p.refusalOf(q, err)
	if r.Reason == reason.NoRoom {
		q.tellReserved(r)
	}
	return r
}

// refusalOf turns an error of the matcher into what the group is told, and takes note of what
// follows.
func (p *Placer) refusalOf(q *enquiry, err error) *gang.Refusal {
	var no *match.Refusal
	switch {
	case errors.As(err, &no) && no.Reason.Code == match.TooHard:
		return TooHard(whyTooHard)
	case errors.As(err, &no):
		r := &gang.Refusal{
			Reason:  reason.NoRoom,
			Message: translate.Shorten(translate.Message(no.Reason, p.EndOf(no.Reason, q.plan.Key)) + q.ruled.String()),
			Until:   append(q.ruled.events(), gang.NodeChanged, gang.MatcherBack),
			// By what a match is overtaken need not be one of these events.
			Backoff: q.ruled.byExtender || no.Reason.Code == match.Overtaken,
		}
		if errors.Is(err, match.ErrUnsatisfiable) {
			// What others give back does not help.
			r.Reason, r.Cure, r.Filtered = reason.NeverFits, gang.CureNodes, q.ruled.byMore()
			return r
		}
		r.Until = append(r.Until, gang.Freed)
		switch {
		case no.Reason.Code == match.Overtaken:
			r.Cure = gang.CureAnswer
		case no.Reason.WaitingHelps && !no.Reason.MayNeverFit:
			r.Cure = gang.CureRoom
		}
		return r
	case errors.Is(err, match.ErrStale):
		q.after.Stale = true
		return &gang.Refusal{Reason: reason.MatcherUnavailable, Message: WhyLoading, Until: []gang.Event{gang.MatcherBack}}
	case errors.Is(err, match.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		// It may have booked the request and not been able to say so.
		q.after.Release = append(q.after.Release, gang.Release{Job: q.plan.Job})
		q.after.Silent, q.after.Late = true, errors.Is(err, context.DeadlineExceeded)
		return &gang.Refusal{Reason: reason.MatcherUnavailable, Message: WhyUnavailable, Until: []gang.Event{gang.MatcherBack}}
	default:
		q.after.Release = append(q.after.Release, gang.Release{Job: q.plan.Job})
		q.after.Broke = err
		// Where it broke it may have cost the matcher its graph, and all others the time to fill it.
		return &gang.Refusal{
			Reason: reason.MatchError, Message: fmt.Sprintf("match: %v", err), Until: gang.Cluster(), Backoff: true,
			Hard: match.OutcomeOf(err) == match.OutcomeError,
		}
	}
}

// tellReserved adds to a refusal what part in it the room may have that is reserved for others, and
// takes note that they are in somebody's way.
func (q *enquiry) tellReserved(r *gang.Refusal) {
	if len(q.outside.Reserved.Nodes) == 0 {
		return
	}
	q.contested = q.outside.Reserved.Turns
	r.Message = translate.Shorten(r.Message + "; " + strings.Join(q.outside.Reserved.Words, "; "))
	r.Until = append(r.Until, gang.Unreserved)
}

func uids(pods []*corev1.Pod) []types.UID {
	ids := make([]types.UID, len(pods))
	for i, p := range pods {
		ids[i] = p.UID
	}
	return ids
}
