package placement

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/reason"
)

const (
	// maxRepairs bounds how often an attempt matches again because the filters
	// rejected pods of the last match.
	maxRepairs = 3
	// maxAlternatives bounds the alternatives of one attempt.
	maxAlternatives = 12
)

// placeConstrained searches for a match that the profile's filters accept, member by member. It
// books only such a match. It returns the slots in the order in which the members are to be placed.
func (p *Placer) placeConstrained(ctx context.Context, q *attempt) ([]match.Slot, *gang.Refusal) {
	excluded := p.exclusions.limitsFor(q.plan.Key, q.membersKey(), q.keyOf())
	if len(q.plan.Room.Nodes) > 0 {
		excluded = nil // no other nodes are left
	}
	var best error
	var onlyStaleRoom bool
	var rejections []rejection
	if q.constraints.IsStopped() {
		return nil, q.budgetRefusal()
	}
	alternatives := q.alternatives(excluded)
	for i, repairs := 0, 0; i < len(alternatives); {
		if q.constraints.IsStopped() {
			return nil, q.budgetRefusal()
		}
		requests := q.requestsFor(alternatives[i], excluded)
		if why := whyTooLarge(requests); why != "" {
			return nil, TooHard(why)
		}
		keys := q.keysFor(requests)
		if q.firstTried == nil {
			q.firstTried, q.firstLimits = &alternatives[i], excluded
		}
		a, err := p.match(ctx, q, match.WithoutAllocating, requests, keys)
		if no := (*match.Refusal)(nil); errors.As(err, &no) {
			if no.Reason.Code == match.TooHard {
				return nil, p.refusalFor(q, err)
			}
			best = closerToFitting(best, err)
			i++
			continue
		}
		if errors.Is(err, errOnlyStaleRoom) {
			onlyStaleRoom = true
			i++
			continue
		}
		if err != nil {
			return nil, p.refusalFor(q, err)
		}
		targets, err := targetsOf(a.Slots, len(q.shapes))
		if err != nil {
			return nil, p.refusalFor(q, err)
		}
		v, refused := p.verify(ctx, q, targets, nil)
		if refused != nil {
			q.stats.Refused++
			return nil, refused
		}
		if v.isEnough(q.shapes, targets) {
			q.stats.Passed++
			return p.commit(ctx, q, requests, a.Slots, targets, v)
		}
		q.stats.Rejected++
		rejections = v.rejections
		noteRejections(q, rejections)
		if repairs++; repairs > maxRepairs {
			break
		}
		q.stats.Repairs++
		excluded = p.exclude(q, excluded, v)
	}
	if len(rejections) > 0 {
		message := rejectionMessage(rejections)
		p.exclusions.setMessage(q.plan.Key, message)
		return nil, q.rejectionRefusal(message)
	}
	if onlyStaleRoom {
		return nil, p.refusalFor(q, errOnlyStaleRoom)
	}
	if len(excluded) > 0 {
		// The exclusions may be too strict: a pod may pass on an excluded node if the
		// other pods are placed otherwise.
		if message := p.exclusions.dropExclusions(q.plan.Key); message != "" {
			return nil, q.rejectionRefusal(message)
		}
	}
	inOrder := q.constraints.InOrder()
	if (inOrder || len(excluded) > 0) && q.constraints.WithoutDomain() == "" {
		best = p.asTemporary(ctx, q, best)
	}
	r := p.refusalFor(q, best)
	r.Backoff = r.Backoff || len(excluded) > 0
	if inOrder {
		r.RetryOn = append(r.RetryOn, gang.PodChanged)
	}
	return nil, r
}

// budgetRefusal returns the refusal of a group whose comparison was stopped: it has
// too many constraints, or its budget is used up.
func (q *attempt) budgetRefusal() *gang.Refusal {
	if why := q.constraints.WhyTooMany(); why != "" {
		return TooHard(why)
	}
	return q.budget.refusal()
}

