package placement

import (
	"context"
	"errors"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// An enquiry is what the matcher is asked for a plan.
type attempt struct {
	plan   gang.Plan
	shapes []*interpod.Shape
	nodes  []fwk.NodeInfo
	// requests are complete but for what the pods ask of each other, and keys are
	// theirs in order.
	requests []translate.ShapeRequest
	keys     []string
	verdicts
	// cluster is what there is beside the group and the filters.
	cluster ClusterState
	// firstTried is the way that was asked first, and excluded what was excluded then, where siblings
	// object to each other.
	firstTried *alternative
	podLimits  podLimits
	// constraints is nil where no filter could object to one pod for the sake of another.
	constraints *interpod.Constraints
	topology    *jobspec.Topology

	// outlasted says of a pod, where nodes to reserve are looked for, that it has outlasted a
	// reservation.
	outlasted func(*corev1.Pod) bool

	// budget is what the search for nodes may take.
	budget *Budget

	outcome
}

// verdicts are those of the filters and the extenders.
type verdicts struct {
	// rejected is what they rule out for any shape, and byShape what each shape is kept from.
	rejected filterResult
	byShape  []map[string]bool
	// never are by shape the nodes ruled out for good, and filtered and extended those that the
	// filters and the extenders rule out for the present.
	never, filtered, rejectedByExtenders [][]string
}

// An outcome is what there is to tell of an enquiry beside its answer.
type outcome struct {
	// effects is what follows from the matcher's answers, and stats counts what was done.
	effects MatcherEffects
	stats   Stats
	// blockingTurns are the turns for which nodes are reserved that the group could use.
	blockingTurns []gang.Turn
}

// newAttempt runs the filters for a plan. It may only be called inside a scheduling
// cycle. It looks at the first kind of pods in any case, and at others until its allowance is
// over.
func (p *Placer) newAttempt(ctx context.Context, budget *Budget, plan gang.Plan, nodes []fwk.NodeInfo) (*attempt, *gang.Refusal) {
	if k := plan.Missing; plan.Late && k > 0 {
		// The others may not have the room that is reserved, and ask next.
		plan.Optional = plan.Optional[:min(len(plan.Optional), k-1)]
	}
	extenders := p.extendersFor(plan)
	pods := slices.Concat(plan.Required, plan.Optional)
	by := interpod.NewSigner(pods, nodes, &p.antiAffinity, interpod.ClaimsOf(p.Handle.SharedInformerFactory(), pods), budget.isOver)
	if len(extenders.all) > 0 {
		by.ReadAllLabels()
	}
	shapes, exact := interpod.ShapesOf(plan.Required, plan.Optional, by)
	if by.Cut() {
		return nil, TooHard(whyTooHard)
	}
	if hasTooManyTypes(shapes) {
		return nil, TooHard(whyTooManyTypes)
	}
	q := &attempt{plan: plan, shapes: shapes, nodes: nodes, topology: plan.Topology, budget: budget}
	var err error
	if q.constraints, err = interpod.New(q.shapes, exact, nodes, p.Levels, p.labelsOf(budget.ctx), budget.isOver); err != nil {
		return nil, &gang.Refusal{Reason: reason.NodesRuledOut, Message: err.Error(), RetryOn: gang.ClusterEvents(), Backoff: true}
	}
	for i, s := range q.shapes {
		if i > 0 && budget.isOver() {
			return nil, budget.refusal()
		}
		pod := s.Pods[0]
		if q.constraints != nil {
			pod = q.constraints.Relaxed[i]
		}
		out, refused := p.runFilters(ctx, budget, pod, nodes)
		filtered := slices.Clone(out.now)
		if refused == nil {
			refused = extenders.narrow(s.Pods[0], nodes, &out)
		}
		if refused != nil {
			refused.AlsoRefused = uids(s.Pods)
			return nil, refused
		}
		if q.constraints != nil {
			out.never = append(out.never, q.constraints.Unlabelled[i]...)
		}
		q.filtered = append(q.filtered, filtered)
		q.add(out, s)
	}
	q.stayWithSiblings(p.Levels)
	q.cluster = p.ClusterState(plan)
	q.leaveOut(q.cluster.Reserved.Nodes)
	return q, nil
}

// labelsOf returns the labels of namespaces.
func (p *Placer) labelsOf(ctx context.Context) func(namespace string) labels.Set {
	lister := p.Handle.SharedInformerFactory().Core().V1().Namespaces().Lister()
	logger := klog.FromContext(ctx)
	return func(namespace string) labels.Set {
		return interpodaffinity.GetNamespaceLabelsSnapshot(logger, namespace, lister)
	}
}

// add adds the request for a shape.
func (q *attempt) add(out filterResult, s *interpod.Shape) {
	q.rejected.add(out)
	barred := sets.New(out.never...)
	q.never = append(q.never, out.never)
	q.rejectedByExtenders = append(q.rejectedByExtenders, out.rejectedByExtenders)
	q.byShape = append(q.byShape, asMap(barred.Insert(out.now...)))
	request := translate.ShapeRequest{
		Label:      "shape" + strconv.Itoa(len(q.requests)),
		Amounts:    s.Amounts,
		Min:        s.Required,
		Max:        int64(len(s.Pods)),
		Attributes: out.attributes(),
	}
	if !q.plan.Late {
		request.Attributes.Topology = q.topology
	}
	q.requests = append(q.requests, request)
	for _, pod := range s.Pods {
		q.keys = append(q.keys, string(pod.UID))
	}
}

func asMap(hosts sets.Set[string]) map[string]bool {
	barred := make(map[string]bool, len(hosts))
	for h := range hosts {
		barred[h] = true
	}
	return barred
}

// stayWithSiblings keeps late members of a group that is to be in one domain to the
// domains where its members are.
func (q *attempt) stayWithSiblings(levels []translate.Level) {
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
		narrow(&q.requests[i].Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
	}
}

// leaveOut has the requests leave out nodes, for the present.
func (q *attempt) leaveOut(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	for i := range q.requests {
		narrow(&q.requests[i].Attributes.ConstraintsNow, notOn(nodes))
	}
}

// narrow narrows a constraint by another.
func narrow(c **jobspec.Constraint, more *jobspec.Constraint) {
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

// whyTooManyTypes is what a group is told that asks for more types of resources than a match may.
const whyTooManyTypes = "its pods ask for more than 128 types of resources in all: fewer extended resources, or groups of their own for pods that ask for others"

// hasTooManyTypes says whether shapes ask for more types of resources than one match may.
func hasTooManyTypes(shapes []*interpod.Shape) bool {
	kinds := sets.New[string]()
	for _, s := range shapes {
		if kinds.Insert(s.Amounts.Types()...); kinds.Len() > match.MaxResourceTypes {
			return true
		}
	}
	return false
}

// isTooLarge says whether requests list more nodes than one match may, or take more to write
// down.
func isTooLarge(requests []translate.ShapeRequest) bool {
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
func (p *Placer) match(ctx context.Context, q *attempt, op match.Op, requests []translate.ShapeRequest, keys []string) (*match.Allocation, error) {
	return p.matchIgnoring(ctx, q, op, requests, keys, nil)
}

// matchIgnoring asks as if some jobs held nothing.
func (p *Placer) matchIgnoring(ctx context.Context, q *attempt, op match.Op, requests []translate.ShapeRequest, keys []string, ignored []match.JobID) (*match.Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, p.MatchTimeout)
	defer cancel()
	a, err := p.Matcher.Match(ctx, match.Request{
		Epoch:    q.cluster.Epoch,
		Op:       op,
		ID:       q.plan.Job,
		Jobspec:  translate.Jobspec(requests),
		Keys:     keys,
		Now:      q.cluster.At,
		Policy:   q.plan.Policy,
		Holder:   q.plan.Holder,
		Near:     q.plan.Near,
		Expected: q.cluster.Expected,
		Ignore:   ignored,
	})
	if a != nil {
		q.budget.waited += a.Waited
	}
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		q.budget.waited += no.Waited
	}
	return a, err
}
