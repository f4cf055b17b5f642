package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A PreemptionRequest is what FindByPreemption needs besides the result of Place.
type PreemptionRequest struct {
	// For is the group for which others are evicted.
	For preemption.Preemptor
	// Candidates returns who may be evicted, in the order of preemption.Index.Candidates, and how many more
	// there are. usable reports whether the group may use a node if there is room. Nobody may be evicted if it is nil.
	Candidates func(usable func(node string) bool) (victims []preemption.Victim, left int)
	// Ending are slots that are free soon, because their pods are ending. The keys are the UIDs of the pods.
	Ending []match.SlotRef
	// MaxTime is how long the search among the candidates may take.
	MaxTime time.Duration
}

// A PreemptionResult is what FindByPreemption has found. If neither Plan nor Why is set, there is no answer for
// now: the matcher or the filters took too long, or the matcher's graph has changed.
type PreemptionResult struct {
	// Plan says who is evicted. It has no victims if the group fits when the pods that are ending have gone.
	Plan *preemption.Plan
	// Why says why nobody is evicted, as a part of a message to users.
	Why string
	// LeftOut is how many candidates were not considered, because there are too many.
	LeftOut int
}

// These are the reasons why nobody is evicted, as parts of messages.
const (
	whyNoCandidates    = "there are no pods of lower priority that may be evicted"
	whyNoDisplacing    = "the matcher cannot plan evictions"
	whyManyEvictions   = "the search for pods to evict takes more steps than the matcher may take for one request"
	whyLargeDisplacing = "the request for nodes is too large to plan evictions"
)

// FindByPreemption searches for the victims of least harm, so that the required pods of a group fit for which
// Place found no room. of is the result of Place. The profile's filters have accepted a plan, with the victims'
// pods away and the pods of the group in their place. It may only be called inside a scheduling cycle. It changes
// nothing. The time that it takes is not charged to the attempt.
func (p *Placer) FindByPreemption(ctx context.Context, of Result, r PreemptionRequest) PreemptionResult {
	none := PreemptionResult{}
	if of.attempt == nil {
		return none
	}
	q := *of.attempt
	q.withoutOptional()
	began := p.Now()
	s := &preemptionSearch{Placer: p, q: &q, r: r}
	if r.Candidates != nil {
		s.victims, none.LeftOut = r.Candidates(q.mayUse())
	}
	// However long the candidates take, the search has its whole time. Otherwise there would never be a plan.
	ctx, cancel := context.WithTimeout(ctx, r.MaxTime)
	defer cancel()
	q.budget, q.outcome = NewBudget(ctx, p.Now, p.Now(), r.MaxTime), outcome{}
	q.budget.sizeText = of.attempt.budget.sizeText
	if len(s.victims)+len(r.Ending) == 0 {
		none.Why = whyNoCandidates
		return none
	}
	s.units = preemption.Units(s.victims, began)
	s.ending = sets.New[types.UID]()
	for _, ref := range r.Ending {
		for _, key := range ref.Keys {
			s.ending.Insert(types.UID(key))
		}
	}
	return s.run(ctx, none)
}

// withoutOptional leaves out the pods that are not required: nobody is evicted for them.
func (q *attempt) withoutOptional() {
	q.shapes, q.requests, q.keys = slices.Clone(q.shapes), slices.Clone(q.requests), nil
	for i, s := range q.shapes {
		q.shapes[i] = &interpod.Shape{Key: s.Key, Amounts: s.Amounts, Pods: s.Pods[:s.Required], Required: s.Required}
		q.requests[i].Max = q.requests[i].Min
		for _, pod := range q.shapes[i].Pods {
			q.keys = append(q.keys, string(pod.UID))
		}
	}
}

