package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

const (
	// displaceSteps is the maximum number of steps of a search. It searches units that do less harm than those
	// of the first placement.
	displaceSteps = 1 << 24
	// maxDomains is the maximum number of domains in which a displacement is searched for, if all slots have
	// to be in one.
	maxDomains = 4
)

// A displacement searches for the units that have to go for a request, without the lock.
type displacement struct {
	units   []match.Unit
	held    *store.Occupancy
	scale   *harmScale
	overlay *overlay
	// all are the units whose end may help, the most important first.
	all []int32
	// tried reports whether it is known that the request does not fit without an end.
	tried bool
	// displaced are the units that were found, in ascending order.
	displaced []int
}

// newDisplacement returns the search for the units that have to go for a request.
func newDisplacement(units []match.Unit, held *store.Occupancy, tried bool) *displacement {
	x := &displacement{units: units, held: held, scale: newHarmScale(units, held.Units), tried: tried}
	for u := range held.Units {
		if len(held.Units[u].Parts) > 0 {
			x.all = append(x.all, int32(u))
		}
	}
	slices.SortFunc(x.all, func(a, b int32) int { return x.scale.compareUnits(b, a) })
	return x
}

// refs lists the slots of the units that were found.
func (x *displacement) refs() []match.SlotRef {
	var refs []match.SlotRef
	for _, u := range x.displaced {
		refs = append(refs, x.units[u].Slots...)
	}
	return refs
}

// inexact lists some of the units that were found, the most important first, at most maxKept. On a node of each of them
// the ends of several slots together free another amount than each alone.
func (x *displacement) inexact() []int {
	var units []int
	for _, u := range x.all {
		emptied := func(p store.UnitPart) bool { return x.held.Nodes[p.Node].Emptied != nil }
		if slices.ContainsFunc(x.held.Units[u].Parts, emptied) && slices.Contains(x.displaced, int(u)) {
			if units = append(units, int(u)); len(units) == maxKept {
				break
			}
		}
	}
	return units
}

// searchDisplacing searches for a placement, and for the units that have to go for it. Its error is the
// error of the match.
func (s *unlockedSearch) searchDisplacing(ctx context.Context) error {
	x, w := s.displacement, s.workspace
	x.overlay = newOverlay(x.held, s.demand.Needs, s.snapshot)
	reserve := min(lockedSteps, w.Remain()/2)

	// 1. Take free room if there is enough.
	var b problemBuilder
	l, problem := s.newLayout(&b)
	if !x.tried {
		if o, _ := l.SolveMax(solver.ViewNow); o == solver.Placed {
			s.placement = slices.Clone(l.Runs())
			return nil
		}
	}

	// 2. Refuse if the request does not fit even without all units.
	w.Spend(len(x.all) * solver.SortSteps)
	for _, u := range x.all {
		w.Spend(x.overlay.steps(u))
		x.overlay.remove(u)
	}
	if o, failed := l.SolveMin(solver.ViewNow); o != solver.Placed {
		if err := ctx.Err(); err != nil {
			return err
		}
		no := explainer{l, problem, s.rootType, s.terse}.refusal(solver.ViewNow, o, failed)
		if err := ctx.Err(); err != nil {
			return err
		}
		no.Reason.AllDisplaced = errors.Is(no, match.ErrBusy)
		return no
	}

	// 3. Begin with the units that stand in the way of this placement. kube-scheduler chooses so.
	s.placement = slices.Clone(l.Runs())
	first := s.giveBack(problem, x.all)
	slices.Sort(first)
	best := first

	// 4. Search for units that do less harm.
	left := w.Remain()
	w.Begin(ctx, max(0, min(displaceSteps, left-reserve)))
	x.leaveOut(nil)
	displacers := s.displacers(l, problem)
	for _, d := range displacers {
		d.search()
	}
	displacers = slices.DeleteFunc(displacers, func(d *displacer) bool { return !d.found })
	slices.SortStableFunc(displacers, func(a, b *displacer) int { return x.scale.compare(a.best, b.best) })
	for _, d := range displacers[:min(maxDomains, len(displacers))] {
		d.refine(s.exhaustiveUnits)
		if x.scale.compare(d.best, best) < 0 {
			best = d.best
		}
	}
	x.overlay.changed = nil
	if err := ctx.Err(); err != nil {
		return err
	}

	// 5. Place the request while these units are away. Then put back each unit that is not in the way.
	w.Begin(ctx, max(reserve, left-displaceSteps))
	x.leaveOut(best)
	l, problem = s.newLayout(&b)
	if o, _ := l.SolveMax(solver.ViewNow); o == solver.Placed {
		s.placement = slices.Clone(l.Runs())
		slices.SortFunc(best, func(a, b int32) int { return x.scale.compareUnits(b, a) })
		best = s.giveBack(problem, best)
	} else {
		best = first
	}
	for _, u := range best {
		x.displaced = append(x.displaced, int(u))
	}
	slices.Sort(x.displaced)
	return ctx.Err()
}

