package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Match implements match.Engine. The duration is the request's; the one in the
// jobspec's attributes is not read. Satisfiability answers with a placement in
// the empty graph and looks at no ID. A request that takes too much work is match.ErrBusy
// with match.TooHard; others do not wait for one that takes much.
func (e *Engine) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	var waited time.Duration
	a, err := e.matchWithin(ctx, &r, &waited)
	match.Waited(a, err, waited)
	return a, err
}

// matchWithin makes a match, and adds up what it waits for others.
func (e *Engine) matchWithin(ctx context.Context, r *match.Request, waited *time.Duration) (*match.Allocation, error) {
	read := e.readBeside(r, waited)
	var found *beside
	for range longTries {
		a, more, err := e.matchNow(ctx, r, read, found, waited)
		if more == nil {
			return a, err
		}
		if err := e.find(ctx, more, waited); err != nil {
			if found != nil && tooMuch(err) {
				// A placement was found once: what is left for the next says nothing of the request.
				return nil, more.overtaken()
			}
			e.giveUp(ctx, r, err, waited)
			return nil, err
		}
		found = more
	}
	a, more, err := e.matchNow(ctx, r, read, found, waited)
	if more != nil {
		return nil, more.overtaken()
	}
	return a, err
}

// A reading is a request made ready for the matcher, or what is wrong with it.
type reading struct {
	ask *ask
	err error
}

// readBeside reads a request while others may match: a jobspec may name very many hosts.
func (e *Engine) readBeside(r *match.Request, waited *time.Duration) reading {
	e.lock(waited)
	added := e.making == ofGraphs
	e.mu.Unlock()
	if added {
		return reading{err: errGraphChanged}
	}
	if r.Policy == "" {
		r.Policy = e.options.Policy
	}
	if err := check(r, checkSlot); err != nil {
		return reading{err: err}
	}
	if err := checkPolicy(r); err != nil {
		return reading{err: err}
	}
	a, err := readAsk(r.Jobspec)
	if err == nil {
		err = a.checkKeys(r.Keys)
	}
	return reading{a, err}
}

// errGraphChanged ends a match that came while the graph was made of something else.
var errGraphChanged = fmt.Errorf("%w: the graph was begun anew", match.ErrStale)

// lock takes the engine, and adds up how long others had it.
func (e *Engine) lock(waited *time.Duration) {
	if e.mu.TryLock() {
		return
	}
	called := time.Now()
	e.mu.Lock()
	*waited += time.Since(called)
}

// matchNow makes a match, or lays out what was found for it beside the graph. If that takes
// more work than the engine is held for, it returns what there is to be done.
func (e *Engine) matchNow(ctx context.Context, r *match.Request, read reading, found *beside, waited *time.Duration) (*match.Allocation, *beside, error) {
	e.lock(waited)
	defer e.unlock()
	if err := e.admit(ctx, r.Epoch); err != nil {
		return nil, nil, err
	}
	if !e.ready {
		return nil, nil, fmt.Errorf("%w: the graph is not loaded", match.ErrUnavailable)
	}
	if e.making == ofGraphs {
		a, err := e.matchAdded(ctx, r)
		return a, nil, err
	}
	if read.err != nil {
		return nil, nil, read.err
	}
	a := read.ask
	defer func() {
		e.settleWork(&e.space.meter)
		e.space.tidy()
	}()
	if err := a.find(&e.graph); err != nil {
		return nil, nil, err
	}
	if r.Op == match.Satisfiability {
		return e.satisfy(ctx, r, a, found)
	}
	restore, all := e.ignore(r.Ignore)
	defer restore()
	if !all {
		return nil, nil, e.ignoresTooMuch(a)
	}
	if j := e.holder(r); j != nil {
		a, err := e.repeat(r, j)
		return a, nil, err
	}
	defer e.expect(r.Expected)()
	return e.give(ctx, r, a, found)
}

// give finds room for a job that holds nothing and, where the operation says so,
// books it. A reservation that the job has is given up, or counts as given up
// where nothing is booked.
func (e *Engine) give(ctx context.Context, r *match.Request, a *ask, found *beside) (*match.Allocation, *beside, error) {
	if books(r.Op) {
		e.expire(instant(r.Now))
	}
	restore := e.overlook(append(slices.Clip(r.Ignore), r.ID))
	j, more, err := e.place(ctx, r, a, found)
	restore()
	if more != nil {
		return nil, more, nil
	}
	if books(r.Op) && (err == nil || ctx.Err() == nil && !tooMuch(err)) {
		e.withdraw(r.ID)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case !books(r.Op):
	case j.reserved:
		e.promise(j)
	default:
		e.book(r, j)
	}
	return j.allocation(), nil, nil
}

