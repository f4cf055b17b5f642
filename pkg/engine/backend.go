package engine

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A backend has the graph of one epoch, and who holds what of it. What it is made of is chosen by
// the first call that brings something: PutNode and Update choose pools, AddSubgraph graphs.
type backend interface {
	// prepare makes a question ready. The engine is not held, and the backend may be another by the
	// time of the match.
	prepare(q *matchState)

	// The engine is held over all that follows.

	// match answers a question. Where that takes more work than the engine is held for, it returns
	// the search that is to go on beside the engine instead.
	match(ctx context.Context, q *matchState) (*match.Allocation, *longSearch, error)
	// dropReservation gives up the reservation of a job for which it was found beside the graph that there is
	// no room.
	dropReservation(r *match.Request)
	update(jobs ...match.Job) error
	release(id match.JobID, keys ...string)
	jobs() []match.Job
	// page notes some nodes. What it returns writes them out, for which the engine need not be held.
	page(from string, limit int) func() []match.Node
	setStatus(name string, status resource.Status) error
	sizes() (jobs, slots, nodes int)
	// numberNodes says that the graph is loaded.
	numberNodes()
}

// A question is a request on its way through a match.
type matchState struct {
	match.Request
	// demand is what the jobspec asks for, and err what is wrong with the request.
	demand *demand.Demand
	err    error
	// ignoreSteps is how many steps it counts to ignore jobs.
	ignoreSteps int
	// search is what was found beside the graph; nil for nothing yet.
	search *longSearch
	// waited adds up how long others had the engine.
	waited time.Duration
}
