package engine

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// resolveColumns finds the graph's columns for each need of a demand. It fails if the graph counts
// a pool in another unit, or if the graph lacks a level of the topology.
func resolveColumns(d *demand.Demand, g *store.Graph) error {
	for i := range d.Needs {
		n, asked := &d.Needs[i], d.Units[i]
		// An earlier try may have set them.
		n.Columns, n.Unit = nil, asked
		all, other, unit := 0, "", ""
		g.Columns(n.Type, func(c *solver.Column, counted string) {
			if all++; all == 1 {
				other = counted
			}
			if asked == "" || counted == "" || counted == asked {
				n.Columns, unit = append(n.Columns, c), counted
			}
		})
		switch {
		case all > 0 && len(n.Columns) == 0:
			return invalid("%s is requested in unit %q, but the graph counts it in unit %q", n.Type, asked, other)
		case len(n.Columns) == 1 && asked == "":
			n.Unit = unit
		}
	}
	return checkLevels(d, g)
}

// checkLevels fails if the graph lacks a level of the topology.
func checkLevels(d *demand.Demand, g *store.Graph) error {
	if g.Empty() {
		return nil
	}
	for _, x := range d.Levels() {
		if len(g.Partition(x.Type).Names) == 0 {
			return invalid("topology: the graph has no level %q; its levels are: %s", x.Type, strings.Join(g.LevelTypes(), ", "))
		}
	}
	return nil
}

// requesterOf returns the requester of a request: its holder, and whether it wants whole nodes.
func requesterOf(r *match.Request) solver.Requester {
	return solver.Requester{Holder: r.Holder, Exclusive: match.IsExclusive(r.Policy)}
}

// A problemBuilder builds the problem of a demand in a graph. It keeps its memory from one match to
// the next.
type problemBuilder struct {
	problem   solver.Problem
	demand    *demand.Demand
	graph     *store.Graph
	hostCells []int32 // memory for Limit.CellOf of host lists
	// hosts has the rules for hosts, by shape. An element is nil before its first use.
	hosts []*hostFilter
}

// maxLimitCells is the maximum number of cells of all limits of one request. A cell takes up to 20
// bytes.
const maxLimitCells = 1 << 22

// build builds the problem of a demand in a graph. The caller must have called resolveColumns with
// both. If the limits have too many cells, the problem has no limits, and no steps are left.
func (b *problemBuilder) build(w *solver.Workspace, d *demand.Demand, g *store.Graph, order []int32, distance []int, who solver.Requester) *solver.Problem {
	b.demand, b.graph, b.hosts = d, g, make([]*hostFilter, len(d.Shapes))
	b.problem = solver.Problem{
		Shapes: d.Shapes, Needs: d.Needs, Order: order, Up: g.Up(), Exclusivities: g.ExclusivityFor(who), Requester: who,
		Constraints: b, Limits: b.limits(w), Topology: d.Levels(), Distance: distance,
	}
	for i := range b.problem.Topology {
		l := &b.problem.Topology[i]
		p := g.Partition(l.Type)
		l.DomainOf, l.Names = p.DomainOf, p.Names
	}
	return &b.problem
}

// refreshExclusive updates the holders of the nodes in the problem.
func (b *problemBuilder) refreshExclusive() {
	b.problem.Exclusivities = b.graph.ExclusivityFor(b.problem.Requester)
}

// Allow implements solver.Constraints.
func (b *problemBuilder) Allow(shape int, at int32) (always, now bool) {
	f := b.hosts[shape]
	if f == nil {
		f = newHostFilter(b.demand.HostRules(shape))
		b.hosts[shape] = f
	}
	if !f.isResolved(b.graph) {
		return b.demand.Allow(shape, b.graph.NodeVertex(at))
	}
	always, now = f.always.has(at), f.now.has(at)
	if always && b.demand.HasConditions(shape) {
		permanent, current := b.demand.AllowByConditions(shape, b.graph.NodeVertex(at))
		always, now = permanent, now && current
	}
	return always, now
}

// limits resolves the demand's limits: it finds the cell of every node.
func (b *problemBuilder) limits(w *solver.Workspace) []solver.Limit {
	if len(b.demand.Limits) == 0 {
		return nil
	}
	nodes, lists, cells := b.graph.Size(), 0, len(b.demand.Limits)
	for k := range b.demand.Limits {
		if l := &b.demand.Limits[k]; l.CellOf != nil {
			if cells += len(l.Hosts); l.SameHosts == k {
				lists++
				cells += nodes
			}
		} else {
			cells += len(b.graph.Partition(l.Level).Names)
		}
	}
	if cells > maxLimitCells || !w.Charge(cells+hostSteps*lists*nodes) {
		w.Exhaust()
		return nil
	}
	if n := lists * nodes; cap(b.hostCells) < n {
		b.hostCells = make([]int32, n)
	}
	var limits []solver.Limit
	free := b.hostCells[:lists*nodes]
	for k := range b.demand.Limits {
		l := &b.demand.Limits[k]
		x := solver.Limit{Max: l.Max}
		switch {
		case l.CellOf == nil:
			p := b.graph.Partition(l.Level)
			x.CellOf, x.Cells = p.DomainOf, int32(len(p.Names))
		case l.SameHosts != k:
			x.CellOf, x.Cells = limits[l.SameHosts].CellOf, int32(len(l.Hosts))
		default:
			x.CellOf, free = free[:nodes:nodes], free[nodes:]
			x.Cells = int32(len(l.Hosts))
			for at := range x.CellOf {
				x.CellOf[at] = -1
				if cell, there := l.CellOf[b.graph.NodeVertex(int32(at)).Name]; there {
					x.CellOf[at] = cell
				}
			}
		}
		limits = append(limits, x)
	}
	return limits
}

// tidy drops the demand, and memory that has become too large to keep.
func (b *problemBuilder) tidy() {
	b.demand, b.hosts, b.problem = nil, nil, solver.Problem{}
	if 4*cap(b.hostCells) > solver.KeptBytes {
		b.hostCells = nil
	}
}
