package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

// A traverserBackend is the backend of graphs that were added, whose vertices are given out whole.
type traverserBackend struct{ *traverser.Traverser }

var _ backend = (*traverserBackend)(nil)

// prepare implements backend. The traverser reads the jobspec during the match. q.err is only for
// the case that the engine has a store when match is called.
func (g *traverserBackend) prepare(q *matchState) { q.err = errGraphChanged }

func (g *traverserBackend) match(ctx context.Context, q *matchState) (*match.Allocation, *unlockedSearch, error) {
	r := &q.Request
	if err := checkRequest(r, checkR); err != nil {
		return nil, nil, err
	}
	if len(r.Ending) > 0 {
		return nil, nil, invalid("ending slots: a graph that was added cannot leave out a part of a job")
	}
	if len(r.Displace) > 0 {
		return nil, nil, invalid("units to displace: a graph that was added does not choose units")
	}
	if r.Jobspec == nil {
		return nil, nil, invalid("no jobspec")
	}
	a, err := g.Match(ctx, r, traverser.Fingerprint(fingerprintOf(r)))
	if no, refused := errors.AsType[*match.Refusal](err); refused && r.Terse {
		no.Reason = no.Reason.Terse()
	}
	return a, nil, err
}

// dropReservation implements backend. It does nothing, because this backend has no unlocked searches.
func (g *traverserBackend) dropReservation(*match.Request) {}

func (g *traverserBackend) update(jobs ...match.Job) error { return g.Update(jobs...) }

func (g *traverserBackend) release(id match.JobID, keys ...string) { g.Release(id, keys...) }

func (g *traverserBackend) jobs() []match.Job { return g.Jobs() }

// page implements backend. It converts the page under the lock: nobody lists a graph that was added
// while scheduling goes on.
func (g *traverserBackend) page(from string, limit int) func() []match.Node {
	nodes := g.Nodes(from, limit)
	return func() []match.Node { return nodes }
}

func (g *traverserBackend) setStatus(name string, status resource.Status) error {
	if name != "" && name[0] == '/' {
		return g.SetStatus(name, status)
	}
	return g.SetNodeStatus(name, status)
}

func (g *traverserBackend) sizes() (jobs, slots, nodes int) { return g.Sizes() }

// numberNodes implements backend. It does nothing, because vertices keep the numbers of their JGF.
func (g *traverserBackend) numberNodes() {}

// errGraphChanged is the error of a match whose request was read while the engine had the other
// backend.
var errGraphChanged = fmt.Errorf("%w: the graph was reset while the request was being read", match.ErrStale)
