// Package solver places slots on nodes, or proves that they cannot be placed. Its input
// is arrays. It does not know the graph, and of the jobspec it uses only the type Count.
//
// Each of its files uses only the files before it:
//
//	amount.go            how are amounts added and multiplied without overflow?
//	exclusivity.go       which holders have a node, and who may not use it?
//	problem.go           what is to be placed, and on which nodes?
//	meter.go             how much work may a match take?
//	workspace.go         which memory does one layout reuse from the last?
//	layout.go            what is left on a node, and may a shape use it?
//	limits.go            how many more slots do limits allow?
//	chunk.go             what is left on some consecutive nodes, read at once?
//	fill.go              how many slots fit, node by node (first fit)?
//	domain.go            how many slots fit in a domain of a level?
//	solve.go             which algorithms are tried, in which order, and what do they prove?
//	exhaustive.go        is there any placement, limits included?
//	packing.go           which patterns of slots together make up the request?
//	pattern.go           which slots fit together on one node?
//	dual_bound.go        do the prices prove that no placement exists?
//	tabu.go              which node should change its pattern next?
//	branch_and_bound.go  which pattern does each node get, if all are tried?
//	topology.go          which placement satisfies the topology?
//	domain_sets.go       which sets of domains may have room?
//	few_domains.go       how do slots fit in one domain, or in as few as possible?
//	balanced.go          how do slots fit in equal shares?
//	measure.go           which numbers explain why a shape does not fit?
//	fit_counter.go       may the request fit yet, while free amounts change?
package solver

import "github.com/flux-k8s/fluence/pkg/jobspec"

// MaxSlots is the largest number of slots that one problem places. Ranges are filled only up to it.
const MaxSlots = 1 << 20

// A Problem describes the slots to place and the nodes. A position identifies a node: it is an
// index into all slices that are "by position". The caller owns these slices, and the solver
// reads them in place. Between two calls their contents may change, but not their length.
type Problem struct {
	Shapes []Shape
	Needs  []Need
	// Order has the positions of the nodes in the order in which they are to be used.
	Order []int32
	// Room passes over nodes without room. It is nil if every node is to be read.
	Room Room
	// Up has, by position, whether the node and all vertices above it are up.
	Up []bool
	// Exclusivities has, by position, the exclusivity of the node. It
	// is nil if no node can have a conflict with the requester.
	Exclusivities []Exclusivity
	Requester     Requester
	// Constraints evaluates the constraints of the shapes that have Constrained set.
	Constraints Constraints
	Limits      []Limit
	// Topology has the rules for levels, outermost first. Each rule
	// applies inside the domains that the rules before it chose.
	Topology []Level
	// Distance has, by position, how far the node is from the near nodes of
	// the request. It is nil if the request has none. Order is sorted by it.
	Distance []int
}

// A Shape is one slot request.
type Shape struct {
	Label string
	Count jobspec.Count
	// AmountPerSlot has the amount that one slot takes, by index of Problem.Needs; 0 for none.
	AmountPerSlot []int64
	// NeedsInOrder lists the indexes of the needs that the shape has, in the order of the jobspec.
	NeedsInOrder []int
	// Limits are indexes into Problem.Limits: the limits that the shape is subject to.
	Limits []int
	// Constrained is set if the shape has constraints.
	Constrained bool
	// ConstraintSteps is the cost, in steps, of evaluating the constraints on one node.
	ConstraintSteps int
}

// A Need is a type of pool that some shape asks for.
type Need struct {
	Type string
	// Unit is the unit of the amounts, for messages.
	// It is empty if the columns have different units.
	Unit string
	// Columns hold the amounts, with one column per unit. Invariant:
	// a node has an amount in at most one of the columns.
	Columns []*Column
}

// A Column holds the amounts of one type and unit of pool, by position of the
// node; 0 if the node has no such pool. Capacity is the amount that is free
// if only permanent slots are held. Free is the amount that is free now.
type Column struct{ Capacity, Free []int64 }

