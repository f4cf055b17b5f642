package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A storeBackend is the backend of nodes that were put, whose pools are divided by amount.
type storeBackend struct {
	policy    string // the default policy
	work      *workLimits
	store     *store.Store
	workspace solver.Workspace
	builder   problemBuilder
}

var _ backend = (*storeBackend)(nil)

func newStoreBackend(policy string, w *workLimits) *storeBackend {
	return &storeBackend{policy: policy, work: w, store: store.New()}
}

// prepare implements backend.
func (p *storeBackend) prepare(q *matchState) {
	if q.Policy == "" {
		q.Policy = p.policy
	}
	if q.err = checkRequest(&q.Request, store.CheckSlot); q.err != nil {
		return
	}
	if q.err = checkPolicy(&q.Request); q.err != nil {
		return
	}
	if q.demand, q.err = demand.Read(q.Jobspec); q.err != nil {
		return
	}
	q.err = q.demand.CheckKeys(q.Keys)
}

// match implements backend.
func (p *storeBackend) match(ctx context.Context, q *matchState) (*match.Allocation, *unlockedSearch, error) {
	r := &q.Request
	defer func() {
		p.work.observeOverrun(p.workspace.Overrun())
		p.workspace.Tidy()
		p.builder.tidy()
	}()

	// 1. Return what is wrong with the request, by itself or for this graph.
	if q.err != nil {
		return nil, nil, q.err
	}
	if err := resolveColumns(q.demand, p.store.Graph()); err != nil {
		return nil, nil, err
	}

	// 2. Answer Satisfiability in the empty graph, where jobs do not matter.
	if r.Op == match.Satisfiability {
		return p.satisfy(ctx, q)
	}

	// 3. If the job already holds something, return that, or a conflict if the request is another. Otherwise
	// a request that books must ignore only reservations.
	if j := existingJob(p.store, r); j != nil {
		a, err := repeat(r, j)
		return a, nil, err
	}
	if err := checkIgnored(p.store, r); err != nil {
		return nil, nil, err
	}

	// 4. Drop the reservations that have ended, if the request books.
	if isBooking(r.Op) {
		p.store.Reservations().Expire(store.Instant(r.Now))
	}

	// 5. Search for a placement.
	j, search, err := p.find(ctx, q)
	if search != nil {
		return nil, search, nil
	}

	// 6. Drop the job's reservation if the request books, unless the search did not come to an end.
	if isBooking(r.Op) && (err == nil || ctx.Err() == nil && !isTooHard(err)) {
		p.store.Reservations().Cancel(r.ID)
	}

	// 7. Add the reservation, or book the allocation in place of the slots that it replaces, if the request books.
	switch {
	case err != nil:
		return nil, nil, err
	case !isBooking(r.Op):
	case j.IsReserved():
		p.store.Reservations().Add(j)
	default:
		for _, ref := range q.replaced() {
			p.store.Release(ref.Job, ref.Keys...)
		}
		p.store.Book(j, fingerprintOf(r))
	}
	a := j.Allocation()
	if q.search != nil && q.search.displacement != nil {
		a.Displaced = q.search.displacement.displaced
	}
	return a, nil, nil
}

// find searches for a placement in the store as the request sees it. It changes the store in place for that, and undoes
// the changes from the last to the first. Invariant: the steps stay in this order, because each relies on the changes
// before it.
func (p *storeBackend) find(ctx context.Context, q *matchState) (*store.Job, *unlockedSearch, error) {
	// 1. Free ignored jobs, ending and replaced slots, and what was found to be displaced.
	p.keepMore(ctx, q)
	restoreJobs, steps, all := p.store.Ignore(q.Ignore, q.freed(), p.work.lockedSteps)
	defer restoreJobs()
	if !all {
		return nil, nil, p.tooManyIgnored(q)
	}
	q.ignoreSteps = steps

	// 2. Add the expected slots.
	defer p.store.Expect(q.Expected)()

	// 3. Search without the reservations of the job and of the ignored jobs, and without the replaced ones.
	defer p.store.Reservations().Ignore(append(slices.Clip(q.Ignore), q.ID), q.replaced())()
	return p.place(ctx, q)
}

