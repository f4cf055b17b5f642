package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Match implements match.Engine. The request's Duration is used; the duration in the jobspec's
// attributes is not read. Satisfiability returns a placement in the empty graph and ignores ID. A
// request that takes too much work is match.ErrBusy with match.TooHard. In a store, a match that
// takes much work does most of it without the lock, so that other calls do not wait.
func (e *Engine) Match(ctx context.Context, r match.Request) (a *match.Allocation, err error) {
	// 1. Record how long the match waits for locks, and put that into the answer.
	q := &matchState{Request: r}
	defer func() { match.SetWaited(a, err, q.waited) }()

	// 2. Read the request without the lock, because a jobspec may name very many hosts.
	e.prepare(q)

	for try := 0; ; try++ {
		// 3. Match with the lock held. Nearly all matches end here. See storeBackend.match for the steps.
		a, search, err := e.matchLocked(ctx, q)
		if search != nil && search == q.search {
			// Units that were to go do not make room any more. Begin anew.
			q.search = nil
			a, search, err = e.matchLocked(ctx, q)
		}
		if search == nil {
			return a, err
		}

		// 4. Give up if each placement of an unlocked search was overtaken.
		if try == maxUnlockedSearches {
			return nil, search.overtaken()
		}

		// 5. Run the unlocked search without the lock.
		if err := e.runUnlockedSearch(ctx, search, q); err != nil {
			if q.search != nil && isTooHard(err) {
				// An earlier unlocked search found a placement, so the
				// request is not too hard. It was only overtaken.
				return nil, search.overtaken()
			}
			e.dropReservation(ctx, q, err)
			return nil, err
		}

		// 6. Match again: the placement is laid out in the graph as it is now.
		q.search = search
	}
}

// maxUnlockedSearches is the maximum number of unlocked searches of one match. More than one may be needed
// because a placement may be overtaken before it is booked.
const maxUnlockedSearches = 2

// prepare makes the current backend read a request.
func (e *Engine) prepare(q *matchState) {
	e.lock(&q.waited)
	b := e.backend
	e.mu.Unlock()
	b.prepare(q)
}

// lock takes the engine's lock, and adds the time that it waited to waited.
func (e *Engine) lock(waited *time.Duration) {
	if e.mu.TryLock() {
		return
	}
	called := time.Now()
	e.mu.Lock()
	*waited += time.Since(called)
}

// matchLocked makes the backend answer a request, with the lock held.
func (e *Engine) matchLocked(ctx context.Context, q *matchState) (*match.Allocation, *unlockedSearch, error) {
	e.lock(&q.waited)
	defer e.unlock()
	if err := e.checkEpoch(ctx, q.Epoch); err != nil {
		return nil, nil, err
	}
	if !e.ready {
		return nil, nil, fmt.Errorf("%w: the graph is still loading", match.ErrUnavailable)
	}
	return e.backend.match(ctx, q)
}

// runUnlockedSearch runs an unlocked search, one at a time. Its error is the error of the match.
func (e *Engine) runUnlockedSearch(ctx context.Context, s *unlockedSearch, q *matchState) error {
	w := &e.work
	select {
	case w.unlockedSem <- struct{}{}:
	default:
		called := time.Now()
		select {
		case w.unlockedSem <- struct{}{}:
			q.waited += time.Since(called)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		w.observeOverrun(s.workspace.Overrun())
		<-w.unlockedSem
	}()
	return s.search(ctx)
}

// dropReservation drops the job's reservation after an unlocked search found no room, as the match does
// under the lock.
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
