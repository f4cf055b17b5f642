package placement

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// An attempt is one try to place the pods of a plan.
type attempt struct {
	plan   gang.Plan
	shapes []*interpod.Shape
	nodes  []fwk.NodeInfo
	// requests has one request for each shape. It lacks the constraints among the
	// pods, because each alternative adds these.
	requests []translate.ShapeRequest
	// keys are the UIDs of the requests' pods, in order.
	keys []string
	verdicts
	// cluster is what other pods and groups claim.
	cluster ClusterState
	// firstTried is the alternative that was tried first. It is nil if none was tried.
	firstTried *alternative
	// firstLimits are the exclusions with which firstTried was tried.
	firstLimits exclusionLimits
	// constraints are the constraints among the group's pods. It is nil if no filter
	// can reject one pod because of another.
	constraints *interpod.Constraints
	// shunned is true if pods exist with required anti-affinity that may be to the group's pods.
	shunned bool
	// topology is the topology that the group asks for.
	topology *jobspec.Topology

	// outlasted reports whether a pod has outlasted a reservation. It is set only in
	// a search for nodes to reserve.
	outlasted func(*corev1.Pod) bool

	// budget is how much of the scheduling loop the attempt may take.
	budget *Budget

	outcome
}

// verdicts are the verdicts of the filters and the extenders.
type verdicts struct {
	// rejected merges the verdicts for all shapes.
	rejected filterResult
	// ruledOutByShape has, for each shape, the nodes that are ruled out for it.
	ruledOutByShape []map[string]bool
	// unresolvable has, for each shape, the nodes that are ruled out for good. filtered has
	// the nodes that the filters rule out for the present. rejectedByExtenders has
	// the nodes that the extenders rule out for the present.
	unresolvable, filtered, rejectedByExtenders [][]string
	// stay is the domain that the pods may not leave. It is nil if there is none.
	stay *siblingDomain
}

// An outcome is what an attempt results in besides slots or a refusal.
type outcome struct {
	// effects is what the caller has to do because of the matcher's answers.
	effects MatcherEffects
	// stats counts what was done.
	stats Stats
	// blockingTurns are the turns with reserved nodes that the group could use.
	blockingTurns []gang.Turn
	// rejectedOn are the nodes of the last match on which the filters rejected pods.
	rejectedOn []string
}

// newAttempt runs the filters for a plan and builds the requests. It may only be
// called inside a scheduling cycle. It runs the filters for the first shape in any
// case. It returns a refusal if the budget is used up before the last shape.
func (p *Placer) newAttempt(ctx context.Context, budget *Budget, plan gang.Plan, nodes []fwk.NodeInfo) (*attempt, *gang.Refusal) {
	if k := plan.Missing; plan.Late && k > 0 {
		// Only as many pods as the group lacks, the k that are missing, may use reserved
		// room: the one required pod and k-1 optional ones. The others are placed later.
		plan.Optional = plan.Optional[:min(len(plan.Optional), k-1)]
	}
	if why := whyNoDomain(plan, nodes); why != "" {
		return nil, &gang.Refusal{Reason: reason.NodesRuledOut, Message: why, RetryOn: gang.ClusterEvents(), Backoff: true}
	}
	extenders := p.extendersFor(plan)
	pods := slices.Concat(plan.Required, plan.Optional)
	budget.sizeText = reason.Plural(len(pods), "pod")
	by := interpod.NewSigner(pods, nodes, &p.antiAffinity, interpod.ClaimsOf(p.Handle.SharedInformerFactory(), pods), budget.isOver)
	if len(extenders.all) > 0 {
		by.ReadAllLabels()
	}
	shapes, exact := interpod.ShapesOf(plan.Required, plan.Optional, by)
	if by.IsStopped() {
		return nil, TooHard(budget.whyTooSlow())
	}
	budget.sizeText += " of " + reason.Plural(len(shapes), "kind")
	if hasTooManyTypes(shapes) {
		return nil, TooHard(whyTooManyTypes(shapes))
	}
	q := &attempt{plan: plan, shapes: shapes, nodes: nodes, shunned: by.ReadsExistingPods(), topology: topologyOf(plan), budget: budget}
	var err error
	if q.constraints, err = interpod.New(q.shapes, exact, plan.Domain, nodes, p.Levels, p.labelsOf(budget.ctx), budget.isOver); err != nil {
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
		filtered := slices.Clone(out.unschedulable)
		if refused == nil {
			refused = extenders.filter(s.Pods[0], nodes, &out)
		}
		if refused != nil {
			refused.AlsoRefused = uids(s.Pods)
			return nil, refused
		}
		if q.constraints != nil {
			out.unresolvable = append(out.unresolvable, q.constraints.Unlabelled[i]...)
		}
		out.unresolvable = append(out.unresolvable, q.outsideDomain()...)
		q.filtered = append(q.filtered, filtered)
		q.add(out, s)
	}
	q.stayWithSiblings(p.Levels)
	q.limitPerNode()
	pinToRoom(q)
	q.cluster = p.ClusterState(plan)
	q.excludeNodes(q.cluster.Reserved.Nodes)
	return q, nil
}