// existingJob returns the request's job if the job holds something and is not ignored, or else nil.
func existingJob(st *store.Store, r *match.Request) *store.Job {
	if slices.Contains(r.Ignore, r.ID) {
		return nil
	}
	return st.Job(r.ID)
}

// checkIgnored fails for a request that books if a job that it ignores holds something.
func checkIgnored(st *store.Store, r *match.Request) error {
	if !isBooking(r.Op) {
		return nil
	}
	for _, id := range r.Ignore {
		if st.Job(id) != nil {
			return invalid("jobs to ignore: job %d holds resources, and an operation that books may ignore only reservations", id)
		}
	}
	return nil
}

// repeat returns what the job holds if that was given out for the same request. Otherwise it fails
// with match.ErrConflict.
func repeat(r *match.Request, j *store.Job) (*match.Allocation, error) {
	if !j.Answers(func() store.Fingerprint { return fingerprintOf(r) }) {
		return nil, fmt.Errorf("match job %d: %w", r.ID, match.ErrConflict)
	}
	return j.Allocation(), nil
}

// place searches for a placement that starts now or, if the operation allows, later.
func (p *storeBackend) place(ctx context.Context, q *matchState) (*store.Job, *unlockedSearch, error) {
	r := &q.Request
	v := p.store.ViewNow(r)
	defer v.Restore()
	l := p.layout(ctx, q)
	o, failed := p.solve(l, solver.ViewNow, q.search)
	if o != solver.Placed && q.search != nil && q.search.displacement != nil {
		return nil, q.search, nil
	}
	if o == solver.Placed && (mayStartLater(r.Op) || !l.IsExhausted()) {
		return p.allocate(r, l, v, r.Now), nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if mayStartLater(r.Op) {
		now := v.Window()
		j, ok, err := p.earliestStart(ctx, r, l, v)
		if ok || err != nil {
			return j, nil, err
		}
		v.MoveToNow(now)
		p.builder.refreshExclusive()
	}
	if len(r.Displace) > 0 && o != solver.Placed {
		return p.displace(ctx, q, v, !l.IsExhausted())
	}
	no := p.explainer(l, q).refusal(solver.ViewNow, o, failed)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case no.Reason.Code == match.TooHard && !mayStartLater(r.Op):
		return nil, p.newUnlockedSearch(ctx, q, solver.ViewNow), nil
	case errors.Is(no, match.ErrBusy) && !q.Terse:
		no.Reason.Blocker = p.bestBlocker(l, v, &failed, &no.Reason)
		no.Reason.Promised = promised(&p.builder, l, v, &failed, &no.Reason)
	}
	return nil, nil, no
}

// displace returns the search for the units that have to go for a request. tried reports whether it is known
// that the request does not fit without that.
func (p *storeBackend) displace(ctx context.Context, q *matchState, v *store.WindowView, tried bool) (*store.Job, *unlockedSearch, error) {
	held, _, all := v.Occupancy(q.Displace, q.demand.Needs, requesterOf(&q.Request), p.work.lockedSteps)
	if !all {
		return nil, nil, p.tooManyIgnored(q)
	}
	s := p.newUnlockedSearch(ctx, q, solver.ViewNow)
	s.displacement = newDisplacement(q.Displace, held, tried)
	return nil, s, nil
}

// maxKept is the maximum number of units that keepMore tries to keep.
const maxKept = 16

// keepMore takes units from those that have to go, if the placement fits with them too. It tries only units on nodes
// where the search had to take all units as one. See store.OccupiedNode.Emptied.
func (p *storeBackend) keepMore(ctx context.Context, q *matchState) {
	if q.search == nil || q.search.displacement == nil {
		return
	}
	x := q.search.displacement
	for _, u := range x.inexact() {
		whole := x.displaced
		x.displaced = slices.DeleteFunc(slices.Clone(whole), func(other int) bool { return other == u })
		if !p.holds(ctx, q) {
			x.displaced = whole
		}
	}
}

