package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Match implements match.Engine. The duration is the request's; the one in the
// jobspec's attributes is not read. Satisfiability answers with a placement in
// the empty graph and looks at no ID.
func (e *Engine) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.admit(ctx, r.Epoch); err != nil {
		return nil, err
	}
	if !e.ready {
		return nil, fmt.Errorf("%w: the graph is not loaded", match.ErrUnavailable)
	}
	if e.making == ofGraphs {
		return e.matchAdded(ctx, &r)
	}
	if r.Policy == "" {
		r.Policy = e.options.Policy
	}
	if err := check(&r); err != nil {
		return nil, err
	}
	a, err := readAsk(r.Jobspec)
	if err != nil {
		return nil, err
	}
	if err := a.checkKeys(r.Keys); err != nil {
		return nil, err
	}
	if err := a.find(&e.graph); err != nil {
		return nil, err
	}
	if r.Op == match.Satisfiability {
		return e.satisfy(&r, a)
	}
	defer e.ignore(r.Ignore)()
	if j := e.holder(&r); j != nil {
		return e.repeat(&r, j)
	}
	defer e.expect(r.Expected)()
	return e.give(ctx, &r, a)
}

// give finds room for a job that holds nothing and, where the operation says so,
// books it. A reservation that the job has is given up, or counts as given up
// where nothing is booked.
func (e *Engine) give(ctx context.Context, r *match.Request, a *ask) (*match.Allocation, error) {
	if books(r.Op) {
		e.expire(instant(r.Now))
	}
	restore := e.overlook(append(slices.Clip(r.Ignore), r.ID))
	j, err := e.place(ctx, r, a)
	restore()
	if books(r.Op) && (err == nil || ctx.Err() == nil) {
		e.withdraw(r.ID)
	}
	switch {
	case err != nil:
		return nil, err
	case !books(r.Op):
	case j.reserved:
		e.promise(j)
	default:
		e.book(r, j)
	}
	return j.allocation(), nil
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
func (e *Engine) place(ctx context.Context, r *match.Request, a *ask) (*job, error) {
	h := e.present(r)
	defer h.restore()
	b := e.board(r, a)
	o, failed := b.solve(seeNow)
	if o == placed {
		b.extend()
		return e.draw(r, b, h, r.Now), nil
	}
	if mayWait(r.Op) {
		now := h.window
		j, ok, err := e.later(ctx, r, b, h)
		if ok || err != nil {
			return j, err
		}
		h.lookNow(now)
		b.tenancies = e.graph.columns.hindering(b.tenant)
	}
	no := b.refuse(o, failed, e.rootType())
	if errors.Is(no, match.ErrBusy) && failed.in != nil {
		no.Reason.End = e.helpfulEnd(b, h, failed)
	}
	return nil, no
}

// satisfy finds room for a request in the empty graph.
func (e *Engine) satisfy(r *match.Request, a *ask) (*match.Allocation, error) {
	b := e.board(r, a)
	switch o, failed := b.solve(seeEver); o {
	case impossible:
		return nil, b.never(failed, e.rootType())
	case unknown:
		reason := b.reason(seeEver, o, failed, e.rootType())
		reason.WaitingHelps, reason.MayNeverFit = true, true
		return nil, &match.Refusal{Err: match.ErrBusy, Reason: reason}
	case placed:
	}
	b.extend()
	return e.draw(r, b, nil, r.Now).allocation(), nil
}

// board returns the board for a request.
func (e *Engine) board(r *match.Request, a *ask) *board {
	return e.space.newBoard(a, &e.graph, e.inOrder(r), tenantOf(r))
}

// rootType returns the type of the root vertex.
func (e *Engine) rootType() string {
	if e.graph.root == nil {
		return resource.TypeCluster
	}
	return e.graph.root.about.Type
}

// ignore takes what these jobs hold off the graph until the returned function
// is called.
func (e *Engine) ignore(ids []match.JobID) (restore func()) {
	var away []*slot
	seen := make(map[match.JobID]bool, len(ids))
	for _, id := range ids {
		j := e.jobs[id]
		if j == nil || seen[id] {
			continue
		}
		seen[id] = true
		for _, s := range j.slots {
			e.hosts[s.node].drop(s, &e.graph.columns)
			away = append(away, s)
		}
	}
	return func() {
		for _, s := range away {
			e.hosts[s.node].add(s, &e.graph.columns)
		}
	}
}
