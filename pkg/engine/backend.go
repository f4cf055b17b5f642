package engine

import (
	"context"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A backend holds the graph of one epoch and the jobs there. The epoch's first addition decides
// which backend is used: PutNode and Update choose the store, AddSubgraph chooses the traverser.
type backend interface {
	// prepare reads and checks the request. It is called without the engine's lock, so the engine may
	// have another backend when match is called.
	prepare(q *matchState)

	// All methods below are called with the engine's lock held.

	// match answers a request. If the search takes more work than a match may do under the lock, match
	// returns an unlocked search instead, which the caller runs without the lock.
	match(ctx context.Context, q *matchState) (*match.Allocation, *unlockedSearch, error)
	// dropReservation drops the job's reservation after an unlocked search found no room for the job.
	dropReservation(r *match.Request)
	update(jobs ...match.Job) error
	release(id match.JobID, keys ...string)
	jobs() []match.Job
	// page copies one page of nodes. The returned function converts the copy, and may be called
	// without the lock.
	page(from string, limit int) func() []match.Node
	setStatus(name string, status resource.Status) error
	sizes() (jobs, slots, nodes int)
	// numberNodes gives the nodes their numbers, now that the graph is loaded.
	numberNodes()
}

// A matchState is a request with the state of its match.
type matchState struct {
	match.Request
	// demand is the translated jobspec.
	demand *demand.Demand
	// err is what is wrong with the request.
	err error
	// ignoreSteps is the cost in steps of ignoring jobs.
	ignoreSteps int
	// search is the unlocked search that found a placement. It is nil if there was none yet.
	search *unlockedSearch
	// waited is the sum of the times that the match waited for locks.
	waited time.Duration
}

// freed lists the slots that count as free: those that the request names or replaces, and those of the units that were
// found.
func (q *matchState) freed() []match.SlotRef {
	freed := slices.Concat(q.Ending, q.replaced())
	if q.search != nil && q.search.displacement != nil {
		freed = append(freed, q.search.displacement.refs()...)
	}
	return freed
}

// replaced lists the slots that the request replaces.
func (q *matchState) replaced() []match.SlotRef {
	if q.Replaces == 0 {
		return nil
	}
	return []match.SlotRef{{Job: q.Replaces, Keys: q.ReplacesKeys}}
}
