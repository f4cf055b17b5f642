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
	giveUp := halfway(ctx)
	var waited time.Duration
	if !e.mu.try() {
		called := time.Now()
		if err := e.mu.acquire(ctx); err != nil {
			return nil, err
		}
		waited = time.Since(called)
	}
	defer e.mu.release()
	for damaged := false; ; {
		a, err := e.match(ctx, r)
		switch {
		case errors.Is(err, errNotLoaded):
			called := time.Now()
			err = e.waitForLoad(ctx)
			waited += time.Since(called)
			if err == nil {
				continue
			}
			err = fmt.Errorf("match job %d: %w", r.ID, err)
		case errors.Is(err, errUnfinished):
			if giveUp.IsZero() || time.Now().Before(giveUp) {
				called := time.Now()
				e.mu.yield()
				waited += time.Since(called)
				continue
			}
			err = fmt.Errorf("match job %d: %w", r.ID, match.ErrLoading)
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

// halfway returns the time at which half of the time that ctx leaves is over. It is zero if ctx has no
// deadline.
func halfway(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return time.Now().Add(time.Until(deadline) / 2)
}

// errUnfinished means that a request needs room that the library will have once it has followed the
// latest changes, which takes longer than a step.
var errUnfinished = errors.New("the library has not followed the latest changes")

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
	if err := e.ignoreReservations(&r); err != nil {
		return nil, err
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
		if slices.Contains(r.Ignore, r.ID) {
			return invalid("jobs to ignore: must not have the job of the request, %d, for an operation that books", r.ID)
		}
		if len(r.Ending) > 0 {
			return invalid("ending slots: must be empty for an operation that books")
		}
	case match.Satisfiability, match.WithoutAllocating:
	case match.AllocateOrElseReserve, match.WithoutAllocatingFuture:
		return invalid("operation %s: this engine does not support reservations", map[match.Op]string{
			match.AllocateOrElseReserve: "allocate_orelse_reserve", match.WithoutAllocatingFuture: "without_allocating_future",
		}[r.Op])
	default:
		return invalid("unknown operation %d", r.Op)
	}
	if len(r.Displace) > 0 {
		return invalid("units to displace: this engine does not choose units")
	}
	if offered := Policies(e.options.Policy); !slices.Contains(offered, r.Policy) {
		return fmt.Errorf("%w %q: must be one of %s", match.ErrPolicy, r.Policy, strings.Join(offered, ", "))
	}
	return nil
}

// ignoreReservations makes a request that books ignore the reservations that it names. Here no job has
// one, so there is nothing to ignore. It fails for a job that holds resources, unless the request's own job
// does: that is a conflict.
func (e *Engine) ignoreReservations(r *match.Request) error {
	if r.Op != match.Allocate {
		return nil
	}
	for _, id := range r.Ignore {
		if len(e.jobs[id]) > 0 && len(e.jobs[r.ID]) == 0 {
			return invalid("jobs to ignore: job %d holds resources, and an operation that books may ignore only reservations", id)
		}
	}
	r.Ignore = nil
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
	followed := e.hasGraph() && e.follow(ctx)
	if !e.hasGraph() || followed && e.isDue() {
		return nil, errNotLoaded
	}
	freed := p.request.Ending
	if p.request.Replaces != 0 {
		freed = append(slices.Clip(freed), match.SlotRef{Job: p.request.Replaces, Keys: p.request.ReplacesKeys})
	}
	if !followed && len(p.request.Ignore)+len(freed)+len(p.request.Expected) > 0 {
		// Ended jobs may still hold what is booked here for the time of the request.
		return nil, errUnfinished
	}
	restore, release := e.withoutSlots(p.request.Ignore, freed)
	defer func() {
		if err == nil && p.request.Op == match.Allocate {
			release() // The shadow has released what the request replaces.
		} else {
			restore()
		}
	}()
	defer e.expect(p.request.Expected)()
	if !e.hasGraph() {
		// withoutSlots or expect failed, and the graph was dropped.
		return nil, fmt.Errorf("match job %d: %w", p.request.ID, errDamaged)
	}
	if err := p.matchRequest(ctx, plan); err != nil {
		switch {
		case errors.Is(err, errNoRoom) && !followed:
			return nil, p.fail(errUnfinished)
		case errors.Is(err, errNoRoom) && p.needsLoad():
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

// withoutSlots removes the slots of these jobs, and these slots, until restore is called, or for good if
// release is called instead.
func (e *Engine) withoutSlots(ids []match.JobID, freed []match.SlotRef) (restore, release func()) {
	type lifted struct {
		h     *host
		s     *slot
		units map[string]int64 // of the slot's own job, if it has one
	}
	var away []lifted
	lift := func(id match.JobID, key string, h *host) {
		s := h.slots[slotKey{id, key}]
		if s == nil {
			return // it was removed already
		}
		away = append(away, lifted{h, s, s.units})
		h.drop(s)
		if s.ownJob != 0 {
			if err := e.session.cancel(s.ownJob); err != nil {
				e.dropGraph()
				e.warnDropped(context.Background(), err)
			}
		}
		s.ownJob, s.units = 0, nil
		e.bookRestOrDrop(h)
	}
	for _, id := range ids {
		for key, h := range e.jobs[id] {
			lift(id, key, h)
		}
	}
	for _, ref := range freed {
		for key, h := range e.jobs[ref.Job] {
			if len(ref.Keys) == 0 || slices.Contains(ref.Keys, key) {
				lift(ref.Job, key, h)
			}
		}
	}
	release = func() {
		for _, l := range away {
			e.forgetSlot(l.s)
			e.dropIfEmpty(l.h)
		}
	}
	restore = func() {
		for _, l := range away {
			l.h.add(l.s)
			if !l.h.inGraph {
				continue
			}
			if l.units == nil {
				e.bookRestOrDrop(l.h)
				continue
			}
			job, err := e.book(context.Background(), l.h.node, l.units)
			if err != nil {
				e.dropGraph()
				e.warnDropped(context.Background(), err)
				continue
			}
			l.s.ownJob, l.s.units = job, l.units
		}
	}
	return restore, release
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
