package fluxion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// Match implements match.Engine. It checks the deadline of ctx before each call of the
// library, which knows no deadlines. It does not read the tasks and the duration of a jobspec.
// While the library loads a graph that the request needs, the error is match.ErrLoading.
func (e *Engine) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	var waited time.Duration
	if !e.mu.TryLock() {
		called := time.Now()
		e.mu.Lock()
		waited = time.Since(called)
	}
	defer e.mu.Unlock()
	for damaged := false; ; {
		a, err := e.match(ctx, r)
		if errors.Is(err, errNotLoaded) {
			called := time.Now()
			err = e.waitForLoad(ctx)
			waited += time.Since(called)
			if err == nil {
				continue
			}
			err = fmt.Errorf("match job %d: %w", r.ID, err)
		}
		if errors.Is(err, errDamaged) && !damaged {
			// Release 0.39 can book a request that it has denied. The graph is loaded again and the
			// request tried again, because another request may have left the damage.
			damaged = true
			continue
		}
		match.SetWaited(a, err, waited)
		return a, err
	}
}

func (e *Engine) match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	if err := e.checkEpoch(ctx, r.Epoch); err != nil {
		return nil, err
	}
	if !e.ready.Load() {
		return nil, match.ErrLoading
	}
	if r.Policy == "" {
		r.Policy = e.options.Policy
	}
	if err := e.check(&r); err != nil {
		return nil, err
	}
	if a, ok, err := e.repeat(ctx, &r); ok || err != nil {
		return a, err
	}
	rounded := e.granules.roundJobspec(r.Jobspec)
	plan, err := e.plan(ctx, r, rounded)
	if err != nil {
		return nil, e.confirm(ctx, &r, rounded, err)
	}
	if r.Op == match.Satisfiability {
		p := e.newAttempt(&r, rounded)
		p.adoptPlan(plan)
		return p.matchShadow(ctx)
	}
	return e.place(ctx, e.newAttempt(&r, rounded), plan)
}

func (e *Engine) newAttempt(r *match.Request, rounded *jobspec.Jobspec) *attempt {
	return &attempt{engine: e, request: r, rounded: rounded, shapes: make(map[int]*shape)}
}

// check fails for requests that this engine does not support.
func (e *Engine) check(r *match.Request) error {
	switch r.Op {
	case match.Allocate:
		if r.ID == 0 {
			return invalid("the job id must not be 0")
		}
		if len(r.Ignore) > 0 {
			return invalid("jobs to ignore: must be empty for an operation that books")
		}
	case match.Satisfiability, match.WithoutAllocating:
	case match.AllocateOrElseReserve, match.WithoutAllocatingFuture:
		return invalid("operation %s: this engine does not support reservations", map[match.Op]string{
			match.AllocateOrElseReserve: "allocate_orelse_reserve", match.WithoutAllocatingFuture: "without_allocating_future",
		}[r.Op])
	default:
		return invalid("unknown operation %d", r.Op)
	}
	if offered := Policies(e.options.Policy); !slices.Contains(offered, r.Policy) {
		return fmt.Errorf("%w %q: must be one of %s", match.ErrPolicy, r.Policy, strings.Join(offered, ", "))
	}
	return nil
}

// plan has the shadow plan a request in whole granules. A request without room there is refused,
// because the library never has more room in units than the shadow has in exact amounts.
func (e *Engine) plan(ctx context.Context, r match.Request, rounded *jobspec.Jobspec) (*match.Allocation, error) {
	requested := r.Jobspec
	r.Jobspec = rounded
	if r.Op == match.Allocate {
		r.Op = match.WithoutAllocating
	}
	a, err := e.shadow.Match(ctx, r)
	if refusal, refused := errors.AsType[*match.Refusal](err); refused {
		e.granules.restateShortages(&refusal.Reason, requested)
	}
	return a, err
}

