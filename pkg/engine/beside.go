package engine

import (
	"context"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A beside is a match that takes more work than the engine is held for. It goes on with a
// copy of what it looks at, beside the graph.
type beside struct {
	space    *solver.Workspace
	demand   *demand.Demand
	snapshot *store.Snapshot
	order    []int32
	distance []int
	who      solver.Requester
	view     solver.View
	root     string
	// runs is what was found. They name nodes by their positions in the copy.
	runs []solver.Run
}

// setAside copies what a request looks at. The graph may change from then on. All that is found
// beside the graph for one match, one after the other, has longWork in common.
func (p *pools) setAside(ctx context.Context, q *question, v solver.View) *beside {
	d := apart(q.demand)
	order, distance := p.store.Order(q.Policy, q.Near)
	steps := p.work.lengthy
	if q.found != nil {
		steps = max(0, q.found.space.Remain())
	}
	s := &beside{
		space: &solver.Workspace{}, demand: d, snapshot: p.store.Snapshot(kindsOf(d)), order: slices.Clone(order), distance: slices.Clone(distance),
		who: requesterOf(&q.Request), view: v, root: p.store.Graph().RootType(),
	}
	s.space.Allow(ctx, steps)
	return s
}

// apart copies a demand and the columns that it was found in.
func apart(d *demand.Demand) *demand.Demand {
	part := *d
	part.Needs = slices.Clone(d.Needs)
	for i := range part.Needs {
		n := &part.Needs[i]
		n.Columns = slices.Clone(n.Columns)
		for k, c := range n.Columns {
			n.Columns[k] = &solver.Column{Most: slices.Clone(c.Most), Free: slices.Clone(c.Free)}
		}
	}
	return &part
}

// kindsOf lists the types of vertices that a demand divides the nodes by.
func kindsOf(d *demand.Demand) []string {
	var kinds []string
	for k := range d.Limits {
		if l := &d.Limits[k]; l.Cells == nil {
			kinds = append(kinds, l.Kind)
		}
	}
	for _, l := range d.Levels() {
		kinds = append(kinds, l.Kind)
	}
	return kinds
}

// search looks for a place in the copy. It fails as the match does.
func (s *beside) search(ctx context.Context) error {
	var b binding
	problem := b.bind(s.space, s.demand, &s.snapshot.Graph, s.order, s.distance, s.who)
	l := solver.New(s.space, problem)
	o, failed := l.Complete(s.view)
	if o == solver.Placed {
		s.runs = l.Laid()
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	no := refusing{l, problem, s.root}.refuse(s.view, o, failed)
	if err := ctx.Err(); err != nil {
		return err
	}
	return no
}

// runsIn returns what was found with the nodes by their positions now. It is false if the graph has
// changed so that one of them is not there any more.
func (s *beside) runsIn(now *store.Store) ([]solver.Run, bool) {
	runs := slices.Clone(s.runs)
	for i := range runs {
		at, there := now.Position(s.snapshot, runs[i].Node)
		if !there {
			return nil, false
		}
		runs[i].Node = at
	}
	return runs, true
}

// overtaken makes the error for a request for which what was found beside the graph was taken
// or changed meanwhile, each time.
func (s *beside) overtaken() *match.Refusal {
	shape := &s.demand.Shapes[0]
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.Overtaken, Slot: shape.Label, Level: s.root, Wanted: shape.Count.Min,
		Nodes: int64(s.snapshot.Size()), WaitingHelps: true,
	}}
}
