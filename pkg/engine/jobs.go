package engine

import (
	"context"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Update implements match.Engine. A slot that the job already holds in the same form stays as it
// is, so that the job's request can be answered again. Only its holder, Shared and its end may
// change. A job's End applies to all its slots, whether the update lists them or not. Without an
// End, a new or changed slot ends at the expiration of its R. A share that is held
// exclusively is match.ErrInvalid, because pools are held by amount here.
//
// A reservation is accepted even if there is no room for it. It is match.ErrInvalid for a job that
// holds slots. The first Update that books a slot for the job drops the reservation.
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

// Jobs implements match.Engine. Slots that an Update booked are listed as they were given.
func (e *Engine) Jobs(ctx context.Context, at match.Epoch) ([]match.Job, error) {
	e.mu.Lock()
	defer e.unlock()
	if err := e.checkEpoch(ctx, at); err != nil {
		return nil, err
	}
	return e.backend.jobs(), nil
}
