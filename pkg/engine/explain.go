package engine

import (
	"errors"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// An explainer explains why no placement was found for a problem.
type explainer struct {
	layout   *solver.Layout
	problem  *solver.Problem
	rootType string // the type of the root vertex
	terse    bool   // whether only what Reason.Terse keeps is wanted
}

// explainer returns the explainer for a layout of the running match.
func (p *storeBackend) explainer(l *solver.Layout, q *matchState) explainer {
	return explainer{l, &p.builder.problem, p.store.Graph().RootType(), q.Terse}
}

// refusal returns the error for a request for which an attempt found no room. The error is
// match.ErrUnsatisfiable only if it is proven that the request does not fit the graph without its
// jobs.
func (x explainer) refusal(v solver.View, o solver.Outcome, failed solver.Shortfall) *match.Refusal {
	ever, short := o, failed
	if v != solver.ViewEver {
		ever, short = x.layout.SolveMin(solver.ViewEver)
	}
	if ever == solver.Impossible {
		return &match.Refusal{Err: match.ErrUnsatisfiable, Reason: x.reason(solver.ViewEver, solver.Impossible, &short)}
	}
	if x.layout.IsExhausted() {
		return x.tooHard(&failed)
	}
	reason := x.reason(v, o, &failed)
	reason.WaitingHelps, reason.MayNeverFit = true, ever == solver.Unknown
	if v != solver.ViewEver && reason.Down > 0 {
		up, _ := x.layout.SolveMin(solver.ViewUp)
		reason.WaitingHelps = up != solver.Impossible
	}
	if x.layout.IsExhausted() {
		return x.tooHard(&failed)
	}
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// tooHard returns the error for a request that takes more steps than it may.
func (x explainer) tooHard(failed *solver.Shortfall) *match.Refusal {
	shape := &x.problem.Shapes[failed.Shape]
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.TooHard, Slot: shape.Label, Level: x.rootType, Wanted: shape.Count.Min,
		Nodes: int64(x.layout.Survey().Nodes()), WaitingHelps: true, MayNeverFit: true,
	}}
}

// reason explains a failed attempt in numbers.
func (x explainer) reason(v solver.View, o solver.Outcome, failed *solver.Shortfall) match.Reason {
	shape, survey, level := &x.problem.Shapes[failed.Shape], x.layout.Survey(), x.rootType
	if failed.Level != "" {
		level = failed.Level
	}
	r := match.Reason{
		Slot: shape.Label, Wanted: shape.Count.Min, Found: failed.Found,
		Nodes: int64(survey.Nodes()),
	}
	empty := solver.Measurement{Usable: 1, Fit: true}
	if !x.terse || failed.Found == 0 {
		empty = survey.Measure(solver.View{Empty: true, Up: v.Up, Now: v.Now}, failed.Shape)
	}
	if !x.terse {
		r.Down, r.Excluded = survey.CountUnusable(failed.Shape, v.Now)
	}
	switch {
	case empty.Usable == 0:
		r.Code, r.Level = match.NoNode, resource.TypeNode
	case !empty.Fit:
		r.Code, r.Level = match.TooLarge, resource.TypeNode
	case o == solver.Impossible:
		r.Code, r.Level = match.TooFew, level
	default:
		r.Code, r.Level = match.NotFound, level
	}
	before, near := empty, false
	if r.Code == match.TooFew || r.Code == match.NotFound {
		near = failed.Nodes() != nil
	}
	if near {
		r.Vertex = failed.Vertex()
	}
	if x.terse {
		return r
	}
	if near {
		before = survey.MeasureClosest(v, failed)
	}
	if !v.Empty && r.Code != match.TooLarge {
		if !near {
			before = survey.Measure(v, failed.Shape)
		}
		r.OtherHolder, r.InUse = survey.CountConflicts(failed.Shape)
	}
	after := before
	if r.Code == match.TooFew && (failed.Shape > 0 || failed.Found > 0) {
		after = survey.MeasureFilled(v, failed, near)
	}
	r.Shortages = x.shortages(before, after)
	return r
}

// shortages lists the pools that run short, sorted by type. A pool runs short if some node has too
// little for one slot, or if some node has too little once all slots that fit are laid out. In the
// second case Nodes is 0.
func (x explainer) shortages(before, after solver.Measurement) []match.Shortage {
	var all []match.Shortage
	for i, f := range before.Needs {
		if f.Nodes > 0 || after.Needs[i].Nodes > 0 {
			n := x.problem.Needs[f.Need]
			all = append(all, match.Shortage{Type: n.Type, Unit: n.Unit, Wanted: f.Wanted, MaxOnNode: f.Most(), Nodes: f.Nodes})
		}
	}
	slices.SortFunc(all, func(x, y match.Shortage) int { return strings.Compare(x.Type, y.Type) })
	return all
}

// tooManyIgnored returns the error for a request that ignores more jobs than a match may.
func (p *storeBackend) tooManyIgnored(q *matchState) *match.Refusal {
	shape, g := &q.demand.Shapes[0], p.store.Graph()
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.TooHard, Slot: shape.Label, Level: g.RootType(), Wanted: shape.Count.Min,
		Nodes: int64(g.Size()), WaitingHelps: true, MayNeverFit: true,
	}}
}

// isTooHard reports whether a match ended without a proof because it took too much work.
func isTooHard(err error) bool {
	no, refused := errors.AsType[*match.Refusal](err)
	return refused && no.Reason.Code == match.TooHard
}
