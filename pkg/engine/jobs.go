package engine

import (
	"context"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Update implements match.Engine. A slot that the job holds as it is given
// stays as it is, so that the job's request can be answered again; whose its node
// is, and when it ends, may change all the same. The End of a job goes for all its
// slots, whether the update names them or not. Where the job has no End, each slot
// ends as its R says. Shares held exclusively are match.ErrInvalid: pools are held by amount
// here.
//
// A reservation is kept whether or not there is room for it. It is
// match.ErrInvalid for a job that holds something, and goes with the first slot
// that its job is said to hold.
func (e *Engine) Update(ctx context.Context, at match.Epoch, jobs ...match.Job) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.checkEpoch(ctx, at); err != nil {
		return err
	}
	if err := e.backend.update(jobs...); err != nil {
		return err
	}
	e.backendFixed = e.backendFixed || len(jobs) > 0
	return nil
}

// Release implements match.Engine.
func (e *Engine) Release(ctx context.Context, at match.Epoch, id match.JobID, keys ...string) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.checkEpoch(ctx, at); err != nil {
		return err
	}
	e.backend.release(id, keys...)
	return nil
}

// Jobs implements match.Engine. Slots that an Update brought are listed as it
// gave them.
func (e *Engine) Jobs(ctx context.Context, at match.Epoch) ([]match.Job, error) {
	e.mu.Lock()
	defer e.unlock()
	if err := e.checkEpoch(ctx, at); err != nil {
		return nil, err
	}
	return e.backend.jobs(), nil
}