// Constraints evaluates the constraints of a shape on the node at a position.
// The first result of Allow counts only the constraints that will not change.
// The second counts all constraints, also the temporary ones.
type Constraints interface {
	Allow(shape int, at int32) (always, now bool)
}

// A Room finds the nodes that may have room for a slot, while no slots are placed. Next passes over
// nodes that have no room for a slot of the shape, from index i of the order on. It returns the
// index of the first other node, or end if there is none before, and the cost in steps.
type Room interface {
	Next(v View, s *Shape, i, end int) (next, steps int)
}

// A Limit bounds the number of slots in each of its cells. A cell is a set of nodes; no node is in
// two cells of one limit. The slots of all shapes that are subject to the limit count together.
type Limit struct {
	// CellOf has, by position, the cell of the node; -1 if the limit does not bound the node.
	CellOf []int32
	// Cells is the number of cells.
	Cells int32
	Max   int64
	// maxByCell has the maximum of each cell; nil if it is Max for every cell.
	maxByCell []int64
	// firstCell is the index of the first cell in Workspace.allowances.
	firstCell int32
}

// A Rule is how slots are distributed over the domains of a level.
type Rule int

const (
	// OneDomain puts all slots in one domain.
	OneDomain Rule = iota
	// FewestDomains puts the slots in as few domains as possible.
	FewestDomains
	// Balanced puts equal shares of the slots in as few
	// domains as possible. Shares differ by at most one slot.
	Balanced
)

// A Level is the rule for one level of a topology. The level divides the nodes into domains.
type Level struct {
	Type string
	Rule Rule
	// DomainOf has, by position, the domain of the node; -1 for none.
	DomainOf []int32
	// Names has the name of each domain's vertex.
	Names []string
}

// A View is the state of the cluster that an attempt assumes.
type View struct {
	// Empty assumes that no job holds anything: no node
	// belongs to a holder, and Column.Capacity is free.
	Empty bool
	// Up leaves out the nodes that are down.
	Up bool
	// Now also applies the constraints that hold only at present.
	Now bool
}

// amount returns the amount of a need that the node at a position has in a view.
func (n *Need) amount(v View, at int32) int64 {
	if len(n.Columns) == 1 {
		return n.Columns[0].in(v)[at]
	}
	return n.sum(v, at)
}

// sum returns the sum of a need's columns for the node at a position.
func (n *Need) sum(v View, at int32) int64 {
	have := int64(0)
	for _, c := range n.Columns {
		have = SatAdd(have, c.in(v)[at])
	}
	return have
}

// in returns the amounts in a view.
func (c *Column) in(v View) []int64 {
	if v.Empty {
		return c.Capacity
	}
	return c.Free
}

// allows reports whether the constraints of a shape allow a node in the view.
// The arguments are what Constraints.Allow returns.
func (v View) allows(always, now bool) bool { return now || always && !v.Now }

// conflict returns the reason why the requester may not use the node at a position in a view.
func (p *Problem) conflict(v View, at int32) Conflict {
	if p.Exclusivities == nil || v.Empty {
		return NoConflict
	}
	return p.Exclusivities[at].Conflict(p.Requester)
}

// isOpen reports whether a view allows slots of the requester on the node at a position.
func (p *Problem) isOpen(v View, at int32) bool {
	return (!v.Up || p.Up[at]) && p.conflict(v, at) == NoConflict
}

// Verdicts are based on these views. ViewNow is what fits now. ViewUp is
// what would fit on the nodes that are up if no job held anything. ViewEver
// is what would fit if no job held anything and all nodes were up.
var (
	ViewNow  = View{Up: true, Now: true}
	ViewUp   = View{Empty: true, Up: true}
	ViewEver = View{Empty: true}
)

// Offset returns the index of the shape's first slot if every shape has its
// maximum count. For shape == len(shapes) it returns the total number of slots.
func Offset(shapes []Shape, shape int) int64 {
	n := int64(0)
	for i := range shapes[:shape] {
		n = SatAdd(n, shapes[i].Count.Max)
	}
	return n
}
