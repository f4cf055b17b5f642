package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Release implements match.Engine.
func (e *Engine) Release(ctx context.Context, at match.Epoch, id match.JobID, keys ...string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	if e.making == ofGraphs {
		e.added.Release(id, keys...)
		return nil
	}
	j := e.jobs[id]
	if j == nil {
		return nil
	}
	if len(keys) == 0 {
		for _, s := range j.slots {
			e.unstand(s)
		}
		delete(e.jobs, id)
		return nil
	}
	for _, k := range keys {
		if s := j.slots[k]; s != nil {
			e.unstand(s)
			delete(j.slots, k)
			j.asked = false
		}
	}
	if len(j.slots) == 0 {
		delete(e.jobs, id)
	}
	return nil
}

// Jobs implements match.Engine. Slots that an Update brought are listed as it
// gave them.
func (e *Engine) Jobs(ctx context.Context, at match.Epoch) ([]match.Job, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.admit(ctx, at); err != nil {
		return nil, err
	}
	if e.making == ofGraphs {
		return e.added.Jobs(), nil
	}
	x := make(exporter)
	jobs := make([]match.Job, 0, len(e.jobs))
	for _, j := range e.jobs {
		held := match.Job{ID: j.id, Slots: make([]match.Slot, 0, len(j.slots))}
		for _, s := range j.slots {
			held.Slots = append(held.Slots, x.slot(s))
		}
		slices.SortFunc(held.Slots, func(a, b match.Slot) int { return strings.Compare(a.Key, b.Key) })
		jobs = append(jobs, held)
	}
	slices.SortFunc(jobs, func(a, b match.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}