// whyNoDomain returns why no node has the domain that a plan asks for, in
// words fit for a user. It is empty if nodes may have it.
func whyNoDomain(plan gang.Plan, nodes []fwk.NodeInfo) string {
	key, without := plan.Domain, ""
	if key == "" {
		return ""
	}
	near, labelled, known := sets.New(plan.Near...), false, false
	for _, n := range nodes {
		_, ok := n.Node().Labels[key]
		labelled = labelled || ok
		switch name := n.Node().Name; {
		case !near.Has(name):
		case ok:
			known = true
		case without == "" || name < without:
			without = name
		}
	}
	switch {
	case !labelled:
		return fmt.Sprintf("no node has the label %s, of which all pods of the group must have the same value", key)
	case without != "" && !known:
		return fmt.Sprintf("all pods of the group must have the same value of the node label %s, and pods of it are on node %s, which does not have the label", key, without)
	}
	return ""
}

// outsideDomain returns the nodes on which no pod of the group may be because of the domain that the
// plan asks for: those without the label and, if siblings have nodes, those with another value.
func (q *attempt) outsideDomain() []string {
	key := q.plan.Domain
	if key == "" {
		return nil
	}
	near, there := sets.New(q.plan.Near...), sets.New[string]()
	for _, n := range q.nodes {
		if value, ok := n.Node().Labels[key]; ok && near.Has(n.Node().Name) {
			there.Insert(value)
		}
	}
	if len(there) > 0 && q.stay == nil {
		q.stayIn(func(n fwk.NodeInfo) (string, bool) {
			value, ok := n.Node().Labels[key]
			return key + "=" + value, ok && there.Has(value)
		})
	}
	var outside []string
	for _, n := range q.nodes {
		if value, ok := n.Node().Labels[key]; !ok || len(there) > 0 && !there.Has(value) {
			outside = append(outside, n.Node().Name)
		}
	}
	return outside
}

// labelsOf returns a function that returns the labels of a namespace.
func (p *Placer) labelsOf(ctx context.Context) func(namespace string) labels.Set {
	lister := p.Handle.SharedInformerFactory().Core().V1().Namespaces().Lister()
	logger := klog.FromContext(ctx)
	return func(namespace string) labels.Set {
		return interpodaffinity.GetNamespaceLabelsSnapshot(logger, namespace, lister)
	}
}

// add adds the request for a shape, and the verdicts on its nodes.
func (q *attempt) add(out filterResult, s *interpod.Shape) {
	q.rejected.add(out)
	barred := sets.New(out.unresolvable...)
	q.unresolvable = append(q.unresolvable, out.unresolvable)
	q.rejectedByExtenders = append(q.rejectedByExtenders, out.rejectedByExtenders)
	q.ruledOutByShape = append(q.ruledOutByShape, asMap(barred.Insert(out.unschedulable...)))
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

// stayWithSiblings limits late members of a group with a required topology to the
// domains of their siblings.
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
	hosts := q.stayIn(func(n fwk.NodeInfo) (string, bool) {
		d := domain(n)
		return d[strings.LastIndexByte(d, '/')+1:], there.Has(d)
	})
	for i := range q.requests {
		addConstraint(&q.requests[i].Attributes.ConstraintsNow, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: hosts})
	}
}

// excludeNodes excludes nodes from all requests, for the present.
func (q *attempt) excludeNodes(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	for i := range q.requests {
		addConstraint(&q.requests[i].Attributes.ConstraintsNow, notOn(nodes))
	}
}

// addConstraint narrows a constraint by another one.
func addConstraint(c **jobspec.Constraint, more *jobspec.Constraint) {
	if *c == nil {
		*c = more
		return
	}
	*c = &jobspec.Constraint{Op: jobspec.OpAnd, Args: []jobspec.Constraint{**c, *more}}
}