// mayUse returns a function that reports whether the pods of at least one shape may be on a node, if the pods
// are away that keep them from it.
func (q *attempt) mayUse() func(node string) bool {
	out := make([]sets.Set[string], len(q.shapes))
	for i := range out {
		out[i] = sets.New(slices.Concat(q.unresolvable[i], q.rejectedByExtenders[i])...)
	}
	reserved, usable := sets.New(q.cluster.Reserved.Nodes...), sets.New[string]()
	for _, info := range q.nodes {
		n := info.Node()
		passes := slices.ContainsFunc(out, func(s sets.Set[string]) bool { return !s.Has(n.Name) })
		if passes && nodeutil.IsNodeReady(n) && !reserved.Has(n.Name) && (q.stay == nil || q.stay.nodes.Has(n.Name)) {
			usable.Insert(n.Name)
		}
	}
	return usable.Has
}

// A preemptionSearch is a search for victims.
type preemptionSearch struct {
	*Placer
	q       *attempt
	r       PreemptionRequest
	victims []preemption.Victim
	// units are the victims as the matcher takes them.
	units []match.Unit
	// ending are the pods that are ending.
	ending sets.Set[types.UID]
}

// run searches twice: first among the nodes that the filters leave now, and then also among those that they
// leave if all candidates are away.
func (s *preemptionSearch) run(ctx context.Context, none PreemptionResult) PreemptionResult {
	now := *s.q
	if now.constraints != nil {
		// The constraints of the attempt stop with its budget.
		var err error
		if now.constraints, err = s.constraintsOn(now.nodes); err != nil {
			return none
		}
	}
	plan, why := s.find(ctx, &now, false)
	if plan == nil && !why.final && s.mayChange() {
		later, known := s.withAllAway(ctx)
		if !known {
			return none
		}
		plan, why = s.find(ctx, later, true)
	}
	return s.result(plan, why, none)
}

// result returns the plan, or why there is none.
func (s *preemptionSearch) result(plan *preemption.Plan, why whyNoPlan, none PreemptionResult) PreemptionResult {
	none.Plan = plan
	if plan == nil {
		none.Why = why.describe(len(s.victims), none.LeftOut)
	}
	return none
}

// mayChange reports whether more nodes may be usable if the candidates are away.
func (s *preemptionSearch) mayChange() bool {
	return s.q.constraints != nil && s.q.constraints.InOrder() || slices.ContainsFunc(s.q.filtered, func(nodes []string) bool { return len(nodes) > 0 })
}

// constraintsOn returns the constraints among the group's pods, and with the pods that nodes have.
func (s *preemptionSearch) constraintsOn(nodes []fwk.NodeInfo) (*interpod.Constraints, error) {
	return interpod.Find(s.q.shapes, s.q.plan.Domain, nodes, s.Levels, s.labelsOf(s.q.budget.ctx), s.q.budget.isOver)
}

// A whyNoPlan is why there is no plan. It is empty if there was no answer.
type whyNoPlan struct {
	text string
	// refusal is the matcher's refusal that came closest. rejections are those of the last match.
	refusal    *match.Refusal
	rejections []rejection
	// final is true if other nodes would not help.
	final bool
}

// describe returns the reason in words fit for a user.
func (w whyNoPlan) describe(candidates, left int) string {
	switch {
	case w.text != "":
		return w.text
	case len(w.rejections) > 0:
		return "evictions do not help: " + rejectionMessage(w.rejections)
	case w.refusal == nil:
		return ""
	case candidates == 0:
		return whyNoCandidates
	}
	switch reason := w.refusal.Reason; {
	case reason.Code == match.TooHard:
		return whyManyEvictions
	case reason.Code == match.Overtaken:
		return ""
	case !reason.AllDisplaced && !errors.Is(w.refusal, match.ErrUnsatisfiable):
		// A matcher that does not know of evictions has answered as if nobody could be evicted.
		return whyNoDisplacing
	default:
		without := "all of lower priority"
		if left > 0 {
			without = fmt.Sprintf("%d of %d of lower priority", candidates, candidates+left)
		}
		if reason.Code == match.NotFound {
			return "no placement was found even without " + without
		}
		return fmt.Sprintf("room for %d even without %s", reason.Found, without)
	}
}

