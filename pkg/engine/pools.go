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

// pools is the backend of nodes that were put: their pools are divided.
type pools struct {
	policy string // of requests that name none
	work   *work
	store  *store.Store
	space  solver.Workspace
	bound  binding
}

var _ backend = (*pools)(nil)

func newPools(policy string, w *work) *pools {
	return &pools{policy: policy, work: w, store: store.New()}
}

// read implements backend.
func (p *pools) read(q *question) {
	if q.Policy == "" {
		q.Policy = p.policy
	}
	if q.err = check(&q.Request, store.CheckSlot); q.err != nil {
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

// match implements backend. It changes the store in place for one question, and takes back what it
// changed from the last to the first: the order of the steps is part of what they do.
func (p *pools) match(ctx context.Context, q *question) (*match.Allocation, *beside, error) {
	r := &q.Request
	defer func() {
		p.work.settle(p.space.Over())
		p.space.Tidy()
		p.bound.tidy()
	}()

	// 1. End with what is wrong with the request, whatever the graph, or with the graph as it is.
	if q.err != nil {
		return nil, nil, q.err
	}
	if err := find(q.demand, p.store.Graph()); err != nil {
		return nil, nil, err
	}

	// 2. Whether it would fit if nobody held anything is a question that no job has to do with.
	if r.Op == match.Satisfiability {
		return p.satisfy(ctx, q)
	}

	// 3. The jobs to ignore leave.
	restore, steps, all := p.store.Ignore(r.Ignore, p.work.brief)
	defer restore()
	if !all {
		return nil, nil, p.ignoresTooMuch(q)
	}
	q.ignored = steps

	// 4. A job that still holds something is answered with that, or has asked for something else.
	if j := p.holder(r); j != nil {
		a, err := repeat(r, j)
		return a, nil, err
	}

	// 5. What others are about to take comes.
	defer p.store.Expect(r.Expected)()

	// 6. Reservations that have ended are dropped by a request that books.
	if books(r.Op) {
		p.store.Reservations().Expire(store.Instant(r.Now))
	}

	// 7. A place is looked for without what the job and the ignored ones have reserved.
	bringBack := p.store.Reservations().Overlook(append(slices.Clip(r.Ignore), r.ID))
	j, aside, err := p.place(ctx, q)
	bringBack()
	if aside != nil {
		return nil, aside, nil
	}

	// 8. A job that asked to be given something has its reservation no more.
	if books(r.Op) && (err == nil || ctx.Err() == nil && !tooMuch(err)) {
		p.store.Reservations().Withdraw(r.ID)
	}

	// 9. What was found is booked or promised, as the request has it.
	switch {
	case err != nil:
		return nil, nil, err
	case !books(r.Op):
	case j.Reserved():
		p.store.Reservations().Promise(j)
	default:
		p.store.Book(j, fingerprintOf(r))
	}
	return j.Allocation(), nil, nil
}

// holder returns the job that the request's id names if it holds anything, and
// is not to be ignored.
func (p *pools) holder(r *match.Request) *store.Job {
	if slices.Contains(r.Ignore, r.ID) {
		return nil
	}
	return p.store.Job(r.ID)
}

// repeat answers a request whose job holds something.
func repeat(r *match.Request, j *store.Job) (*match.Allocation, error) {
	if !j.Answers(func() store.Fingerprint { return fingerprintOf(r) }) {
		return nil, fmt.Errorf("match job %d: %w", r.ID, match.ErrConflict)
	}
	return j.Allocation(), nil
}

// place finds room for a request among what is free from now on or, where the
// operation says so, later.
func (p *pools) place(ctx context.Context, q *question) (*store.Job, *beside, error) {
	r := &q.Request
	v := p.store.Present(r)
	defer v.Restore()
	l := p.layout(ctx, q)
	o, failed := p.complete(l, solver.SeeNow, q.found)
	if o == solver.Placed && (mayWait(r.Op) || !l.Spent()) {
		return p.allocate(r, l, v, r.Now), nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if mayWait(r.Op) {
		now := v.Window()
		j, ok, err := p.later(ctx, r, l, v)
		if ok || err != nil {
			return j, nil, err
		}
		v.LookNow(now)
		p.bound.lookAgain()
	}
	no := p.refusing(l).refuse(solver.SeeNow, o, failed)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case no.Reason.Code == match.TooHard && !mayWait(r.Op):
		return nil, p.setAside(ctx, q, solver.SeeNow), nil
	case errors.Is(no, match.ErrBusy) && failed.Nodes() != nil:
		no.Reason.End = p.bestRelease(l, v, &failed)
	}
	return nil, nil, no
}

// satisfy finds room for a request in the empty graph.
func (p *pools) satisfy(ctx context.Context, q *question) (*match.Allocation, *beside, error) {
	l := p.layout(ctx, q)
	o, failed := p.complete(l, solver.SeeEver, q.found)
	if o == solver.Placed && !l.Spent() {
		return p.allocate(&q.Request, l, nil, q.Now).Allocation(), nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	no := p.refusing(l).refuse(solver.SeeEver, o, failed)
	if no.Reason.Code == match.TooHard {
		return nil, p.setAside(ctx, q, solver.SeeEver), nil
	}
	return nil, nil, no
}

// layout returns the layout for a request, or for what was found for it beside the graph.
func (p *pools) layout(ctx context.Context, q *question) *solver.Layout {
	steps, d := p.work.brief, q.demand
	if q.found != nil {
		steps, d = briefWork, d.Unlimited()
	}
	p.space.Allow(ctx, steps)
	order, distance := p.store.Order(q.Policy, q.Near)
	l := solver.New(&p.space, p.bound.bind(&p.space, d, p.store.Graph(), order, distance, requesterOf(&q.Request)))
	l.Owe(solver.SortSteps * len(q.Near))
	if q.found == nil { // what was found is laid out whatever there is to ignore
		l.Owe(q.ignored)
	}
	return l
}

// complete lays out as many slots of every shape as there can be, or what was found beside
// the graph. Where that does not fit any more the meter is spent.
func (p *pools) complete(l *solver.Layout, v solver.View, found *beside) (solver.Outcome, solver.Shortfall) {
	if found != nil {
		runs, there := found.runsIn(p.store)
		if !there || !l.LayAgain(found.view, runs) {
			l.Exhaust()
			return solver.Unknown, solver.Shortfall{}
		}
		return solver.Placed, solver.Shortfall{}
	}
	return l.Complete(v)
}

// allocate makes the job that holds what is laid out, from the given time on. It books nothing.
func (p *pools) allocate(r *match.Request, l *solver.Layout, over *store.WindowView, at time.Time) *store.Job {
	g := store.Grant{
		ID: r.ID, Keys: r.Keys, At: at, Duration: r.Duration, Problem: &p.bound.problem, Runs: l.Laid(), Over: over,
	}
	if who := p.bound.problem.Requester; who.Whole {
		g.Holder = who.Holder
	}
	return p.store.Allocate(&g)
}

// giveUp implements backend.
func (p *pools) giveUp(r *match.Request) {
	if p.holder(r) == nil {
		p.store.Reservations().Withdraw(r.ID)
	}
}

func (p *pools) update(jobs ...match.Job) error { return p.store.Update(jobs...) }

func (p *pools) release(id match.JobID, keys ...string) { p.store.Release(id, keys...) }

func (p *pools) jobs() []match.Job { return p.store.Jobs() }

func (p *pools) page(from string, limit int) func() []match.Node {
	notes := p.store.Page(from, limit)
	return func() []match.Node { return store.Nodes(notes) }
}

func (p *pools) setStatus(name string, status resource.Status) error {
	return p.store.SetStatus(name, status)
}

func (p *pools) sizes() (jobs, slots, nodes int) { return p.store.Sizes() }

func (p *pools) number() { p.store.Number() }