// newLayout returns a layout for the snapshot.
func (s *unlockedSearch) newLayout(b *problemBuilder) (*solver.Layout, *solver.Problem) {
	problem := b.build(s.workspace, s.demand, &s.snapshot.Graph, s.order, s.distance, s.requester)
	return solver.New(s.workspace, problem), problem
}

// giveBack puts back the units that do not stand in the way of the placement. It returns the others.
func (s *unlockedSearch) giveBack(problem *solver.Problem, units []int32) []int32 {
	o := s.displacement.overlay
	return o.place(s.placement, problem.Shapes, problem.Requester).giveBack(units)
}

// leaveOut removes the units of a set, and puts back all others.
func (x *displacement) leaveOut(set []int32) {
	in := make([]bool, len(x.units))
	for _, u := range set {
		in[u] = true
	}
	for _, u := range x.all {
		switch {
		case in[u] && !x.overlay.gone[u]:
			x.overlay.remove(u)
		case !in[u] && x.overlay.gone[u]:
			x.overlay.putBack(u)
		}
	}
}

// displacers returns a displacer for each set of nodes that may have all slots: the domains of the first
// level if all slots have to be in one of them, and all nodes otherwise.
func (s *unlockedSearch) displacers(l *solver.Layout, problem *solver.Problem) []*displacer {
	x := s.displacement
	unitsOn := make([][]int32, len(x.held.Nodes))
	for _, u := range slices.Backward(x.all) {
		for _, p := range x.held.Units[u].Parts {
			unitsOn[p.Node] = append(unitsOn[p.Node], u)
		}
	}
	regions, level := [][]int32{problem.Order}, 0
	if len(problem.Topology) > 0 && problem.Topology[0].Rule == solver.OneDomain {
		first := &problem.Topology[0]
		regions, level = make([][]int32, len(first.Names)), 1
		for _, at := range problem.Order {
			if c := first.DomainOf[at]; c >= 0 {
				regions[c] = append(regions[c], at)
			}
		}
	}
	var all []*displacer
	domainOf := make([]int32, len(problem.Up))
	for i := range domainOf {
		domainOf[i] = -1
	}
	for i, order := range regions {
		for _, at := range order {
			domainOf[at] = int32(i)
		}
	}
	for _, order := range regions {
		part := solver.Within(l, order, level)
		counter := part.FitCounter()
		if counter == nil {
			break
		}
		all = append(all, &displacer{
			overlay: x.overlay, scale: x.scale, counter: counter, layout: l, problem: problem, order: order, level: level,
			inside: make([]bool, len(x.held.Nodes)), unitsOn: unitsOn, forbidden: -1, alone: make(map[int32]int64),
		})
	}
	for n := range x.held.Nodes {
		if c := domainOf[x.held.Nodes[n].At]; c >= 0 && int(c) < len(all) {
			all[c].inside[n] = true
		}
	}
	for _, u := range x.all {
		last := int32(-1)
		var seen []int32
		for _, p := range x.held.Units[u].Parts {
			c := domainOf[x.held.Nodes[p.Node].At]
			if c < 0 || int(c) >= len(all) || c == last || slices.Contains(seen, c) {
				continue
			}
			last, seen = c, append(seen, c)
			all[c].units = append(all[c].units, u)
		}
	}
	return all
}
