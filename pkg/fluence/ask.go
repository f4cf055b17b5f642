package fluence

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// The reasons with which a match ends, beside those of package group.
const (
	reasonNoRoom      = "NoRoom"
	reasonNeverFits   = "NeverFits"
	reasonUnavailable = "MatcherUnavailable"
	reasonFilters     = "NodesRuledOut"
	reasonMatchError  = "MatchError"
)

// ask makes one match for all pods of a plan and seats them. It returns the node
// of the pod that asked, or why there is none.
func (pl *Fluence) ask(ctx context.Context, plan group.Plan, nodes []fwk.NodeInfo) (string, *group.Refusal) {
	began := pl.now()
	if owes := pl.owes(plan, began); owes != nil && !pl.comes(plan) {
		return "", owes
	}
	may := &allowance{ctx: ctx, now: pl.now, began: began, most: pl.args.MaxAsk.Duration}
	node, refused := pl.askWithin(ctx, may, plan, nodes)
	pl.counters.enquired(refused, pl.now().Sub(began))
	if refused == nil || refused.Reason != reasonUnavailable {
		// A matcher that does not answer is nobody's fault, until that is known.
		pl.charge(plan.Key.Namespace, may.took(), refused != nil)
	}
	pl.tellHard(plan, refused, may)
	return node, refused
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

// askWithin asks, and ends the search for nodes when its allowance is over.
func (pl *Fluence) askWithin(ctx context.Context, may *allowance, plan group.Plan, nodes []fwk.NodeInfo) (string, *group.Refusal) {
	q, refused := pl.enquire(ctx, may, plan, nodes)
	if refused != nil {
		return "", refused
	}
	now := q.now
	slots, refused := pl.answer(ctx, q)
	if refused == nil || refused.Reason != reasonUnavailable && refused.Message != whyTimeout {
		pl.suspects.clear(plan.Key)
	}
	if refused != nil {
		pl.reserve(ctx, q, refused)
		refused.Likewise = uids(q.shapes[0].pods)
		return "", refused
	}
	plan.InOrder = q.siblings != nil && q.siblings.inOrder()
	timeout := plan.Timeout
	if timeout == 0 {
		timeout = pl.args.ScheduleTimeout.Duration
	}
	// Before they have their seats: one that loses its seat is no longer expected.
	pl.expect(slots)
	node, siblings, effects, err := pl.groups.Seat(plan, slots, now.Add(timeout))
	pl.carryOut(ctx, effects)
	if err != nil {
		pl.noLongerExpected(keysOf(slots)...)
		return "", &group.Refusal{Reason: group.ReasonGathering, Message: err.Error(), Until: group.Cluster(), Backoff: true}
	}
	if pl.inventory.Epoch() != q.epoch {
		// The graph was filled anew, perhaps without these seats.
		pl.carryOut(ctx, pl.groups.Abandon(plan.Pod(), plan.Job, now))
		return "", &group.Refusal{Reason: reasonUnavailable, Message: "the matcher's graph was loaded anew during the match", Until: []group.Event{group.MatcherBack}}
	}
	// Late ones of another shape, and those that found no room, ask next.
	pl.waker.one(plan.Key)
	pl.logged.forget(plan.Key)
	pl.log.V(2).Info("Group matched", "group", plan.Key, "job", plan.Job, "pods", len(slots), "nodes", nodesOf(slots), "took", pl.now().Sub(now))
	// Not from here: the queue is told when this cycle is over the match.
	pl.waker.pods(siblings)
	if plan.InOrder && slots[0].Key != string(plan.Pod()) {
		// Another comes first.
		pl.groups.Unclaim(plan.Pod())
		return "", nil
	}
	return node, nil
}

// nodesOf counts the nodes of slots.
func nodesOf(slots []match.Slot) int {
	names := sets.New[string]()
	for i := range slots {
		names.Insert(slots[i].Node)
	}
	return len(names)
}

// answer makes the match, and returns the slots in the order in which the pods take
// them up.
func (pl *Fluence) answer(ctx context.Context, q *enquiry) ([]match.Slot, *group.Refusal) {
	if q.siblings != nil {
		return pl.placeSiblings(ctx, q)
	}
	if tooManyHosts(q.requests) {
		return nil, tooHard(whyTooManyHosts)
	}
	a, err := pl.match(ctx, q, match.Allocate, q.requests, q.keys)
	if err != nil {
		return nil, pl.refused(ctx, q, err)
	}
	return a.Slots, nil
}

// refused is what the group is told where the matcher found no room.
func (pl *Fluence) refused(ctx context.Context, q *enquiry, err error) *group.Refusal {
	r := pl.refusalOf(ctx, q.plan, err, q.ruled)
	if r.Reason == reasonNoRoom {
		pl.tellReserved(q.reserved, r)
	}
	return r
}

// refusalOf turns an error of the matcher into what the group is told.
func (pl *Fluence) refusalOf(ctx context.Context, plan group.Plan, err error, ruled ruledOut) *group.Refusal {
	var no *match.Refusal
	switch {
	case errors.As(err, &no) && no.Reason.Code == match.TooHard:
		return tooHard(whyTooHard)
	case errors.As(err, &no):
		r := &group.Refusal{
			Reason:  reasonNoRoom,
			Message: translate.Shorten(translate.Message(no.Reason, pl.endOf(no.Reason, plan.Key)) + ruled.String()),
			Until:   append(ruled.events(), group.NodeChanged, group.MatcherBack),
			// By what a match is overtaken need not be one of these events.
			Backoff: ruled.byExtender || no.Reason.Code == match.Overtaken,
		}
		if errors.Is(err, match.ErrUnsatisfiable) {
			// What others give back does not help.
			r.Reason, r.Cure = reasonNeverFits, group.CureNodes
		} else {
			r.Until = append(r.Until, group.Freed)
			if no.Reason.WaitingHelps && !no.Reason.MayNeverFit {
				r.Cure = group.CureRoom
			}
		}
		return r
	case errors.Is(err, match.ErrStale):
		pl.inventory.Resync()
		return &group.Refusal{Reason: reasonUnavailable, Message: whyLoading, Until: []group.Event{group.MatcherBack}}
	case errors.Is(err, match.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		// It may have booked the request and not been able to say so.
		pl.returns.add(group.Release{Job: plan.Job})
		if errors.Is(err, context.DeadlineExceeded) {
			took := pl.args.MatchTimeout.Duration
			if blame, owed := pl.suspects.timedOut(plan.Key, pl.breaker.answered(), took, pl.now()); blame {
				pl.charge(plan.Key.Namespace, owed, true)
				pl.breaker.doubt()
				return tooHard(whyTimeout)
			}
		}
		pl.breaker.trip(whyUnavailable)
		return &group.Refusal{Reason: reasonUnavailable, Message: whyUnavailable, Until: []group.Event{group.MatcherBack}}
	default:
		klog.FromContext(ctx).Error(err, "Match", "group", plan.Key, "job", plan.Job)
		pl.returns.add(group.Release{Job: plan.Job})
		r := &group.Refusal{Reason: reasonMatchError, Message: fmt.Sprintf("match: %v", err), Until: group.Cluster(), Backoff: true}
		if match.OutcomeOf(err) == match.OutcomeError {
			// It may have cost the matcher its graph, and all others the time to fill it.
			r.Hard = true
			pl.charge(plan.Key.Namespace, mostDebt, true)
		}
		return r
	}
}

// shape is the pods of a plan that ask for the same and may go to the same
// nodes.
type shape struct {
	// key is the text of what the pods ask for.
	key     string
	amounts translate.Amounts
	// pods stand with the required ones first.
	pods     []*corev1.Pod
	required int64
}

func uids(pods []*corev1.Pod) []types.UID {
	ids := make([]types.UID, len(pods))
	for i, p := range pods {
		ids[i] = p.UID
	}
	return ids
}

// shapesOf sorts the pods of a plan into shapes, in the order of their first
// required pod. A shape needs a required pod: optional pods of a shape of their
// own are left to be placed later, each alone. Exact says that all pods of a shape may go to
// the same nodes; pods that are there may object to some of them alone.
func shapesOf(plan group.Plan, by *selectedBy) (shapes []*shape, exact bool) {
	shapes = by.sort(plan)
	if len(by.others) == 0 || len(shapes) <= maxSplit {
		return shapes, !by.rough
	}
	roughly := *by
	roughly.others = nil
	fewer := roughly.sort(plan)
	by.cut = roughly.cut
	if len(shapes) > len(fewer)+maxSplit {
		return fewer, false
	}
	return shapes, !by.rough
}

// sort sorts the pods of a plan by what tells them apart.
func (b *selectedBy) sort(plan group.Plan) []*shape {
	byKey := map[string]*shape{}
	var shapes []*shape
	keyOf := func(pod *corev1.Pod, amounts translate.Amounts) string {
		return string(amounts.Shape()) + "\n" + b.constraintsOf(pod)
	}
	for _, pod := range plan.Required {
		if b.cut = b.cut || len(shapes) > 1 && b.may.over(); b.cut {
			break
		}
		amounts := translate.Requests(pod)
		k := keyOf(pod, amounts)
		s := byKey[k]
		if s == nil {
			s = &shape{key: k, amounts: amounts}
			byKey[k] = s
			shapes = append(shapes, s)
		}
		s.pods = append(s.pods, pod)
		s.required++
	}
	for _, pod := range plan.Optional {
		if b.cut = b.cut || len(shapes) > 1 && b.may.over(); b.cut {
			break
		}
		if s := byKey[keyOf(pod, translate.Requests(pod))]; s != nil {
			s.pods = append(s.pods, pod)
		}
	}
	return shapes
}