// membersKey returns a text that identifies the set of members: the key of each
// shape, with the number of its pods.
func (q *attempt) membersKey() string {
	var b strings.Builder
	for _, s := range q.shapes {
		fmt.Fprintf(&b, "%d %s\n", len(s.Pods), s.Key)
	}
	return b.String()
}

// keyOf maps the members to the keys of their shapes.
func (q *attempt) keyOf() map[types.UID]string {
	keys := map[types.UID]string{}
	for _, s := range q.shapes {
		for _, pod := range s.Pods {
			keys[pod.UID] = s.Key
		}
	}
	return keys
}

// closerToFitting returns the refusal that came closer to a placement. A lack of free room is
// closer than any other refusal. Otherwise the refusal with more slots found is
// closer. It returns b if a is no refusal.
func closerToFitting(a, b error) error {
	var x, y *match.Refusal
	if !errors.As(a, &x) {
		return b
	}
	errors.As(b, &y)
	if xb, yb := errors.Is(a, match.ErrBusy), errors.Is(b, match.ErrBusy); xb != yb {
		if yb {
			return b
		}
		return a
	}
	if y.Reason.Found > x.Reason.Found {
		return b
	}
	return a
}

// asTemporary turns a refusal for good into a refusal for the present, because the request depended on pods
// that exist now. Pods that do not fit without their spread constraints either never fit: the refusal stays
// one for good. With an affinity, nodes may come into question once there are other pods.
func (p *Placer) asTemporary(ctx context.Context, q *attempt, err error) error {
	var no *match.Refusal
	if !errors.Is(err, match.ErrUnsatisfiable) || !errors.As(err, &no) {
		return err
	}
	if no.Reason.Code == match.TooLarge && no.Reason.Excluded == 0 {
		// No node was excluded, so no pod that exists now had a part in this.
		return err
	}
	if interpod.OnlySpreads(q.constraints) {
		_, ever := p.matchWith(ctx, q, match.Satisfiability, q.requests, q.keys, assumptions{})
		if errors.Is(ever, match.ErrUnsatisfiable) {
			return ever
		}
	}
	reason := no.Reason
	reason.WaitingHelps, reason.MayNeverFit = true, true
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// targetsOf returns the shape and the node of each slot. It fails if a slot has a
// label that was not in the request.
func targetsOf(slots []match.Slot, shapes int) ([]interpod.Target, error) {
	targets := make([]interpod.Target, len(slots))
	for i, s := range slots {
		n, err := strconv.Atoi(strings.TrimPrefix(s.Label, "shape"))
		if err != nil || n < 0 || n >= shapes {
			return nil, fmt.Errorf("the matcher returned a slot on node %s with the label %q, which is not in the request", s.Node, s.Label)
		}
		targets[i] = interpod.Target{Shape: n, Node: s.Node}
	}
	return targets, nil
}

// exclude excludes the shape of each rejection from its node: in the limits that it
// returns, and for further attempts of the group.
func (p *Placer) exclude(q *attempt, excluded exclusionLimits, v verification) exclusionLimits {
	for _, o := range v.rejections {
		excluded = excluded.exclude(q.shapes[o.shape].Key, o.node)
		p.exclusions.add(q.plan.Key, q.shapes[o.shape].Pods[0].UID, o.node, nil, retryOnOf(o.status))
	}
	return excluded
}

// rejectionRefusal returns the refusal of a group whose matches the filters rejected,
// round after round. The next attempt begins with the exclusions that were found.
func (q *attempt) rejectionRefusal(words string) *gang.Refusal {
	r := &gang.Refusal{Reason: reason.NodesRuledOut, Message: words, RetryOn: append(gang.ClusterEvents(), gang.Released), Backoff: true, NodesFound: true}
	q.addReserved(r)
	return r
}

// rejectionMessage returns the first rejection, and the number of the others.
func rejectionMessage(rejections []rejection) string {
	message := rejections[0].String()
	if n := len(rejections) - 1; n > 0 {
		message += fmt.Sprintf(" (and %s)", reason.Plural(n, "more rejection"))
	}
	return message
}