// giveUp gives up the reservation of a job for which it was found beside the graph that there
// is no room, as give does.
func (e *Engine) giveUp(ctx context.Context, r *match.Request, err error, waited *time.Duration) {
	if _, refused := errors.AsType[*match.Refusal](err); !refused || !books(r.Op) || tooMuch(err) {
		return
	}
	e.lock(waited)
	defer e.unlock()
	if e.admit(ctx, r.Epoch) == nil && e.holder(r) == nil {
		e.withdraw(r.ID)
	}
}

// tooMuch says that a match ended without a proof, since it took too much work.
func tooMuch(err error) bool {
	no, refused := errors.AsType[*match.Refusal](err)
	return refused && no.Reason.Code == match.TooHard
}

// books says whether an operation keeps what it finds.
func books(o match.Op) bool { return o == match.Allocate || o == match.AllocateOrElseReserve }

// mayWait says whether an operation looks at later times too.
func mayWait(o match.Op) bool {
	return o == match.AllocateOrElseReserve || o == match.WithoutAllocatingFuture
}

// book gives a job what was drawn for it.
func (e *Engine) book(r *match.Request, j *job) {
	j.asked, j.request = true, fingerprintOf(r)
	e.jobs[j.id] = j
	for _, s := range j.slots {
		e.stand(s)
	}
}

// holder returns the job that the request's id names if it holds anything, and
// is not to be ignored.
func (e *Engine) holder(r *match.Request) *job {
	if slices.Contains(r.Ignore, r.ID) {
		return nil
	}
	return e.jobs[r.ID]
}

// repeat answers a request whose job holds something.
func (e *Engine) repeat(r *match.Request, j *job) (*match.Allocation, error) {
	if !j.asked || j.request != fingerprintOf(r) {
		return nil, fmt.Errorf("match job %d: %w", r.ID, match.ErrConflict)
	}
	return j.allocation(), nil
}

// place finds room for a request among what is free from now on or, where the
// operation says so, later.
func (e *Engine) place(ctx context.Context, r *match.Request, a *ask, found *beside) (*job, *beside, error) {
	h := e.present(r)
	defer h.restore()
	b := e.board(ctx, r, a, found)
	o, failed := b.complete(seeNow, found)
	if o == placed && (mayWait(r.Op) || !b.spent()) {
		return e.draw(r, b, h, r.Now), nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if mayWait(r.Op) {
		now := h.window
		j, ok, err := e.later(ctx, r, b, h)
		if ok || err != nil {
			return j, nil, err
		}
		h.lookNow(now)
		b.tenancies = e.graph.columns.hindering(b.tenant)
	}
	no := b.refuse(seeNow, o, failed, e.rootType())
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case no.Reason.Code == match.TooHard && !mayWait(r.Op):
		return nil, e.setAside(ctx, r, a, seeNow, found), nil
	case errors.Is(no, match.ErrBusy) && failed.in != nil:
		no.Reason.End = e.helpfulEnd(b, h, failed)
	}
	return nil, nil, no
}

// satisfy finds room for a request in the empty graph.
func (e *Engine) satisfy(ctx context.Context, r *match.Request, a *ask, found *beside) (*match.Allocation, *beside, error) {
	b := e.board(ctx, r, a, found)
	o, failed := b.complete(seeEver, found)
	if o == placed && !b.spent() {
		return e.draw(r, b, nil, r.Now).allocation(), nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	no := b.refuse(seeEver, o, failed, e.rootType())
	if no.Reason.Code == match.TooHard {
		return nil, e.setAside(ctx, r, a, seeEver, found), nil
	}
	return nil, nil, no
}

// board returns the board for a request, or for what was found for it beside the graph.
func (e *Engine) board(ctx context.Context, r *match.Request, a *ask, found *beside) *board {
	steps := e.brief
	if found != nil {
		steps, a = briefWork, a.unlimited()
	}
	e.space.allow(ctx, steps)
	b := e.space.newBoard(a, &e.graph, e.inOrder(r), tenantOf(r))
	b.owe(sortSteps * len(r.Near))
	if found == nil { // what was found is laid out whatever there is to ignore
		b.owe(e.ignoring.steps)
	}
	return b
}

// rootType returns the type of the root vertex.
func (e *Engine) rootType() string {
	if e.graph.root == nil {
		return resource.TypeCluster
	}
	return e.graph.root.about.Type
}