// confirm asks Fluxion about a request that the shadow calls unsatisfiable. The shadow has proven
// this by counting the units of empty nodes. If Fluxion says that the empty graph has room, the
// error becomes match.ErrBusy. If Fluxion says no, that proves nothing, because some releases deny
// satisfiable requests too.
func (e *Engine) confirm(ctx context.Context, r *match.Request, rounded *jobspec.Jobspec, verdict error) error {
	var refusal *match.Refusal
	if !errors.As(verdict, &refusal) || !errors.Is(refusal.Err, match.ErrUnsatisfiable) || len(rounded.Resources) != 1 {
		return verdict
	}
	if len(rounded.Attributes.System.Fluence) > 0 {
		return verdict // Fluxion does not see the whole request.
	}
	p := e.newAttempt(r, rounded)
	s, shared := p.shape(0), false
	hosts, some := e.hostsWhere(func(h *host) bool {
		allowed := p.allowed(s, h, false)
		shared = shared || allowed && h.shares()
		return allowed
	})
	if shared {
		return verdict // Fluxion would also give out the room of pods that run on every node.
	}
	if !some || !e.hasGraph() || !e.session.satisfiable(ctx, request{count: exactly(s.count.Min), need: s.need, hosts: hosts}.encode()) {
		return verdict
	}
	refusal = &match.Refusal{Err: match.ErrBusy, Reason: refusal.Reason}
	refusal.Reason.Code, refusal.Reason.WaitingHelps = match.NotFound, true
	return refusal
}

// place has the library allocate a request, and books it in the shadow.
func (e *Engine) place(ctx context.Context, p *attempt, plan *match.Allocation) (a *match.Allocation, err error) {
	defer func() {
		if errors.Is(err, errDamaged) {
			e.dropGraph()
		}
	}()
	if e.hasGraph() {
		e.updateGraph()
	}
	if !e.hasGraph() || e.isDue() {
		return nil, errNotLoaded
	}
	defer e.withoutJobs(p.request.Ignore)()
	defer e.expect(p.request.Expected)()
	if !e.hasGraph() {
		// withoutJobs or expect failed, and the graph was dropped.
		return nil, fmt.Errorf("match job %d: %w", p.request.ID, errDamaged)
	}
	if err := p.matchRequest(ctx, plan); err != nil {
		if errors.Is(err, errNoRoom) && p.needsLoad() {
			return nil, p.fail(errNotLoaded)
		}
		return nil, p.fail(p.refusal(err))
	}
	if p.request.Op != match.Allocate {
		if err := p.cancelJobs(); err != nil {
			return nil, err
		}
		return p.matchShadow(ctx)
	}
	if err := p.splitJobs(ctx); err != nil {
		return nil, p.fail(err)
	}
	a, err = p.matchShadow(ctx)
	if err != nil {
		return nil, p.fail(err)
	}
	p.addSlots(a)
	return a, nil
}

// withoutJobs removes the slots of these jobs until restore is called.
func (e *Engine) withoutJobs(ids []match.JobID) (restore func()) {
	type lifted struct {
		h *host
		s *slot
	}
	var away []lifted
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			continue
		}
		for key, h := range e.jobs[id] {
			s := h.slots[slotKey{id, key}]
			away = append(away, lifted{h, s})
			h.drop(s)
			if s.ownJob != 0 {
				if err := e.session.cancel(s.ownJob); err != nil {
					e.dropGraph()
				}
				s.ownJob = 0
			}
			e.bookRestOrDrop(h)
		}
	}
	return func() {
		for _, l := range away {
			l.h.add(l.s)
			if !l.h.inGraph {
				continue
			}
			if l.s.units == nil {
				e.bookRestOrDrop(l.h)
				continue
			}
			var err error
			if l.s.ownJob, err = e.book(context.Background(), l.h.node, l.s.units); err != nil {
				e.dropGraph()
			}
		}
	}
}

// expect books slots that no job holds, until restore is called. It skips slots on nodes that the
// graph does not have.
func (e *Engine) expect(slots []match.Slot) (restore func()) {
	there := make(map[*slot]*host)
	for i := range slots {
		from := &slots[i]
		h := e.hosts[from.Node]
		if h == nil || h.node == nil {
			continue
		}
		// There is no job 0. The index distinguishes two slots of one key.
		s := &slot{
			slotKey: slotKey{0, fmt.Sprint(i)}, holder: from.Holder, shared: from.Shared, amounts: amountsOf(from.R),
		}
		h.add(s)
		there[s] = h
		e.bookRestOrDrop(h)
	}
	return func() {
		for s, h := range there {
			h.drop(s)
			e.bookRestOrDrop(h)
		}
	}
}
