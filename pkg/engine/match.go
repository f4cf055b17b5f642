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
	q := &question{Request: r}
	defer func() { match.Waited(a, err, q.waited) }()

	// 2. Read the request while others may match: a jobspec may name very many hosts.
	e.read(q)

	for try := 0; ; try++ {
		// 3. Match with the engine held. Nearly all matches end here: see pools.match for its steps.
		a, aside, err := e.matchHeld(ctx, q)
		if aside == nil {
			return a, err
		}

		// 4. Each time that something was found beside the graph, others had changed it meanwhile.
		if try == longTries {
			return nil, aside.overtaken()
		}

		// 5. Do beside the graph what takes more work than the engine is held for.
		if err := e.searchBeside(ctx, aside, q); err != nil {
			if q.found != nil && tooMuch(err) {
				// A placement was found once: what is left for the next says nothing of the request.
				return nil, aside.overtaken()
			}
			e.giveUp(ctx, q, err)
			return nil, err
		}

		// 6. Match once more: what was found is laid out in the graph as that is by then.
		q.found = aside
	}
}

// longTries is how often a match may go on beside the graph: what is found there may be
// overtaken.
const longTries = 2

// read has the epoch's backend read a request.
func (e *Engine) read(q *question) {
	e.lock(&q.waited)
	b := e.backend
	e.mu.Unlock()
	b.read(q)
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

// matchHeld has the backend answer a question, with the engine held.
func (e *Engine) matchHeld(ctx context.Context, q *question) (*match.Allocation, *beside, error) {
	e.lock(&q.waited)
	defer e.unlock()
	if err := e.admit(ctx, q.Epoch); err != nil {
		return nil, nil, err
	}
	if !e.ready {
		return nil, nil, fmt.Errorf("%w: the graph is not loaded", match.ErrUnavailable)
	}
	return e.backend.match(ctx, q)
}

// searchBeside does what was set aside, for one match at a time. It fails as the match does.
func (e *Engine) searchBeside(ctx context.Context, s *beside, q *question) error {
	w := &e.work
	select {
	case w.long <- struct{}{}:
	default:
		called := time.Now()
		select {
		case w.long <- struct{}{}:
			q.waited += time.Since(called)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		w.settle(s.space.Over())
		<-w.long
	}()
	return s.search(ctx)
}

// giveUp gives up the reservation of a job for which it was found beside the graph that there
// is no room, as the match does with the engine held.
func (e *Engine) giveUp(ctx context.Context, q *question, err error) {
	if _, refused := errors.AsType[*match.Refusal](err); !refused || !books(q.Op) || tooMuch(err) {
		return
	}
	e.lock(&q.waited)
	defer e.unlock()
	if e.admit(ctx, q.Epoch) == nil {
		e.backend.giveUp(&q.Request)
	}
}
