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

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// ask makes one match for all pods of a plan and seats them. It returns the node
// of the pod that asked, empty if another pod has to come to its node first, or why there is none.
func (pl *Fluence) ask(ctx context.Context, plan gang.Plan, nodes []fwk.NodeInfo) (node string, refused *gang.Refusal) {
	// 1. A namespace that is in debt has others ask first.
	began := pl.now()
	if owes := pl.owes(plan, began); owes != nil && !pl.comes(plan) {
		return "", owes
	}

	// 2. The namespace pays for what the rest takes, whatever comes of it.
	may := &allowance{ctx: ctx, now: pl.now, began: began, most: pl.args.MaxAsk.Duration}
	defer func() { pl.settleAsk(plan, may, refused) }()

	// 3. Run the filters, and compare the pods with each other: this is what the matcher is asked.
	q, refused := pl.enquire(ctx, may, plan, nodes)
	if refused != nil {
		return "", refused
	}

	// 4. Find a node for each pod. This changes nothing but the matcher's graph.
	slots, refused := pl.answer(ctx, q)

	// 5. See to what the answer says of the matcher.
	refused = pl.follow(ctx, q, refused)

	// 6. A group that has waited for room for too long has nodes reserved for it.
	if refused != nil {
		pl.reserve(ctx, q, refused)
		refused.Likewise = uids(q.shapes[0].pods)
		return "", refused
	}

	// 7. Give each pod its seat, and wake those that have one now.
	plan.InOrder = q.siblings != nil && q.siblings.inOrder()
	return pl.seat(ctx, q, plan, slots)
}

// settleAsk counts an enquiry, and has its namespace pay for it.
func (pl *Fluence) settleAsk(plan gang.Plan, may *allowance, refused *gang.Refusal) {
	pl.counters.enquired(refused, pl.now().Sub(may.began))
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		// A matcher that does not answer is nobody's fault, until that is known.
		pl.charge(plan.Key.Namespace, may.took(), refused != nil)
	}
	pl.tellHard(plan, refused, may)
}

