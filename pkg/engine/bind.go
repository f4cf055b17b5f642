package engine

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// find finds the columns of the graph that hold what is asked for. It fails for
// an amount in a unit that the graph does not count in, and for a topology of a
// level that it does not have.
func find(d *demand.Demand, g *store.Graph) error {
	for i := range d.Needs {
		n, asked := &d.Needs[i], d.Units[i]
		n.Columns, n.Unit = nil, asked // without those of an earlier try
		all, other, unit := 0, "", ""
		g.Columns(n.Kind, func(c *solver.Column, counted string) {
			if all++; all == 1 {
				other = counted
			}
			if asked == "" || counted == "" || counted == asked {
				n.Columns, unit = append(n.Columns, c), counted
			}
		})
		switch {
		case all > 0 && len(n.Columns) == 0:
			return invalid("%s is asked for in %q, the graph counts it in %q", n.Kind, asked, other)
		case len(n.Columns) == 1 && asked == "":
			n.Unit = unit
		}
	}
	return findLevels(d, g)
}

// findLevels fails for a topology of a level that the graph does not have.
func findLevels(d *demand.Demand, g *store.Graph) error {
	if g.Empty() {
		return nil
	}
	for _, x := range d.Levels() {
		if len(g.Partition(x.Kind).Names) == 0 {
			return invalid("topology: the graph has no level %q; there are %s", x.Kind, strings.Join(g.Kinds(), ", "))
		}
	}
	return nil
}

// requesterOf returns the one for whom a request is made.
func requesterOf(r *match.Request) solver.Requester {
	return solver.Requester{Holder: r.Holder, Whole: match.TakesWhole(r.Policy)}
}

// A binding is a demand that is bound to a graph, and memory that one match leaves to the next.
type binding struct {
	problem solver.Problem
	demand  *demand.Demand
	graph   *store.Graph
	inside  []int32 // the cells of hosts
}

// maxCells is how many cells the limits of one request may have in all: up to 20 bytes each.
const maxCells = 1 << 22

// bind makes the problem of a demand in a graph, which has been found there. Where its limits have
// too many cells there are none of them, and no steps are left.
func (b *binding) bind(w *solver.Workspace, d *demand.Demand, g *store.Graph, order []int32, distance []int, who solver.Requester) *solver.Problem {
	b.demand, b.graph = d, g
	b.problem = solver.Problem{
		Shapes: d.Shapes, Needs: d.Needs, Order: order, Up: g.Up(), Exclusive: g.Exclusive(who), Requester: who,
		Constraints: b, Limits: b.limits(w), Topology: d.Levels(), Distance: distance,
	}
	for i := range b.problem.Topology {
		l := &b.problem.Topology[i]
		p := g.Partition(l.Kind)
		l.Of, l.Names = p.Of, p.Names
	}
	return &b.problem
}

// lookAgain has the problem see whose the nodes are now.
func (b *binding) lookAgain() { b.problem.Exclusive = b.graph.Exclusive(b.problem.Requester) }

// Hold implements solver.Constraints.
func (b *binding) Hold(shape int, at int32) (always, now bool) {
	return b.demand.Hold(shape, b.graph.About(at))
}

// limits finds the cells of the limits.
func (b *binding) limits(w *solver.Workspace) []solver.Limit {
	if len(b.demand.Limits) == 0 {
		return nil
	}
	nodes, lists, cells := b.graph.Size(), 0, len(b.demand.Limits)
	for k := range b.demand.Limits {
		if l := &b.demand.Limits[k]; l.Cells != nil {
			if cells += len(l.Hosts); l.Like == k {
				lists++
				cells += nodes
			}
		} else {
			cells += len(b.graph.Partition(l.Kind).Names)
		}
	}
	if cells > maxCells || !w.Charge(cells+hostSteps*lists*nodes) {
		w.Exhaust()
		return nil
	}
	if n := lists * nodes; cap(b.inside) < n {
		b.inside = make([]int32, n)
	}
	var limits []solver.Limit
	free := b.inside[:lists*nodes]
	for k := range b.demand.Limits {
		l := &b.demand.Limits[k]
		x := solver.Limit{Most: l.Most}
		switch {
		case l.Cells == nil:
			p := b.graph.Partition(l.Kind)
			x.Of, x.Cells = p.Of, int32(len(p.Names))
		case l.Like != k:
			x.Of, x.Cells = limits[l.Like].Of, int32(len(l.Hosts))
		default:
			x.Of, free = free[:nodes:nodes], free[nodes:]
			x.Cells = int32(len(l.Hosts))
			for at := range x.Of {
				x.Of[at] = -1
				if cell, there := l.Cells[b.graph.About(int32(at)).Name]; there {
					x.Of[at] = cell
				}
			}
		}
		limits = append(limits, x)
	}
	return limits
}

// tidy lets go of what one match needed much of, and of its demand.
func (b *binding) tidy() {
	b.demand, b.problem = nil, solver.Problem{}
	if 4*cap(b.inside) > solver.KeptRoom {
		b.inside = nil
	}
}