// holds reports whether the placement that was found fits while the units that were found are away.
func (p *storeBackend) holds(ctx context.Context, q *matchState) bool {
	restoreJobs, _, all := p.store.Ignore(q.Ignore, q.freed(), p.work.lockedSteps)
	defer restoreJobs()
	defer p.store.Expect(q.Expected)()
	defer p.store.Reservations().Ignore(append(slices.Clip(q.Ignore), q.ID), q.replaced())()
	defer p.store.ViewNow(&q.Request).Restore()
	o, _ := p.solve(p.layout(ctx, q), solver.ViewNow, q.search)
	return all && o == solver.Placed
}

// satisfy searches for a placement in the empty graph.
func (p *storeBackend) satisfy(ctx context.Context, q *matchState) (*match.Allocation, *unlockedSearch, error) {
	l := p.layout(ctx, q)
	o, failed := p.solve(l, solver.ViewEver, q.search)
	if o == solver.Placed && !l.IsExhausted() {
		return p.allocate(&q.Request, l, nil, q.Now).Allocation(), nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	no := p.explainer(l, q).refusal(solver.ViewEver, o, failed)
	if no.Reason.Code == match.TooHard {
		return nil, p.newUnlockedSearch(ctx, q, solver.ViewEver), nil
	}
	return nil, nil, no
}

// layout returns a layout for a request. If an unlocked search has found a placement,
// the layout has neither limits nor a topology, because the placement already keeps
// them, and it gets the full budget, even if a test has lowered work.lockedSteps.
func (p *storeBackend) layout(ctx context.Context, q *matchState) *solver.Layout {
	steps, d := p.work.lockedSteps, q.demand
	if q.search != nil {
		steps, d = lockedSteps, d.WithoutLimits()
	}
	p.workspace.Begin(ctx, steps)
	order, distance := p.store.Order(q.Policy, q.Near)
	who, g := requesterOf(&q.Request), p.store.Graph()
	problem := p.builder.build(&p.workspace, d, g, order, distance, who)
	if distance == nil {
		problem.Room = g.Room(q.Policy, d.Needs, who)
	}
	l := solver.New(&p.workspace, problem)
	l.Spend(solver.SortSteps * len(q.Near))
	// A placement that was found is laid out, whatever the cost of ignoring jobs.
	if q.search == nil {
		l.Spend(q.ignoreSteps)
	}
	return l
}

// solve lays out as many slots as possible, or the placement of an unlocked search. If that placement
// does not fit any more, solve uses up the steps, so that the match goes on with another long
// search.
func (p *storeBackend) solve(l *solver.Layout, v solver.View, found *unlockedSearch) (solver.Outcome, solver.Shortfall) {
	if found != nil {
		runs, there := found.currentPlacement(p.store)
		if !there || !l.Replay(found.view, runs) {
			l.Exhaust()
			return solver.Unknown, solver.Shortfall{}
		}
		return solver.Placed, solver.Shortfall{}
	}
	return l.SolveMax(v)
}

// allocate returns a job with the slots that are laid out, from the given time on. It books
// nothing.
func (p *storeBackend) allocate(r *match.Request, l *solver.Layout, view *store.WindowView, at time.Time) *store.Job {
	g := store.Grant{
		ID: r.ID, Keys: r.Keys, Start: at, Duration: r.Duration, Problem: &p.builder.problem, Runs: l.Runs(), View: view,
	}
	if who := p.builder.problem.Requester; who.Exclusive {
		g.Holder = who.Holder
	}
	return p.store.Allocate(&g)
}

// dropReservation implements backend.
func (p *storeBackend) dropReservation(r *match.Request) {
	if existingJob(p.store, r) == nil {
		p.store.Reservations().Cancel(r.ID)
	}
}

func (p *storeBackend) update(jobs ...match.Job) error { return p.store.Update(jobs...) }

func (p *storeBackend) release(id match.JobID, keys ...string) { p.store.Release(id, keys...) }

func (p *storeBackend) jobs() []match.Job { return p.store.Jobs() }

func (p *storeBackend) page(from string, limit int) func() []match.Node {
	notes := p.store.Page(from, limit)
	return func() []match.Node { return store.ExportNodes(notes) }
}

func (p *storeBackend) setStatus(name string, status resource.Status) error {
	return p.store.SetStatus(name, status)
}

func (p *storeBackend) sizes() (jobs, slots, nodes int) { return p.store.Sizes() }

func (p *storeBackend) numberNodes() { p.store.NumberNodes() }
