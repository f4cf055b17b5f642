package fluence

import (
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// An enquiry is what the matcher is asked for a plan.
type enquiry struct {
	plan   group.Plan
	shapes []*shape
	nodes  []fwk.NodeInfo
	// requests are complete but for what the pods ask of each other, and keys are
	// theirs in order.
	requests []translate.ShapeRequest
	keys     []string
	// ruled is what the filters rule out, and byShape what each shape is kept from.
	ruled   ruledOut
	byShape []map[string]bool
	kept    keptRoom
	// siblings is nil where no filter could object to one pod for the sake of another.
	siblings *siblings
	topology *jobspec.Topology

	expected []match.Slot
	now      time.Time
	epoch    match.Epoch
}

// enquire runs the filters for a plan. It may only be called inside a scheduling
// cycle.
func (pl *Fluence) enquire(ctx context.Context, plan group.Plan, nodes []fwk.NodeInfo) (*enquiry, *group.Refusal) {
	q := &enquiry{plan: plan, shapes: shapesOf(plan), nodes: nodes, topology: topologyOf(plan.Topology)}
	var err error
	if q.siblings, err = pl.siblingsOf(q.shapes, nodes, klog.FromContext(ctx)); err != nil {
		return nil, &group.Refusal{Reason: reasonFilters, Message: err.Error(), Until: group.Cluster(), Backoff: true}
	}
	extenders := pl.extendersFor(plan)
	for i, s := range q.shapes {
		pod := s.pods[0]
		if q.siblings != nil {
			pod = q.siblings.lenient[i]
		}
		out, refused := pl.ruleOut(ctx, pod, nodes)
		if refused == nil {
			refused = extenders.narrow(s.pods[0], nodes, &out)
		}
		if refused != nil {
			refused.Likewise = uids(s.pods)
			return nil, refused
		}
		if q.siblings != nil {
			out.never = append(out.never, q.siblings.unlabelled[i]...)
		}
		q.add(out, s)
	}
	q.stayWithSiblings(pl.levels)
	q.kept = pl.keptFrom(ctx, plan, nodes)
	q.kept.leaveOut(q.requests)
	q.now, q.epoch = pl.now(), pl.inventory.Epoch()
	// As kube-scheduler does when it filters.
	q.expected = pl.nominated.slots(lowest(slices.Concat(plan.Required, plan.Optional)), q.now)
	return q, nil
}

// add adds the request for a shape.
func (q *enquiry) add(out ruledOut, s *shape) {
	q.ruled.add(out)
	barred := sets.New(out.never...)
	q.byShape = append(q.byShape, barredBy(barred.Insert(out.now...)))
	request := translate.ShapeRequest{
		Label:      "shape" + strconv.Itoa(len(q.requests)),
		Amounts:    s.amounts,
		Min:        s.required,
		Max:        int64(len(s.pods)),
		Attributes: out.attributes(),
	}
	if !q.plan.Late {
		request.Attributes.Topology = q.topology
	}
	q.requests = append(q.requests, request)
	for _, pod := range s.pods {
		q.keys = append(q.keys, string(pod.UID))
	}
}

func barredBy(hosts sets.Set[string]) map[string]bool {
	barred := make(map[string]bool, len(hosts))
	for h := range hosts {
		barred[h] = true
	}
	return barred
}

// stayWithSiblings keeps late members of a group that is to be in one domain to the
// domains where its members are.
func (q *enquiry) stayWithSiblings(levels []translate.Level) {
	if !q.plan.Late || q.topology == nil || q.topology.Required == "" {
		return
	}
	near, there := sets.New(q.plan.Near...), sets.New[string]()
	domain := func(n fwk.NodeInfo) string {
		if d, ok := translate.Domain(n.Node().Labels, levels, q.topology.Required); ok {
			return d
		}
		return n.Node().Name
	}
	for _, n := range q.nodes {
		if near.Has(n.Node().Name) {
			there.Insert(domain(n))
		}
	}
	if len(there) == 0 {
		return
	}
	var hosts []string
	for _, n := range q.nodes {
		if there.Has(domain(n)) {
			hosts = append(hosts, n.Node().Name)
		}
	}
	for i := range q.requests {
		within(&q.requests[i].Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
	}
}

// within narrows a constraint by another.
func within(c **jobspec.Constraint, more *jobspec.Constraint) {
	if *c == nil {
		*c = more
		return
	}
	*c = &jobspec.Constraint{Op: jobspec.OpAnd, Args: []jobspec.Constraint{**c, *more}}
}

// match asks for an enquiry's requests.
func (pl *Fluence) match(ctx context.Context, q *enquiry, op match.Op, requests []translate.ShapeRequest, keys []string) (*match.Allocation, error) {
	return pl.matcher.Match(ctx, match.Request{
		Epoch:    q.epoch,
		Op:       op,
		ID:       q.plan.Job,
		Jobspec:  translate.Jobspec(requests),
		Keys:     keys,
		Now:      q.now,
		Policy:   q.plan.Policy,
		Holder:   q.plan.Holder,
		Near:     q.plan.Near,
		Expected: q.expected,
	})
}
