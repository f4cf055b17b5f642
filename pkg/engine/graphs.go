package engine

import (
	"context"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

// graphs is the backend of graphs that were added: their vertices are given out whole.
type graphs struct{ *traverser.Traverser }

var _ backend = (*graphs)(nil)

// read implements backend: a traverser reads the jobspec itself.
func (g *graphs) read(q *question) { q.err = errGraphChanged }

func (g *graphs) match(ctx context.Context, q *question) (*match.Allocation, *beside, error) {
	r := &q.Request
	if err := check(r, hasR); err != nil {
		return nil, nil, err
	}
	if r.Jobspec == nil {
		return nil, nil, invalid("no jobspec")
	}
	a, err := g.Match(ctx, r, traverser.Fingerprint(fingerprintOf(r)))
	return a, nil, err
}

// giveUp implements backend: nothing goes on beside the graph.
func (g *graphs) giveUp(*match.Request) {}

func (g *graphs) update(jobs ...match.Job) error { return g.Update(jobs...) }

func (g *graphs) release(id match.JobID, keys ...string) { g.Release(id, keys...) }

func (g *graphs) jobs() []match.Job { return g.Jobs() }

// page implements backend. A graph that was added is not listed while scheduling goes on beside.
func (g *graphs) page(from string, limit int) func() []match.Node {
	nodes := g.Nodes(from, limit)
	return func() []match.Node { return nodes }
}

func (g *graphs) setStatus(name string, status resource.Status) error {
	if name != "" && name[0] == '/' {
		return g.SetStatus(name, status)
	}
	return g.SetNodeStatus(name, status)
}

func (g *graphs) sizes() (jobs, slots, nodes int) { return g.Sizes() }

// number implements backend: vertices have the numbers that they came with.
func (g *graphs) number() {}

// errGraphChanged ends a match that came while the graph was made of something else.
var errGraphChanged = fmt.Errorf("%w: the graph was begun anew", match.ErrStale)
