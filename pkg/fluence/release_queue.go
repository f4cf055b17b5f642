package fluence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// releaseQueue gives back to the engine what groups no longer want. It never makes
// its caller wait, and tries again until the engine took note: a job id is used
// for one match only, so that it can never be too late.
type releaseQueue struct {
	engine match.Engine
	// epoch is 0 while the graph is being loaded: what is given back then would
	// be overtaken by the load.
	epoch   func() match.Epoch
	onFreed func()

	mu     sync.Mutex
	queue  []gang.Release
	wakeup chan struct{}
}

// releaseTimeout bounds one Release.
const releaseTimeout = 2 * time.Second

func newReleaseQueue(engine match.Engine, epoch func() match.Epoch, freed func()) *releaseQueue {
	return &releaseQueue{engine: engine, epoch: epoch, onFreed: freed, wakeup: make(chan struct{}, 1)}
}

func (r *releaseQueue) add(releases ...gang.Release) {
	if len(releases) == 0 {
		return
	}
	r.mu.Lock()
	r.queue = append(r.queue, releases...)
	r.mu.Unlock()
	signal.Send(r.wakeup)
}

// pending is how many releases the engine has yet to take.
func (r *releaseQueue) pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// has says whether a slot is still to be given back.
func (r *releaseQueue) has(job match.JobID, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.queue, func(q gang.Release) bool {
		return q.Job == job && (len(q.Keys) == 0 || slices.Contains(q.Keys, key))
	})
}

// run gives back until ctx ends.
func (r *releaseQueue) run(ctx context.Context) {
	const retry = 200 * time.Millisecond
	for {
		var again time.Time
		if !r.drain(ctx) {
			again = time.Now().Add(retry)
		}
		if !signal.Wait(ctx, r.wakeup, again) {
			return
		}
	}
}

// drain returns false if something is left to be given back.
func (r *releaseQueue) drain(ctx context.Context) bool {
	done := false
	defer func() {
		if done {
			r.onFreed()
		}
	}()
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.mu.Unlock()
			return true
		}
		next := r.queue[0]
		r.mu.Unlock()

		epoch := r.epoch()
		if epoch == 0 {
			return false
		}
		callCtx, cancel := context.WithTimeout(ctx, releaseTimeout)
		err := r.engine.Release(callCtx, epoch, next.Job, next.Keys...)
		cancel()
		switch {
		case err == nil:
			done = true
		case errors.Is(err, match.ErrInvalid):
			klog.FromContext(ctx).Error(err, "Give back", "job", next.Job)
		default:
			return false
		}
		r.mu.Lock()
		r.queue = r.queue[1:]
		r.mu.Unlock()
	}
}
