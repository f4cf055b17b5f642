package fluence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	shapes := shapesOf(plan)
	var ruled ruledOut
	requests := make([]translate.ShapeRequest, 0, len(shapes))
	var keys []string
	for i, s := range shapes {
		out, refused := pl.ruleOut(ctx, s.pods[0], nodes)
		if refused != nil {
			refused.Likewise = uids(s.pods)
			return "", refused
		}
		ruled.add(out)
		requests = append(requests, translate.ShapeRequest{
			Label:      "shape" + strconv.Itoa(i),
			Amounts:    s.amounts,
			Min:        s.required,
			Max:        int64(len(s.pods)),
			Attributes: out.attributes(),
		})
		for _, pod := range s.pods {
			keys = append(keys, string(pod.UID))
		}
	}
	kept := pl.keptFrom(ctx, plan, nodes)
	kept.leaveOut(requests)
	now, epoch := pl.now(), pl.inventory.Epoch()
	matchCtx, cancel := context.WithTimeout(ctx, pl.args.MatchTimeout.Duration)
	defer cancel()
	a, err := pl.matcher.Match(matchCtx, match.Request{
		Epoch:   epoch,
		Op:      match.Allocate,
		ID:      plan.Job,
		Jobspec: translate.Jobspec(requests),
		Keys:    keys,
		Now:     now,
		Policy:  plan.Policy,
		Holder:  plan.Holder,
		Near:    plan.Near,
		// As kube-scheduler does when it filters.
		Expected: pl.nominated.slots(lowest(slices.Concat(plan.Required, plan.Optional)), now),
	})
	if err != nil {
		r := pl.refusalOf(ctx, plan, err, ruled)
		kept.tell(r)
		r.Likewise = uids(shapes[0].pods)
		return "", r
	}
	timeout := plan.Timeout
	if timeout == 0 {
		timeout = pl.args.ScheduleTimeout.Duration
	}
	node, siblings, effects, err := pl.groups.Seat(plan, a.Slots, now.Add(timeout))
	pl.carryOut(ctx, effects)
	if err != nil {
		return "", &group.Refusal{Reason: group.ReasonGathering, Message: err.Error(), Until: group.Cluster(), Backoff: true}
	}
	if pl.inventory.Epoch() != epoch {
		// The graph was filled anew, perhaps without these seats.
		pl.carryOut(ctx, pl.groups.Abandon(plan.Pod(), plan.Job, now))
		return "", &group.Refusal{Reason: reasonUnavailable, Message: "the matcher's graph was loaded anew during the match", Until: []group.Event{group.MatcherBack}}
	}
	// Late ones of another shape, and those that found no room, ask next.
	pl.waker.one(plan.Key)
	klog.FromContext(ctx).V(2).Info("Group matched", "group", plan.Key, "job", plan.Job, "pods", len(a.Slots), "took", pl.now().Sub(now))
	// Not from here: the queue is told when this cycle is over the match.
	pl.waker.pods(siblings)
	return node, nil
}

// refusalOf turns an error of the matcher into what the group is told.
func (pl *Fluence) refusalOf(ctx context.Context, plan group.Plan, err error, ruled ruledOut) *group.Refusal {
	var no *match.Refusal
	switch {
	case errors.As(err, &no):
		r := &group.Refusal{
			Reason:  reasonNoRoom,
			Message: translate.Message(no.Reason) + ruled.String(),
			Until:   append(ruled.events(), group.NodeChanged, group.MatcherBack),
		}
		if errors.Is(err, match.ErrUnsatisfiable) {
			// What others give back does not help.
			r.Reason = reasonNeverFits
		} else {
			r.Until = append(r.Until, group.Freed)
			if no.Reason.WaitingHelps {
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
		pl.breaker.trip(whyUnavailable)
		return &group.Refusal{Reason: reasonUnavailable, Message: whyUnavailable, Until: []group.Event{group.MatcherBack}}
	default:
		klog.FromContext(ctx).Error(err, "Match", "group", plan.Key, "job", plan.Job)
		pl.returns.add(group.Release{Job: plan.Job})
		return &group.Refusal{Reason: reasonMatchError, Message: fmt.Sprintf("match: %v", err), Until: group.Cluster(), Backoff: true}
	}
}

// shape is the pods of a plan that ask for the same and may go to the same
// nodes.
type shape struct {
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
// own are left to be placed later, each alone.
func shapesOf(plan group.Plan) []*shape {
	byKey := map[string]*shape{}
	var shapes []*shape
	for _, pod := range plan.Required {
		amounts := translate.Requests(pod)
		k := string(amounts.Shape()) + "\n" + constraintsOf(pod)
		s := byKey[k]
		if s == nil {
			s = &shape{amounts: amounts}
			byKey[k] = s
			shapes = append(shapes, s)
		}
		s.pods = append(s.pods, pod)
		s.required++
	}
	for _, pod := range plan.Optional {
		if s := byKey[string(translate.Requests(pod).Shape())+"\n"+constraintsOf(pod)]; s != nil {
			s.pods = append(s.pods, pod)
		}
	}
	return shapes
}