// seat gives the pods of a plan the slots that were found for them. It returns what ask does.
func (pl *Fluence) seat(ctx context.Context, q *enquiry, plan gang.Plan, slots []match.Slot) (string, *gang.Refusal) {
	timeout := plan.Timeout
	if timeout == 0 {
		timeout = pl.args.ScheduleTimeout.Duration
	}
	// Before they have their seats: one that loses its seat is no longer expected.
	pl.expect(slots)
	node, siblings, out, err := pl.groups.Seat(plan, slots, q.now.Add(timeout))
	pl.apply(ctx, out)
	if err != nil {
		pl.noLongerExpected(keysOf(slots)...)
		return "", &gang.Refusal{Reason: reason.Gathering, Message: err.Error(), Until: gang.Cluster(), Backoff: true}
	}
	if pl.inventory.Epoch() != q.epoch {
		// The graph was filled anew, perhaps without these seats.
		pl.apply(ctx, pl.groups.Abandon(plan.Pod(), plan.Job, q.now))
		return "", &gang.Refusal{Reason: reason.MatcherUnavailable, Message: "the matcher's graph was loaded anew during the match", Until: []gang.Event{gang.MatcherBack}}
	}
	pl.logged.forget(plan.Key)
	pl.log.V(2).Info("Group matched", "group", plan.Key, "job", plan.Job, "pods", len(slots), "nodes", nodesOf(slots), "took", pl.now().Sub(q.now))
	// Not from here: the queue is told when this cycle is over the match.
	pl.waker.pods(siblings)
	if plan.InOrder && slots[0].Key != string(plan.Pod()) {
		// Another comes first.
		pl.groups.Unclaim(plan.Pod())
		return "", nil
	}
	return node, nil
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
func (pl *Fluence) answer(ctx context.Context, q *enquiry) ([]match.Slot, *gang.Refusal) {
	if q.siblings != nil {
		return pl.placeSiblings(ctx, q)
	}
	if tooManyHosts(q.requests) {
		return nil, tooHard(whyTooManyHosts)
	}
	a, err := pl.match(ctx, q, match.Allocate, q.requests, q.keys)
	if err != nil {
		return nil, pl.refused(q, err)
	}
	return a.Slots, nil
}

// An aftermath is what follows from the matcher's answers beside what the group is told.
type aftermath struct {
	// release lists what is to go back: what was booked and is not wanted, or what may have been
	// booked.
	release []gang.Release
	// stale says that the graph is another than the one that was asked.
	stale bool
	// silent says that the matcher gave no answer, and late that it had as long as it may take.
	silent, late bool
	// broke says that the matcher broke on the request.
	broke error
}

// follow does what follows from the matcher's answers. It returns what the group is told: that
// may be another thing where the matcher answers others.
func (pl *Fluence) follow(ctx context.Context, q *enquiry, refused *gang.Refusal) *gang.Refusal {
	key, after := q.plan.Key, q.after
	for _, r := range after.release {
		pl.returns.add(r)
	}
	if after.stale {
		pl.inventory.Resync()
	}
	if after.broke != nil {
		klog.FromContext(ctx).Error(after.broke, "Match", "group", key, "job", q.plan.Job)
		if refused.Hard {
			pl.charge(key.Namespace, mostDebt, true)
		}
	}
	if after.late {
		if blame, owed := pl.suspects.timedOut(key, pl.breaker.answered(), pl.args.MatchTimeout.Duration, pl.now()); blame {
			pl.charge(key.Namespace, owed, true)
			pl.breaker.doubt()
			return tooHard(whyTimeout)
		}
	}
	if after.silent {
		pl.breaker.trip(whyUnavailable)
	}
	if refused == nil || refused.Reason != reason.MatcherUnavailable {
		pl.suspects.clear(key)
	}
	return refused
}

// refused is what the group is told where the matcher found no room, or gave no answer.
func (pl *Fluence) refused(q *enquiry, err error) *gang.Refusal {
	r := pl.refusalOf(q, err)
	if r.Reason == reason.NoRoom {
		pl.tellReserved(q.reserved, r)
	}
	return r
}

// refusalOf turns an error of the matcher into what the group is told, and takes note of what
// follows.
func (pl *Fluence) refusalOf(q *enquiry, err error) *gang.Refusal {
	var no *match.Refusal
	switch {
	case errors.As(err, &no) && no.Reason.Code == match.TooHard:
		return tooHard(whyTooHard)
	case errors.As(err, &no):
		r := &gang.Refusal{
			Reason:  reason.NoRoom,
			Message: translate.Shorten(translate.Message(no.Reason, pl.endOf(no.Reason, q.plan.Key)) + q.ruled.String()),
			Until:   append(q.ruled.events(), gang.NodeChanged, gang.MatcherBack),
			// By what a match is overtaken need not be one of these events.
			Backoff: q.ruled.byExtender || no.Reason.Code == match.Overtaken,
		}
		if errors.Is(err, match.ErrUnsatisfiable) {
			// What others give back does not help.
			r.Reason, r.Cure = reason.NeverFits, gang.CureNodes
		} else {
			r.Until = append(r.Until, gang.Freed)
			if no.Reason.WaitingHelps && !no.Reason.MayNeverFit {
				r.Cure = gang.CureRoom
			}
		}
		return r
	case errors.Is(err, match.ErrStale):
		q.after.stale = true
		return &gang.Refusal{Reason: reason.MatcherUnavailable, Message: whyLoading, Until: []gang.Event{gang.MatcherBack}}
	case errors.Is(err, match.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		// It may have booked the request and not been able to say so.
		q.after.release = append(q.after.release, gang.Release{Job: q.plan.Job})
		q.after.silent, q.after.late = true, errors.Is(err, context.DeadlineExceeded)
		return &gang.Refusal{Reason: reason.MatcherUnavailable, Message: whyUnavailable, Until: []gang.Event{gang.MatcherBack}}
	default:
		q.after.release = append(q.after.release, gang.Release{Job: q.plan.Job})
		q.after.broke = err
		// Where it broke it may have cost the matcher its graph, and all others the time to fill it.
		return &gang.Refusal{
			Reason: reason.MatchError, Message: fmt.Sprintf("match: %v", err), Until: gang.Cluster(), Backoff: true,
			Hard: match.OutcomeOf(err) == match.OutcomeError,
		}
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
func shapesOf(plan gang.Plan, by *selectedBy) (shapes []*shape, exact bool) {
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
func (b *selectedBy) sort(plan gang.Plan) []*shape {
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
