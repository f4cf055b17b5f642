package fluxion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// An attempt is one request while it is being placed.
type attempt struct {
	engine  *Engine
	request *match.Request
	// rounded is the jobspec in whole granules.
	rounded *jobspec.Jobspec
	// shapes are the shapes that were read.
	shapes map[int]*shape
	runs   []slotRun
	// jobs are all jobs that the library made for the request.
	jobs []int64
}

// A slotRun is a number of slots of one shape on one host.
type slotRun struct {
	shape int
	host  *host
	count int64
	// jobs are the library's jobs that hold the run: after a match one job,
	// which all runs of that match share; after splitJobs one for each slot.
	jobs   []int64
	answer *answer
}

// matchRequest has the library place the request. If Fluxion's jobspec cannot express the request,
// or if matching shape after shape fails, the library is asked for the exact plan of the shadow.
func (p *attempt) matchRequest(ctx context.Context, plan *match.Allocation) error {
	if len(p.request.Near) == 0 && !p.needsPlan() {
		err := p.matchShapes(ctx)
		if !errors.Is(err, errNoRoom) || len(p.rounded.Resources) == 1 {
			return err
		}
		if err := p.cancelJobs(); err != nil {
			return err
		}
	}
	plan, err := p.planOnCurrent(ctx, plan)
	if err != nil {
		return err
	}
	p.adoptPlan(plan)
	for i := range p.runs {
		if err := p.matchRun(ctx, &p.runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// planOnCurrent returns a plan without hosts that the library does not know as they are. It is the
// plan that there is, or another one. It fails with errNoRoom if there is none.
func (p *attempt) planOnCurrent(ctx context.Context, plan *match.Allocation) (*match.Allocation, error) {
	e := p.engine
	if !slices.ContainsFunc(plan.Slots, func(s match.Slot) bool { return !e.isCurrent(e.hosts[s.Node]) }) {
		return plan, nil
	}
	var unknown []string
	for name, h := range e.hosts {
		if h.node != nil && !e.isCurrent(h) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	plan, err := e.plan(ctx, *p.request, without(p.rounded, unknown))
	if _, refused := errors.AsType[*match.Refusal](err); refused {
		return nil, errNoRoom
	}
	return plan, err
}

// without returns a jobspec whose slots are not on these hosts now.
func without(js *jobspec.Jobspec, hosts []string) *jobspec.Jobspec {
	elsewhere := jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{{Op: jobspec.OpHostlist, Values: hosts}}}
	c := *js
	c.Attributes.System.Fluence = make(map[string]jobspec.SlotAttributes, len(js.Resources))
	for _, r := range js.Resources {
		a := js.Attributes.System.Fluence[r.Label]
		now := elsewhere
		if a.ConstraintsNow != nil {
			now = jobspec.Constraint{Op: jobspec.OpAnd, Args: []jobspec.Constraint{*a.ConstraintsNow, elsewhere}}
		}
		a.ConstraintsNow = &now
		c.Attributes.System.Fluence[r.Label] = a
	}
	return &c
}

// needsPlan reports whether a request has limits or a topology, or several shapes of which one has
// a range. With a range, the minimums of all shapes must be placed before any shape gets more.
func (p *attempt) needsPlan() bool {
	for _, a := range p.rounded.Attributes.System.Fluence {
		if len(a.MaxPerLevel)+len(a.Limits) > 0 || a.Topology != nil {
			return true
		}
	}
	return len(p.rounded.Resources) > 1 && slices.ContainsFunc(p.rounded.Resources, func(r jobspec.Resource) bool {
		return r.Count.Min != r.Count.Max
	})
}

// matchShapes has the library place one slot request after the other.
func (p *attempt) matchShapes(ctx context.Context) error {
	for at := range p.rounded.Resources {
		s := p.shape(at)
		hosts, some := p.engine.hostsWhere(func(h *host) bool { return p.allowed(s, h, true) })
		if !some {
			return errNoRoom
		}
		count := s.count
		count.Max = min(count.Max, maxSlots)
		if err := p.match(ctx, at, s, request{count: count, need: s.need, hosts: hosts}); err != nil {
			return err
		}
	}
	return nil
}

// maxSlots bounds the slots of one range, as the shadow does.
const maxSlots = 1 << 20

// match makes one match for slots of a shape, and records where they are.
func (p *attempt) match(ctx context.Context, at int, s *shape, r request) error {
	text, job, err := p.engine.session.match(ctx, r.encode())
	if err != nil {
		return err
	}
	p.jobs = append(p.jobs, job)
	first := len(p.runs)
	whole, err := readAnswer(text)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	byNumber := p.engine.byNumber()
	total := int64(0)
	for _, number := range whole.nodes {
		n, err := whole.count(number, s.need)
		h := byNumber[number]
		if err == nil && (h == nil || !p.allowed(s, h, true)) {
			err = fmt.Errorf("%w: it gave out node %d, which may not be used", errDamaged, number)
		}
		if err != nil {
			return err
		}
		total += n
		p.runs = append(p.runs, slotRun{shape: at, host: h, count: n, jobs: []int64{job}, answer: whole})
	}
	if total == 0 || r.count.Floor(total) != total {
		return fmt.Errorf("%w: it gave out %d slots", errDamaged, total)
	}
	p.sort(p.runs[first:])
	return nil
}

// sort puts the runs of one match in the order of the policy,
// because the library lists them in the order of its graph.
func (p *attempt) sort(runs []slotRun) {
	policy, _ := match.PolicyOf(p.engine.options.Policy)
	switch policy.Order {
	case match.LowestFirst:
		slices.SortFunc(runs, func(a, b slotRun) int { return cmp.Compare(a.host.node.number, b.host.node.number) })
	case match.HighestFirst:
		slices.SortFunc(runs, func(a, b slotRun) int { return cmp.Compare(b.host.node.number, a.host.node.number) })
	case match.DepthFirst: // as in the library's graph
	}
}

// adoptPlan sets the runs to the runs of a plan.
func (p *attempt) adoptPlan(plan *match.Allocation) {
	at := make(map[string]int, len(p.rounded.Resources))
	for i, r := range p.rounded.Resources {
		at[r.Label] = i
	}
	p.runs = nil
	for _, s := range plan.Slots {
		shape, h := at[s.Label], p.engine.hosts[s.Node]
		if last := len(p.runs) - 1; last >= 0 && p.runs[last].shape == shape && p.runs[last].host == h {
			p.runs[last].count++
			continue
		}
		p.runs = append(p.runs, slotRun{shape: shape, host: h, count: 1})
	}
}

// matchRun has the library give out a planned run.
func (p *attempt) matchRun(ctx context.Context, x *slotRun) error {
	s := p.shape(x.shape)
	r := request{count: exactly(x.count), need: s.need, hosts: hostlist([]int64{x.host.node.number})}
	text, job, err := p.engine.session.match(ctx, r.encode())
	if err != nil {
		return err
	}
	p.jobs = append(p.jobs, job)
	x.jobs = []int64{job}
	if x.answer, err = readAnswer(text); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	n, err := x.answer.count(x.host.node.number, s.need)
	if err == nil && (n != x.count || len(x.answer.nodes) != 1) {
		err = fmt.Errorf("%w: it gave out %d slots on node %d, want %d there alone", errDamaged, n, x.host.node.number, x.count)
	}
	return err
}

// byNumber returns the hosts by the numbers of their nodes.
func (e *Engine) byNumber() map[int64]*host {
	hosts := make(map[int64]*host, len(e.hosts))
	for _, h := range e.hosts {
		if h.node != nil {
			hosts[h.node.number] = h
		}
	}
	return hosts
}
