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
	defer e.unlock()
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	if e.making == ofGraphs {
		e.added.Release(id, keys...)
		return nil
	}
	e.surrender(id, keys)
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

// surrender drops the promised slots of a job with these keys, or without keys
// all of them.
func (e *Engine) surrender(id match.JobID, keys []string) {
	j := e.promises.jobs[id]
	if j == nil {
		return
	}
	for _, k := range keys {
		if s := j.slots[k]; s != nil {
			e.unawait(s)
			delete(j.slots, k)
		}
	}
	if len(keys) == 0 || len(j.slots) == 0 {
		e.withdraw(id)
	}
}

// Jobs implements match.Engine. Slots that an Update brought are listed as it
// gave them.
func (e *Engine) Jobs(ctx context.Context, at match.Epoch) ([]match.Job, error) {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admit(ctx, at); err != nil {
		return nil, err
	}
	if e.making == ofGraphs {
		return e.added.Jobs(), nil
	}
	x := make(exporter)
	jobs := make([]match.Job, 0, len(e.jobs)+len(e.promises.jobs))
	for _, of := range []map[match.JobID]*job{e.jobs, e.promises.jobs} {
		for _, j := range of {
			jobs = append(jobs, x.job(j))
		}
	}
	slices.SortFunc(jobs, func(a, b match.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, nil
}

// job writes out a job, its slots ordered by key.
func (x exporter) job(j *job) match.Job {
	out := match.Job{ID: j.id, Slots: make([]match.Slot, 0, len(j.slots)), Reserved: j.reserved, At: j.at, End: j.end}
	for _, s := range j.slots {
		out.Slots = append(out.Slots, x.slot(s))
	}
	slices.SortFunc(out.Slots, func(a, b match.Slot) int { return strings.Compare(a.Key, b.Key) })
	return out
}
