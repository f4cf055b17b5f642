package engine

import (
	"context"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A unlockedSearch goes on with a match that takes more work than a match may do under the lock. It
// works without the lock, on a snapshot of the graph.
type unlockedSearch struct {
	workspace *solver.Workspace
	demand    *demand.Demand
	snapshot  *store.Snapshot
	order     []int32
	distance  []int
	requester solver.Requester
	view      solver.View
	rootType  string
	terse     bool
	// displacement is the search for units that have to go. It is nil if the request has no units.
	displacement *displacement
	// exhaustiveUnits is workLimits.exhaustiveUnits.
	exhaustiveUnits int
	// placement is the placement that was found. Nodes are positions in the snapshot.
	placement []solver.Run
}

// newUnlockedSearch copies everything that the search reads, so that the graph may change meanwhile.
// All unlocked searches of one match share unlockedSteps.
func (p *storeBackend) newUnlockedSearch(ctx context.Context, q *matchState, v solver.View) *unlockedSearch {
	d := cloneDemand(q.demand)
	order, distance := p.store.Order(q.Policy, q.Near)
	steps := p.work.unlockedSteps
	if q.search != nil {
		steps = max(0, q.search.workspace.Remain())
	}
	s := &unlockedSearch{
		workspace: &solver.Workspace{}, demand: d, snapshot: p.store.Snapshot(levelTypes(d)), order: slices.Clone(order), distance: slices.Clone(distance),
		requester: requesterOf(&q.Request), view: v, rootType: p.store.Graph().RootType(), terse: q.Terse, exhaustiveUnits: p.work.exhaustiveUnits,
	}
	s.workspace.Begin(ctx, steps)
	return s
}

// cloneDemand copies a demand and the columns of its needs.
func cloneDemand(d *demand.Demand) *demand.Demand {
	part := *d
	part.Needs = slices.Clone(d.Needs)
	for i := range part.Needs {
		n := &part.Needs[i]
		n.Columns = slices.Clone(n.Columns)
		for k, c := range n.Columns {
			n.Columns[k] = &solver.Column{Capacity: slices.Clone(c.Capacity), Free: slices.Clone(c.Free)}
		}
	}
	return &part
}

// levelTypes lists the types of vertices that the demand's limits and topology name.
func levelTypes(d *demand.Demand) []string {
	var types []string
	for k := range d.Limits {
		if l := &d.Limits[k]; l.CellOf == nil {
			types = append(types, l.Level)
		}
	}
	for _, l := range d.Levels() {
		types = append(types, l.Type)
	}
	return types
}

// search searches for a placement in the snapshot. Its error is the error of the match.
func (s *unlockedSearch) search(ctx context.Context) error {
	if s.displacement != nil {
		return s.searchDisplacing(ctx)
	}
	var b problemBuilder
	problem := b.build(s.workspace, s.demand, &s.snapshot.Graph, s.order, s.distance, s.requester)
	l := solver.New(s.workspace, problem)
	o, failed := l.SolveMax(s.view)
	if o == solver.Placed {
		s.placement = l.Runs()
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	no := explainer{l, problem, s.rootType, s.terse}.refusal(s.view, o, failed)
	if err := ctx.Err(); err != nil {
		return err
	}
	return no
}

// currentPlacement returns the placement with the current positions of its nodes. It returns false if one of
// the nodes was removed or moved.
func (s *unlockedSearch) currentPlacement(now *store.Store) ([]solver.Run, bool) {
	runs := slices.Clone(s.placement)
	for i := range runs {
		at, there := now.Position(s.snapshot, runs[i].Node)
		if !there {
			return nil, false
		}
		runs[i].Node = at
	}
	return runs, true
}

// overtaken returns the error for a request for which every placement that an unlocked search found was
// taken or changed before it was booked.
func (s *unlockedSearch) overtaken() *match.Refusal {
	shape := &s.demand.Shapes[0]
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.Overtaken, Slot: shape.Label, Level: s.rootType, Wanted: shape.Count.Min,
		Nodes: int64(s.snapshot.Size()), WaitingHelps: true,
	}}
}
