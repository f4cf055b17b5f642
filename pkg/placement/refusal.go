package placement

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// findSlots matches and books nodes. It returns the slots in the order in which the pods take them.
func (p *Placer) findSlots(ctx context.Context, q *attempt) ([]match.Slot, *gang.Refusal) {
	if q.constraints != nil {
		return p.placeConstrained(ctx, q)
	}
	if why := whyTooLarge(q.requests); why != "" {
		return nil, TooHard(why)
	}
	a, err := p.match(ctx, q, match.Allocate, q.requests, q.keys)
	if err != nil {
		return nil, p.refusalFor(q, err)
	}
	return a.Slots, nil
}

// These are the messages of groups that cannot be matched for now.
const (
	WhyUnavailable = "the matcher does not answer"
	WhyLoading     = "the matcher's graph is being loaded"
	WhyBusy        = "the matcher answers, but it is busy with another call or loads its graph"
)

// refusalFor turns an error of the matcher into a refusal. A refusal for lack of room
// also names the nodes that are reserved for other groups.
func (p *Placer) refusalFor(q *attempt, err error) *gang.Refusal {
	r := p.matchRefusal(q, err)
	if r.Reason == reason.NoRoom && !r.NodesFound {
		q.addReserved(r)
	}
	return r
}

// matchRefusal turns an error of the matcher into a refusal, and records in q.effects
// what the caller has to do.
func (p *Placer) matchRefusal(q *attempt, err error) *gang.Refusal {
	var no *match.Refusal
	switch {
	case errors.As(err, &no) && no.Reason.Code == match.TooHard:
		return TooHard(whyManySteps(q.budget.sizeText))
	case errors.As(err, &no):
		r := &gang.Refusal{
			Reason:  reason.NoRoom,
			Message: translate.Shorten(p.whyNoRoom(q, no) + q.whyPerNode() + q.rejected.bracketedReasons()),
			RetryOn: append(q.rejected.events(), gang.NodeChanged, gang.MatcherBack),
			// A match is overtaken if the cluster changed during the match. That change
			// may cause none of these events, so the group also retries after a backoff.
			Backoff: q.rejected.byExtender || no.Reason.Code == match.Overtaken,
		}
		if !r.Backoff {
			r.Equivalence = q.equivalence()
		}
		if errors.Is(err, match.ErrUnsatisfiable) {
			// Resources that other jobs release do not help.
			r.Reason, r.WaitsFor, r.Filtered = reason.NeverFits, gang.WaitsForNodes, q.rejected.hasNonNodeFilters()
			return r
		}
		r.RetryOn = append(r.RetryOn, gang.Released)
		switch {
		case no.Reason.Code == match.Overtaken:
			r.WaitsFor = gang.WaitsForAnswer
		case no.Reason.WaitingHelps && !no.Reason.MayNeverFit:
			r.WaitsFor = gang.WaitsForRoom
		}
		return r
	case errors.Is(err, errOnlyStaleRoom):
		// The caller observes Released until the group may have the room.
		return &gang.Refusal{
			Reason: reason.NoRoom, Message: "room was released a moment ago; the group is retried in a moment",
			RetryOn: append(gang.ClusterEvents(), gang.Released, gang.MatcherBack), WaitsFor: gang.WaitsForAnswer, NodesFound: true,
		}
	case errors.Is(err, match.ErrStale):
		q.effects.Stale = true
		return &gang.Refusal{Reason: reason.MatcherUnavailable, Message: WhyLoading, RetryOn: []gang.Event{gang.MatcherBack}}
	case errors.Is(err, match.ErrLoading):
		// The matcher has answered, so it has booked nothing.
		q.effects.Loading = true
		return &gang.Refusal{Reason: reason.MatcherUnavailable, Message: WhyLoading, RetryOn: []gang.Event{gang.MatcherBack}}
	case errors.Is(err, match.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		// The matcher may have booked the request before its answer was lost.
		q.effects.Release = append(q.effects.Release, gang.Release{Job: q.plan.Job})
		q.effects.NoAnswer, q.effects.TimedOut = true, errors.Is(err, context.DeadlineExceeded)
		return &gang.Refusal{Reason: reason.MatcherUnavailable, Message: WhyUnavailable, RetryOn: []gang.Event{gang.MatcherBack}}
	case errors.Is(err, match.ErrPolicy):
		// It may help to change the annotation, or the sidecar.
		return &gang.Refusal{Reason: reason.InvalidMatchPolicy, Message: err.Error(), RetryOn: gang.ClusterEvents(), Backoff: true}
	default:
		q.effects.Release = append(q.effects.Release, gang.Release{Job: q.plan.Job})
		q.effects.Err = err
		// The failed request may have made the matcher drop its
		// graph. All groups wait while the graph is loaded again.
		return &gang.Refusal{
			Reason: reason.MatchError, Message: fmt.Sprintf("match: %v", err), RetryOn: gang.ClusterEvents(), Backoff: true,
			LongBackoff: match.OutcomeOf(err) == match.OutcomeError,
		}
	}
}

// whyPerNode says how many pods of the group may be on one node, as a part of a message. It is empty if there
// is no bound.
func (q *attempt) whyPerNode() string {
	if q.plan.PodsPerNode == 0 {
		return ""
	}
	return fmt.Sprintf("; at most %d to a node (annotation pods-per-node)", q.plan.PodsPerNode)
}

// required returns the number of pods of all shapes that the match needs.
func (q *attempt) required() int64 {
	var n int64
	for _, s := range q.shapes {
		n += s.Required
	}
	return n
}

// equivalence returns what decides whether there is room for the plan, except the state of the cluster, as
// the Refusal.Equivalence of a plan without room. It returns "" if more than the request may
// decide: filters that reject one pod because of another, the places of siblings, or volumes and
// devices that a pod may have already.
func (q *attempt) equivalence() string {
	if q.constraints != nil || q.plan.Domain != "" || q.plan.Room.Job != 0 || q.shunned || q.plan.Late || len(q.plan.Near) > 0 {
		return ""
	}
	for _, s := range q.shapes {
		if interpod.HasClaims(s.Pods[0]) {
			return ""
		}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %q %#v %d %d\n", q.plan.Key.Namespace, q.plan.Rank.Priority, q.plan.Policy, q.topology, q.plan.PodsPerNode, q.cluster.Duration/time.Second)
	for _, s := range q.shapes {
		fmt.Fprintf(sum, "%d %d %q\n", s.Required, len(s.Pods), s.Key)
	}
	return string(sum.Sum(nil))
}

// addReserved adds to a refusal which nodes are reserved for other groups, and
// records that their reservations block this group.
func (q *attempt) addReserved(r *gang.Refusal) {
	if len(q.cluster.Reserved.Nodes) == 0 {
		return
	}
	q.blockingTurns = q.cluster.Reserved.Turns
	r.Message = translate.Shorten(r.Message + "; " + strings.Join(q.cluster.Reserved.Messages, "; "))
	r.RetryOn = append(r.RetryOn, gang.ReservationEnded)
}

func uids(pods []*corev1.Pod) []types.UID {
	ids := make([]types.UID, len(pods))
	for i, p := range pods {
		ids[i] = p.UID
	}
	return ids
}