const (
	// maxHosts bounds the number of node names in all host lists of one match,
	// with ranges expanded. It is below the bound of the jobspec, so that the
	// group is refused with a message about the cause, and not by the parser.
	maxHosts = 1 << 19
	// maxText bounds the bytes of a jobspec.
	maxText = jobspec.MaxSize
	// maxCost bounds the cost to write and read a jobspec: its bytes, and valueCost
	// for each value in its lists.
	maxCost = 12 << 20
	// valueCost is the cost of a value in a list, besides its bytes.
	valueCost = 16
)

// whyTooManyTypes returns the message of a group that asks for more types of resources than a match may.
func whyTooManyTypes(shapes []*interpod.Shape) string {
	return fmt.Sprintf("its pods request %d types of resources, and one group may request %d: use fewer extended resources, or several groups", countTypes(shapes), match.MaxResourceTypes)
}

// hasTooManyTypes reports whether shapes ask for more types of resources than one match may.
func hasTooManyTypes(shapes []*interpod.Shape) bool {
	return countTypes(shapes) > match.MaxResourceTypes
}

// countTypes returns how many types of resources shapes ask for.
func countTypes(shapes []*interpod.Shape) int {
	kinds := sets.New[string]()
	for _, s := range shapes {
		kinds.Insert(s.Amounts.Types()...)
	}
	return kinds.Len()
}

// isTooLarge reports whether requests list too many nodes for one match, or cost too
// much to write and read.
func isTooLarge(requests []translate.ShapeRequest) bool { return whyTooLarge(requests) != "" }

// whyTooLarge returns the message of a group whose requests are too large for
// one match. It returns "" if they are not.
func whyTooLarge(requests []translate.ShapeRequest) string {
	l := requestSize{limits: make(map[string][]string)}
	for i := range requests {
		l.add(&requests[i])
	}
	const cause = "because filters, anti-affinity or spread constraints exclude nodes one by one: " + useFewer
	switch {
	case l.hosts > maxHosts:
		return fmt.Sprintf("the request for nodes lists %d node names, and one request may list %d, %s", l.hosts, maxHosts, cause)
	case l.text > maxText:
		return fmt.Sprintf("the request for nodes takes %d bytes, and one request may take %d, %s", l.text, maxText, cause)
	case l.text+valueCost*l.values > maxCost:
		return fmt.Sprintf("the request for nodes lists %d values in %d bytes, more than one request may, %s", l.values, l.text, cause)
	}
	return ""
}

// A listed estimates how much some requests list, and how large their jobspec is.
type requestSize struct {
	// hosts counts the node names. values counts the values in lists. text counts the bytes.
	hosts, values, text int
	// limits are the host lists by the names of their limits. Several shapes may have
	// a limit, and its hosts count once.
	limits map[string][]string
}

// add counts a request. The constants estimate the bytes and values of its parts.
func (l *requestSize) add(r *translate.ShapeRequest) {
	l.countValues(256+3*len(r.Label), 24)
	for _, kind := range r.Amounts.Types() {
		l.countValues(64+len(kind), 8)
	}
	if t := r.Attributes.Topology; t != nil {
		l.countValues(96+len(t.Required)+len(t.Balanced), 8)
		for _, level := range t.Preferred {
			l.countValues(3+len(level), 1)
		}
	}
	l.countConstraint(r.Attributes.Constraints)
	l.countConstraint(r.Attributes.ConstraintsNow)
	for _, limit := range r.Attributes.Limits {
		l.countLimit(limit)
	}
}

// countValues counts values that take text bytes in all.
func (l *requestSize) countValues(text, values int) {
	l.text += text
	l.values += values
}

func (l *requestSize) countConstraint(c *jobspec.Constraint) {
	if c == nil {
		return
	}
	l.countValues(32, 2)
	l.hosts += len(c.Values)
	for _, v := range c.Values {
		l.countValues(len(v)+3, 1)
	}
	for i := range c.Args {
		l.countConstraint(&c.Args[i])
	}
}

func (l *requestSize) countLimit(from jobspec.Limit) {
	l.countValues(64+len(from.Name)+len(from.Level), 8)
	for _, h := range from.Hosts {
		l.countValues(len(h)+3, 1)
	}
	if before, again := l.limits[from.Name]; again && slices.Equal(before, from.Hosts) {
		return
	}
	l.limits[from.Name] = from.Hosts
	for _, h := range from.Hosts {
		if l.hosts > maxHosts {
			return
		}
		if list, err := hostlist.Parse(h); err == nil {
			l.hosts += list.Len(maxHosts)
		}
	}
}