// find searches for a plan with the nodes and the constraints of an attempt. With allAway, these are what they
// are when all candidates have gone, so that a plan may need victims that keep the filters from a node.
func (s *preemptionSearch) find(ctx context.Context, q *attempt, allAway bool) (*preemption.Plan, whyNoPlan) {
	alternatives := make([]*alternative, 0, 1)
	if q.constraints == nil {
		alternatives = append(alternatives, nil)
	} else {
		for _, a := range q.alternatives(nil) {
			alternatives = append(alternatives, &a)
		}
	}
	var why whyNoPlan
	var best error
	var excluded exclusionLimits
	for i, repairs := 0, 0; i < len(alternatives) && repairs <= maxRepairs; {
		if q.budget.isOver() {
			return nil, whyNoPlan{}
		}
		requests := q.requestsExcluding(alternatives[i], excluded)
		if isTooLarge(requests) {
			return nil, whyNoPlan{text: whyLargeDisplacing, final: true}
		}
		slots, chosen, err := s.match(ctx, q, requests, s.r.Ending)
		if no, refused := errors.AsType[*match.Refusal](err); refused {
			best = closerToFitting(best, err)
			errors.As(best, &why.refusal)
			if no.Reason.Code == match.TooHard {
				return nil, whyNoPlan{refusal: no, final: true}
			}
			i++
			continue
		}
		if errors.Is(err, match.ErrInvalid) && !errors.Is(err, match.ErrPolicy) {
			klog.FromContext(ctx).V(2).Info("The matcher cannot plan evictions", "group", q.plan.Key, "reason", err.Error())
			return nil, whyNoPlan{text: whyNoDisplacing, final: true}
		}
		if err != nil {
			return nil, whyNoPlan{final: true}
		}
		slots, chosen, rejections, known := s.verifyChoice(ctx, q, requests, slots, chosen, allAway)
		switch {
		case !known:
			return nil, whyNoPlan{final: true}
		case len(rejections) == 0:
			return s.plan(slots, chosen), whyNoPlan{}
		}
		why.rejections = rejections
		for _, o := range rejections {
			excluded = excluded.exclude(q.shapes[o.shape].Key, o.node)
		}
		repairs++
	}
	return nil, why
}

// requestsExcluding returns the requests for the required pods of an attempt, with the constraints of an
// alternative, or without any if it is nil.
func (q *attempt) requestsExcluding(a *alternative, excluded exclusionLimits) []translate.ShapeRequest {
	requests := slices.Clone(q.requests)
	if a != nil {
		requests = q.requestsFor(*a, excluded)
	} else {
		for i := range requests {
			if nodes := excluded[q.shapes[i].Key]; len(nodes) > 0 {
				addConstraint(&requests[i].Attributes.ConstraintsNow, notOn(slices.Sorted(maps.Keys(nodes))))
			}
		}
	}
	return requests
}

// match asks the matcher for slots, and which victims are in the way.
func (s *preemptionSearch) match(ctx context.Context, q *attempt, requests []translate.ShapeRequest, ending []match.SlotRef) ([]match.Slot, []int, error) {
	expected := slices.Concat(q.cluster.Expected, q.cluster.Kept)
	a, err := s.matchWith(ctx, q, match.WithoutAllocating, requests, q.keysFor(requests), assumptions{expected: expected, ending: ending, displace: s.units})
	if err != nil {
		return nil, nil, err
	}
	for _, i := range a.Displaced {
		if i < 0 || i >= len(s.victims) {
			return nil, nil, fmt.Errorf("the matcher displaces unit %d of %d", i, len(s.victims))
		}
	}
	return a.Slots, a.Displaced, nil
}

// plan returns the plan with chosen victims.
func (s *preemptionSearch) plan(slots []match.Slot, chosen []int) *preemption.Plan {
	plan := &preemption.Plan{For: s.r.For, Slots: slots}
	for _, i := range chosen {
		plan.Victims = append(plan.Victims, s.victims[i])
	}
	return plan
}
