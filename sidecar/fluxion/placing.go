package fluxion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A placing is one request on its way.
type placing struct {
	engine  *Engine
	request *match.Request
	// rounded is the jobspec in whole granules.
	rounded *jobspec.Jobspec
	runs    []run
	// jobs are all that the library made for the request.
	jobs []int64
}

// A run is a number of slots of one shape on one host.
type run struct {
	shape int
	host  *host
	count int64
	// jobs are the library's that hold the run: one for all slots of a match, which
	// its runs have in common, or in the end one a slot.
	jobs  []int64
	whole *answer
}

// A shape is one slot request in units.
type shape struct {
	label string
	count jobspec.Count
	units map[string]int64
	need  []amount
	// always hold for good, now for the present too.
	always, now []jobspec.Condition
}

// shape reads a slot request that the book has taken.
func (p *placing) shape(at int) *shape {
	r := &p.rounded.Resources[at]
	s := &shape{label: r.Label, count: r.Count, units: make(map[string]int64, len(r.With))}
	for _, w := range r.With {
		s.units[w.Type] = w.Count.Min / p.engine.granules.of(w.Type, w.Unit)
	}
	s.need = p.engine.granules.needs(s.units)
	system := &p.rounded.Attributes.System
	own := system.Fluence[r.Label]
	for _, c := range []*jobspec.Constraint{system.Constraints, own.Constraints} {
		s.always = appendCondition(s.always, c)
	}
	s.now = appendCondition(s.now, own.ConstraintsNow)
	return s
}

func appendCondition(to []jobspec.Condition, c *jobspec.Constraint) []jobspec.Condition {
	holds, err := c.Compile()
	if c == nil || err != nil { // The book takes no constraint that fails.
		return to
	}
	return append(to, holds)
}

// allowed says whether slots of a shape may stand on a host: for good, or with
// present now. A node that lacks a type is never asked: Fluxion 0.39 fails there.
func (p *placing) allowed(s *shape, h *host, present bool) bool {
	n := h.node
	if n == nil || !covers(n.units, s.units) || !holds(s.always, h) {
		return false
	}
	if !present {
		return true
	}
	whole := p.request.Policy == match.PolicyLonodex
	return p.engine.usable(n) && h.open(p.request.Holder, whole) && holds(s.now, h)
}

func holds(all []jobspec.Condition, h *host) bool {
	for _, c := range all {
		if !c(h.name, h.node.rank, h.node.properties) {
			return false
		}
	}
	return true
}

// hostsWhere writes the hosts that may be used; "" is all that the library's graph has.
func (e *Engine) hostsWhere(may func(*host) bool) (list string, some bool) {
	var numbers []int64
	for _, h := range e.hosts {
		if may(h) {
			numbers = append(numbers, h.node.number)
		}
	}
	if len(numbers) == e.drawn {
		return "", len(numbers) > 0
	}
	slices.Sort(numbers)
	return hostlist(numbers), len(numbers) > 0
}

// ask has the library place the request. Where its jobspec cannot say what is
// asked for, or where matches one after the other led into a corner, it is asked
// for what the book has planned.
func (p *placing) ask(ctx context.Context, plan *match.Allocation) error {
	if len(p.request.Near) == 0 && !p.bounded() {
		err := p.askShapes(ctx)
		if !errors.Is(err, errNoRoom) || len(p.rounded.Resources) == 1 {
			return err
		}
		if err := p.giveBack(); err != nil {
			return err
		}
	}
	p.follow(plan)
	for i := range p.runs {
		if err := p.askRun(ctx, &p.runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// bounded says whether a request bounds slots by level, or has ranges of which the
// least of all go before the more of any.
func (p *placing) bounded() bool {
	for _, a := range p.rounded.Attributes.System.Fluence {
		if len(a.MaxPerLevel) > 0 {
			return true
		}
	}
	return len(p.rounded.Resources) > 1 && slices.ContainsFunc(p.rounded.Resources, func(r jobspec.Resource) bool {
		return r.Count.Min != r.Count.Max
	})
}

// askShapes has the library place one slot request after the other.
func (p *placing) askShapes(ctx context.Context) error {
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

// maxSlots bounds the slots of one range, as the book does.
const maxSlots = 1 << 20

// match makes one match for slots of a shape, and notes where they stand.
func (p *placing) match(ctx context.Context, at int, s *shape, r request) error {
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
		p.runs = append(p.runs, run{shape: at, host: h, count: n, jobs: []int64{job}, whole: whole})
	}
	if total == 0 || r.count.Floor(total) != total {
		return fmt.Errorf("%w: it gave out %d slots", errDamaged, total)
	}
	p.sort(p.runs[first:])
	return nil
}

// sort puts the runs of one match in the order of the policy: the library lists
// them as its graph has them.
func (p *placing) sort(runs []run) {
	switch p.engine.options.Policy {
	case match.PolicyLow, match.PolicyLonode:
		slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.host.node.number, b.host.node.number) })
	case match.PolicyHigh, match.PolicyHinode:
		slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(b.host.node.number, a.host.node.number) })
	}
}

