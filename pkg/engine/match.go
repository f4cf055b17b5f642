package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Match implements match.Engine. The duration is the request's; the one in the
// jobspec's attributes is not read. Satisfiability answers with a placement in
// the empty graph and looks at no ID. A request that takes too much work is match.ErrBusy
// with match.TooHard; others do not wait for one that takes much.
func (e *Engine) Match(ctx context.Context, r match.Request) (a *match.Allocation, err error) {
	// 1. Add up how long the match waits for others: the answer says so.
	q := &matchState{Request: r}
	defer func() { match.SetWaited(a, err, q.waited) }()

	// 2. Read the request while others may match: a jobspec may name very many hosts.
	e.prepare(q)

	for try := 0; ; try++ {
		// 3. Match with the engine held. Nearly all matches end here: see pools.match for its steps.
		a, search, err := e.matchLocked(ctx, q)
		if search == nil {
			return a, err
		}

		// 4. Each time that something was found beside the graph, others had changed it meanwhile.
		if try == maxLongSearches {
			return nil, search.overtaken()
		}

		// 5. Do beside the graph what takes more work than the engine is held for.
		if err := e.runLongSearch(ctx, search, q); err != nil {
			if q.search != nil && isTooHard(err) {
				// A placement was found once: what is left for the next says nothing of the request.
				return nil, search.overtaken()
			}
			e.dropReservation(ctx, q, err)
			return nil, err
		}

		// 6. Match once more: what was found is laid out in the graph as that is by then.
		q.search = search
	}
}

// maxLongSearches is how often a match may go on beside the graph: what is found there may be
// overtaken.
const maxLongSearches = 2

// prepare has the epoch's backend read a request.
func (e *Engine) prepare(q *matchState) {
	e.lock(&q.waited)
	b := e.backend
	e.mu.Unlock()
	b.prepare(q)
}

// lock takes the engine, and adds up how long others had it.
func (e *Engine) lock(waited *time.Duration) {
	if e.mu.TryLock() {
		return
	}
	called := time.Now()
	e.mu.Lock()
	*waited += time.Since(called)
}

// matchLocked has the backend answer a question, with the engine held.
func (e *Engine) matchLocked(ctx context.Context, q *matchState) (*match.Allocation, *longSearch, error) {
	e.lock(&q.waited)
	defer e.unlock()
	if err := e.checkEpoch(ctx, q.Epoch); err != nil {
		return nil, nil, err
	}
	if !e.ready {
		return nil, nil, fmt.Errorf("%w: the graph is not loaded", match.ErrUnavailable)
	}
	return e.backend.match(ctx, q)
}

// runLongSearch does what was set aside, for one match at a time. It fails as the match does.
func (e *Engine) runLongSearch(ctx context.Context, s *longSearch, q *matchState) error {
	w := &e.work
	select {
	case w.longSem <- struct{}{}:
	default:
		called := time.Now()
		select {
		case w.longSem <- struct{}{}:
			q.waited += time.Since(called)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		w.observeOverrun(s.workspace.Overrun())
		<-w.longSem
	}()
	return s.run(ctx)
}

// dropReservation gives up the reservation of a job for which it was found beside the graph that there
// is no room, as the match does with the engine held.
func (e *Engine) dropReservation(ctx context.Context, q *matchState, err error) {
	if _, refused := errors.AsType[*match.Refusal](err); !refused || !isBooking(q.Op) || isTooHard(err) {
		return
	}
	e.lock(&q.waited)
	defer e.unlock()
	if e.checkEpoch(ctx, q.Epoch) == nil {
		e.backend.dropReservation(&q.Request)
	}
}
