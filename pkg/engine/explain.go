package engine

import (
	"errors"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A refusing puts into words why no place was found for a problem.
type explainer struct {
	layout   *solver.Layout
	problem  *solver.Problem
	rootType string // the type of the root vertex
}

// explainer returns the words for a layout of the match at work.
func (p *storeBackend) explainer(l *solver.Layout) explainer {
	return explainer{l, &p.binding.problem, p.store.Graph().RootType()}
}

// refusal makes the error for a request that an attempt found no room for.
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

// tooHard makes the error for a request that the meter's steps are too few for.
func (x explainer) tooHard(failed *solver.Shortfall) *match.Refusal {
	shape := &x.problem.Shapes[failed.Shape]
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.TooHard, Slot: shape.Label, Level: x.rootType, Wanted: shape.Count.Min,
		Nodes: int64(x.layout.Survey().Nodes()), WaitingHelps: true, MayNeverFit: true,
	}}
}

// reason puts a failed attempt into numbers.
func (x explainer) reason(v solver.View, o solver.Outcome, failed *solver.Shortfall) match.Reason {
	shape, survey, level := &x.problem.Shapes[failed.Shape], x.layout.Survey(), x.rootType
	if failed.Level != "" {
		level = failed.Level
	}
	r := match.Reason{
		Slot: shape.Label, Wanted: shape.Count.Min, Found: failed.Found,
		Nodes: int64(survey.Nodes()),
	}
	empty := survey.Measure(solver.View{Empty: true, Up: v.Up, Now: v.Now}, failed.Shape)
	r.Down, r.Excluded = survey.CountUnusable(failed.Shape, v.Now)
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
		before = survey.MeasureClosest(v, failed)
	}
	if !v.Empty && r.Code != match.TooLarge {
		if !near {
			before = survey.Measure(v, failed.Shape)
		}
		r.OtherHolder, r.InUse = survey.CountConflicts(failed.Shape)
	}
	after := before
	if r.Code == match.TooFew {
		after = survey.MeasureFilled(v, failed, near)
	}
	r.Shortages = x.shortages(before, after)
	return r
}

// shortages names what runs short, sorted by type: what some node has too little of with nothing
// laid out, or once as many slots were laid out as there is room for. Of the latter Nodes is 0.
func (x explainer) shortages(before, after solver.Measurement) []match.Shortage {
	var all []match.Shortage
	for i, f := range before.Needs {
		if f.Nodes > 0 || after.Needs[i].Nodes > 0 {
			n := x.problem.Needs[f.Need]
			all = append(all, match.Shortage{Type: n.Type, Unit: n.Unit, Wanted: f.Wanted, MaxFree: f.Max, Nodes: f.Nodes})
		}
	}
	slices.SortFunc(all, func(x, y match.Shortage) int { return strings.Compare(x.Type, y.Type) })
	return all
}

// tooManyIgnored makes the error for a request to ignore more than a match may.
func (p *storeBackend) tooManyIgnored(q *matchState) *match.Refusal {
	shape, g := &q.demand.Shapes[0], p.store.Graph()
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.TooHard, Slot: shape.Label, Level: g.RootType(), Wanted: shape.Count.Min,
		Nodes: int64(g.Size()), WaitingHelps: true, MayNeverFit: true,
	}}
}

// isTooHard says that a match ended without a proof, since it took too much work.
func isTooHard(err error) bool {
	no, refused := errors.AsType[*match.Refusal](err)
	return refused && no.Reason.Code == match.TooHard
}
