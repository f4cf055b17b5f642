package traverser

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
)

// A workspace is memory that one call reuses from the last.
type workspace struct {
	choice   choice
	emitter  emitter
	gathered []*aggregate
}

// Match answers a request as match.Engine does; see match.Request. The fingerprint
// identifies the request. Match fails with match.ErrInvalid, with a *match.Refusal
// that wraps match.ErrBusy or match.ErrUnsatisfiable, with match.ErrConflict, or
// with the error of ctx. A failed Match changes nothing, with one exception: after
// a refusal, the reservation that the request would have renewed is gone.
func (t *Traverser) Match(ctx context.Context, r *match.Request, f Fingerprint) (*match.Allocation, error) {
	q, err := t.prepare(r)
	if err != nil {
		return nil, err
	}
	now := Instant(r.Now)
	t.advance(now)
	if r.Op == match.Satisfiability {
		j, err := t.try(q, r, now, now, true)
		if err != nil {
			return nil, err
		}
		if j == nil {
			return nil, t.never(q)
		}
		return t.allocation(j), nil
	}
	if err := t.checkIgnored(r); err != nil {
		return nil, err
	}
	ignored := r.Ignore
	var given *job // the job's reservation, which the request replaces
	if j := t.jobs[r.ID]; j != nil && !slices.Contains(ignored, r.ID) {
		switch {
		case !j.reserved && j.asked && j.request == f:
			return t.allocation(j), nil
		case !j.reserved:
			return nil, fmt.Errorf("match job %d: %w", r.ID, match.ErrConflict)
		case booksAnything(r.Op):
			t.forget(j)
			given = j
		default: // Nothing is booked, so the reservation is only ignored.
			ignored = append(slices.Clip(ignored), r.ID)
		}
	}
	restore := t.setAside(ignored, r, now)
	j, err := t.find(ctx, q, r, now)
	if err == nil && booksAnything(r.Op) {
		// The weights of the edges count what is replaced as free, so it still has to be set aside.
		j.asked, j.request = true, f
		t.give(j, now)
	}
	restore()
	switch {
	case err != nil:
		if given != nil && !errors.As(err, new(*match.Refusal)) {
			t.hold(given)
		}
		return nil, err
	case booksAnything(r.Op) && r.Replaces != 0:
		t.Release(r.Replaces, r.ReplacesKeys...)
	}
	return t.allocation(j), nil
}

// checkIgnored fails for a request that books if a job that it ignores holds something. It does not fail
// for a job that holds something itself: that is a repeat or a conflict.
func (t *Traverser) checkIgnored(r *match.Request) error {
	if own := t.jobs[r.ID]; !booksAnything(r.Op) || own != nil && !own.reserved {
		return nil
	}
	for _, id := range r.Ignore {
		if j := t.jobs[id]; j != nil && !j.reserved {
			return invalid("jobs to ignore: job %d holds resources, and an operation that books may ignore only reservations", id)
		}
	}
	return nil
}

// booksAnything reports whether a match with this operation books what it finds.
func booksAnything(op match.Op) bool {
	return op == match.Allocate || op == match.AllocateOrElseReserve
}

// find searches for a time at which the request fits. It tries now. If the operation
// allows a later time, it also tries the times at which a booking begins or ends.
func (t *Traverser) find(ctx context.Context, q *ask, r *match.Request, now int64) (*job, error) {
	t.attempt.seen = 0
	later := r.Op == match.AllocateOrElseReserve || r.Op == match.WithoutAllocatingFuture
	if later && t.fewNodes(q) {
		return nil, t.busy(q, r, now)
	}
	j, err := t.try(q, r, now, now, false)
	if j != nil || err != nil {
		return j, err
	}
	if later {
		for at := now; ; {
			var ok bool
			if at, ok = t.candidate(q, r, at); !ok {
				break
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if t.attempt.seen > t.budget {
				return nil, t.unknown(q, r, now)
			}
			if j, err := t.try(q, r, now, at, false); j != nil || err != nil {
				return j, err
			}
		}
	}
	return nil, t.refuse(q, r, now)
}

// candidate returns the first time after the given one at which a booking begins or ends,
// and at which the totals of the root's pruning filter are enough for the whole duration.
func (t *Traverser) candidate(q *ask, r *match.Request, after int64) (int64, bool) {
	free := t.g.in(t.g.root)
	if free == nil || free.free == nil {
		return 0, false
	}
	for {
		at, ok := free.free.plan.Next(after)
		if !ok || at == planner.Forever {
			return 0, false
		}
		t.attempt.empty = false
		t.attempt.start, t.attempt.end = at, until(at, r.Duration)
		if t.attempt.fits(free, q.least) {
			return at, true
		}
		after = at
	}
}

// try makes one attempt at a time. If empty is set, it ignores what jobs hold
// and which vertices are down. It returns nil if the request does not fit.
func (t *Traverser) try(q *ask, r *match.Request, now, at int64, empty bool) (*job, error) {
	a := &t.attempt
	a.g, a.policy, a.whole, a.holds = &t.g, q.policy, q.whole, q.holds
	a.start, a.end, a.empty = at, until(at, r.Duration), empty
	a.fault, a.broken, a.factor = nil, nil, 0
	a.members = a.members[:0]
	c := &t.space.choice
	c.reset(len(t.g.typ))
	top := a.frame(0, true)
	for i := range q.top.list {
		top.want(q.top.list[i].typ)
	}
	a.visit(t.g.root, q.top, false, true, 1)
	top = &a.frames[0]
	for i := range q.top.list {
		rq := &q.top.list[i]
		if !a.pick(c, rq, top.of(rq.typ), orderTop) {
			return nil, a.fault
		}
	}
	if a.settle(c, 0, -1, true, 1); a.broken != nil {
		return nil, a.broken
	}
	e := &t.space.emitter
	*e = emitter{a: a, c: c, out: e.out[:0], order: e.order[:0]}
	e.emit(t.g.root, false, -1)
	if !e.taken && !empty {
		return nil, invalid("jobspec: resources: nothing is asked for exclusively: neither a slot nor exclusive: true, or the graph has a level between that the request leaves out")
	}
	j := &job{
		id: r.ID, start: at, end: a.end, at: at, until: a.end, reserved: at > now,
		emissions: slices.Clone(e.out),
	}
	j.nameSlots(c.slots, q.top, r.Keys)
	j.noteLabels(c)
	if queue := r.Jobspec.Attributes.System.Queue; queue != "" && !empty {
		t.queue = queue
	}
	j.queue = t.queue
	return j, nil
}
