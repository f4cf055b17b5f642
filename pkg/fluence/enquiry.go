package fluence

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/hostlist"
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
	// never are by shape the nodes ruled out for good, and filtered and extended those that the
	// filters and the extenders rule out for the present.
	never, filtered, extended [][]string
	// reserved is the room that others come first to.
	reserved reservedRoom
	// first is the way that was asked first, and excluded what was excluded then, where siblings
	// object to each other.
	first    *attempt
	excluded passable
	// siblings is nil where no filter could object to one pod for the sake of another.
	siblings *siblings
	topology *jobspec.Topology

	// outlasted says of a pod, where nodes to reserve are looked for, that it has outlasted a
	// reservation.
	outlasted func(*corev1.Pod) bool

	// may is what the search for nodes may take.
	may *allowance

	expected []match.Slot
	now      time.Time
	epoch    match.Epoch
}

// enquire runs the filters for a plan. It may only be called inside a scheduling
// cycle. It looks at the first kind of pods in any case, and at others until its allowance is
// over.
func (pl *Fluence) enquire(ctx context.Context, may *allowance, plan group.Plan, nodes []fwk.NodeInfo) (*enquiry, *group.Refusal) {
	if k := plan.Lacking; plan.Late && k > 0 {
		// The others may not have the room that is reserved, and ask next.
		plan.Optional = plan.Optional[:min(len(plan.Optional), k-1)]
	}
	extenders := pl.extendersFor(plan)
	by := pl.selectedBy(plan, nodes, may)
	// What an extender reads, nobody knows.
	by.all = by.all || len(extenders.all) > 0
	shapes, exact := shapesOf(plan, by)
	if by.cut {
		return nil, tooHard(whyTooHard)
	}
	if tooManyKinds(shapes) {
		return nil, tooHard(whyTooManyKinds)
	}
	q := &enquiry{plan: plan, shapes: shapes, nodes: nodes, topology: topologyOf(plan.Topology), may: may}
	var err error
	if q.siblings, err = pl.siblingsOf(may, q.shapes, nodes, exact); err != nil {
		return nil, &group.Refusal{Reason: reasonFilters, Message: err.Error(), Until: group.Cluster(), Backoff: true}
	}
	for i, s := range q.shapes {
		if i > 0 && may.over() {
			return nil, may.refusal()
		}
		pod := s.pods[0]
		if q.siblings != nil {
			pod = q.siblings.lenient[i]
		}
		out, refused := pl.ruleOut(ctx, may, pod, nodes)
		filtered := slices.Clone(out.now)
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
		q.filtered = append(q.filtered, filtered)
		q.add(out, s)
	}
	q.stayWithSiblings(pl.levels)
	q.reserved = pl.reservedFor(plan)
	q.reserved.leaveOut(q.requests)
	q.now, q.epoch = pl.now(), pl.inventory.Epoch()
	// As kube-scheduler does when it filters.
	q.expected = pl.nominated.slots(lowest(slices.Concat(plan.Required, plan.Optional)), q.now)
	return q, nil
}

// add adds the request for a shape.
func (q *enquiry) add(out ruledOut, s *shape) {
	q.ruled.add(out)
	barred := sets.New(out.never...)
	q.never = append(q.never, out.never)
	q.extended = append(q.extended, out.byExtenders)
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

const (
	// mostHosts is how many names of nodes the lists of one match may stand for: less than a
	// jobspec may, so that a group is told what is too much.
	mostHosts = 1 << 19
	// mostText and mostCost are what a jobspec may take to write and to read. A value that it
	// lists costs valueCost beside its text.
	mostText  = jobspec.MaxSize
	mostCost  = 12 << 20
	valueCost = 16
)

// whyTooManyKinds is what a group is told that asks for more types of resources than a match may.
const whyTooManyKinds = "its pods ask for more than 128 types of resources in all: fewer extended resources, or groups of their own for pods that ask for others"

// tooManyKinds says whether shapes ask for more types of resources than one match may.
func tooManyKinds(shapes []*shape) bool {
	kinds := sets.New[string]()
	for _, s := range shapes {
		if kinds.Insert(s.amounts.Types()...); kinds.Len() > match.MaxKinds {
			return true
		}
	}
	return false
}

// tooManyHosts says whether requests list more nodes than one match may, or take more to write
// down.
func tooManyHosts(requests []translate.ShapeRequest) bool {
	l := listed{limits: make(map[string][]string)}
	for i := range requests {
		l.add(&requests[i])
	}
	return l.hosts > mostHosts || l.text > mostText || l.text+valueCost*l.values > mostCost
}

// A listed is what there is in the lists of some requests, and what these take to write down.
type listed struct {
	hosts, values, text int
	// limits are the lists by their limits' names. Those of a limit are read once.
	limits map[string][]string
}

// add counts a request.
func (l *listed) add(r *translate.ShapeRequest) {
	l.value(256+3*len(r.Label), 24)
	for _, kind := range r.Amounts.Types() {
		l.value(64+len(kind), 8)
	}
	if t := r.Attributes.Topology; t != nil {
		l.value(96+len(t.Required)+len(t.Balanced), 8)
		for _, level := range t.Preferred {
			l.value(3+len(level), 1)
		}
	}
	l.constraint(r.Attributes.Constraints)
	l.constraint(r.Attributes.ConstraintsNow)
	for _, limit := range r.Attributes.Limits {
		l.limit(limit)
	}
}

// value counts values that take so many bytes in all.
func (l *listed) value(text, values int) {
	l.text += text
	l.values += values
}

func (l *listed) constraint(c *jobspec.Constraint) {
	if c == nil {
		return
	}
	l.value(32, 2)
	l.hosts += len(c.Values)
	for _, v := range c.Values {
		l.value(len(v)+3, 1)
	}
	for i := range c.Args {
		l.constraint(&c.Args[i])
	}
}

func (l *listed) limit(from jobspec.Limit) {
	l.value(64+len(from.Name)+len(from.Level), 8)
	for _, h := range from.Hosts {
		l.value(len(h)+3, 1)
	}
	if before, again := l.limits[from.Name]; again && slices.Equal(before, from.Hosts) {
		return
	}
	l.limits[from.Name] = from.Hosts
	for _, h := range from.Hosts {
		if l.hosts > mostHosts {
			return
		}
		if list, err := hostlist.Parse(h); err == nil {
			l.hosts += list.Len(mostHosts)
		}
	}
}

// match asks for an enquiry's requests.
func (pl *Fluence) match(ctx context.Context, q *enquiry, op match.Op, requests []translate.ShapeRequest, keys []string) (*match.Allocation, error) {
	return pl.matchIgnoring(ctx, q, op, requests, keys, nil)
}

// matchIgnoring asks as if some jobs held nothing.
func (pl *Fluence) matchIgnoring(ctx context.Context, q *enquiry, op match.Op, requests []translate.ShapeRequest, keys []string, ignored []match.JobID) (*match.Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, pl.args.MatchTimeout.Duration)
	defer cancel()
	a, err := pl.matcher.Match(ctx, match.Request{
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
		Ignore:   ignored,
	})
	if a != nil {
		q.may.waited += a.Waited
	}
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		q.may.waited += no.Waited
	}
	return a, err
}