// follow takes the runs of a plan.
func (p *placing) follow(plan *match.Allocation) {
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
		p.runs = append(p.runs, run{shape: shape, host: h, count: 1})
	}
}

// askRun has the library give out a planned run.
func (p *placing) askRun(ctx context.Context, x *run) error {
	s := p.shape(x.shape)
	r := request{count: exactly(x.count), need: s.need, hosts: hostlist([]int64{x.host.node.number})}
	text, job, err := p.engine.session.match(ctx, r.encode())
	if err != nil {
		return err
	}
	p.jobs = append(p.jobs, job)
	x.jobs = []int64{job}
	if x.whole, err = readAnswer(text); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	n, err := x.whole.count(x.host.node.number, s.need)
	if err == nil && (n != x.count || len(x.whole.nodes) != 1) {
		err = fmt.Errorf("%w: it gave out %d slots on node %d, want %d there alone", errDamaged, n, x.host.node.number, x.count)
	}
	return err
}

// giveBack gives back all that the library gave out. The runs stay as they stand.
func (p *placing) giveBack() error {
	for _, job := range p.jobs {
		if err := p.engine.session.cancel(job); err != nil {
			return err
		}
	}
	p.jobs = nil
	return nil
}

// fail gives back what the library gave out before err, and returns err, or what is
// worse.
func (p *placing) fail(err error) error {
	if undone := p.giveBack(); undone != nil {
		return undone
	}
	return err
}

// part gives every slot a job of the library of its own, so that it can be given
// back alone: the match's job is cancelled, and each slot booked on its node, with
// its own vertices where the release can say that. Nobody comes in between.
func (p *placing) part(ctx context.Context) error {
	for i := range p.runs {
		x := &p.runs[i]
		if x.count == 1 && len(x.whole.nodes) == 1 {
			continue
		}
		// Runs of one match have its job in common: cancelling again does nothing.
		if err := p.engine.session.cancel(x.jobs[0]); err != nil {
			return err
		}
		x.jobs = nil
	}
	for i := range p.runs {
		x := &p.runs[i]
		s := p.shape(x.shape)
		for nth := int64(len(x.jobs)); nth < x.count; nth++ {
			job, err := p.engine.rebook(ctx, x, nth, s)
			if err != nil {
				return err
			}
			p.jobs, x.jobs = append(p.jobs, job), append(x.jobs, job)
		}
	}
	return nil
}

// rebook books the nth slot of a run.
func (e *Engine) rebook(ctx context.Context, x *run, nth int64, s *shape) (int64, error) {
	if job, ok, err := e.session.update(ctx, x.whole.share(x.host.node.number, nth, s.need)); ok || err != nil {
		return job, err
	}
	return e.pin(ctx, x.host.node, s.units)
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

// refusal makes the error for a request that the library found no room for where
// the book did: in units there is less.
func (p *placing) refusal(err error) error {
	if !errors.Is(err, errNoRoom) {
		return fmt.Errorf("match job %d: %w", p.request.ID, err)
	}
	s := p.shape(0)
	reason := match.Reason{
		Code: match.NotFound, Slot: s.label, Level: "cluster", Wanted: s.count.Min, WaitingHelps: true,
	}
	for _, h := range p.engine.hosts {
		switch {
		case h.node == nil:
			continue
		case !p.engine.usable(h.node):
			reason.Down++
		case p.allowed(s, h, true):
			reason.Found = plus(reason.Found, max(0, h.capacity(s.units)))
		}
		reason.Nodes++
	}
	if reason.Found < reason.Wanted {
		reason.Code = match.TooFew
	}
	reason.Found = min(reason.Found, reason.Wanted)
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// label names the slots of a run in the book, where each run is a slot request.
func label(at int, of string) string { return strconv.Itoa(at) + "/" + of }

// relabel gives slots of the book the labels that were asked for.
func relabel(slots []match.Slot) {
	for i := range slots {
		if _, of, ok := strings.Cut(slots[i].Label, "/"); ok {
			slots[i].Label = of
		}
	}
}
