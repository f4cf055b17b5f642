// Package solver lays slots out on nodes, or proves that it cannot. It takes arrays: of the graph
// and of the jobspec that they come from it knows nothing, but for the counts of a jobspec.
//
// Its files, each of which uses those before it:
//
//	amount.go            how are amounts added up?
//	exclusivity.go       whose is a node, and whom does that keep away?
//	problem.go           what is to be laid out, and on which nodes?
//	meter.go             how much work may it take?
//	workspace.go         which memory does one layout leave to the next?
//	layout.go            what is left on a node, and may a slot stand there?
//	limits.go            how many more slots do limits allow?
//	fill.go              how many slots fit, node by node?
//	domain.go            what fits in a domain of a level?
//	solve.go             which ways are tried, one after the other, and what do they prove?
//	exhaustive.go            is there any way, limits and all?
//	packing.go           is there any way, limits aside?
//	pattern.go           which slots fit together on a node?
//	dual_bound.go        at which prices is it proven that there is no way?
//	tabu.go              which node had better change its pattern?
//	branch_and_bound.go  which pattern for which node, if all ways are tried?
//	topology.go          where do slots stand as a topology asks for?
//	domain_sets.go       which sets of domains may have room?
//	few_domains.go       in one domain, or in as few as there can be?
//	balanced.go          in equal shares?
//	measure.go           what is in the way, in numbers?
//	fit_counter.go       may there be room yet, while rows change?
package solver

import "github.com/flux-k8s/fluence/pkg/jobspec"

// MaxSlots bounds the slots of one problem. A range that reaches further is filled up to here.
const MaxSlots = 1 << 20

// A Problem is slots of some shapes that are to be laid out on nodes. A node is known by its
// position. What is by position are rows of the caller's, which are read in place and may change
// between two calls, but not in number.
type Problem struct {
	Shapes []Shape
	Needs  []Need
	// Order has the positions of the nodes in the order in which they are to be used.
	Order []int32
	// Up says by position whether the node and all that it stands in are up.
	Up []bool
	// Exclusive says by position whose the node is; nil where that keeps the requester from none.
	Exclusive []Exclusivity
	Requester Requester
	// Constraints are asked for the shapes that have some.
	Constraints Constraints
	Limits      []Limit
	// Topology is what is asked of the levels, each inside of what those before leave open.
	Topology []Level
	// Distance is by position how far the node is from those to stay close to; nil where it does
	// not matter.
	Distance []int
}

// A Shape is one slot request.
type Shape struct {
	Label string
	Count jobspec.Count
	// Each is what one slot takes, by index of the problem's needs; 0 for none.
	Each []int64
	// With lists the needs of the shape in the order of the jobspec.
	With []int
	// Limits are indexes of the problem's.
	Limits []int
	// Constrained says that the problem's constraints keep the shape from some nodes. Conditions is
	// how many steps it counts to see whether they hold on a node.
	Constrained    bool
	ConditionSteps int
}

// A Need is a type of pool that some shape asks for.
type Need struct {
	Type string
	// Unit is the unit of the amounts, for messages. It is empty where units differ.
	Unit string
	// Columns hold its amounts. A node has one in at most one of them.
	Columns []*Column
}

// A Column is what nodes have of one type of pool, by position, and 0 where they have none: the
// most that can ever be free, and what is free now.
type Column struct{ Capacity, Free []int64 }

// Constraints say whether a shape may use the node at a position: for good, and now too.
type Constraints interface {
	Allow(shape int, at int32) (always, now bool)
}

// A Limit bounds how many slots of the shapes that keep it stand in each of its cells.
type Limit struct {
	// CellOf is by position the cell of a node; -1 for a node that is not bounded.
	CellOf []int32
	// Cells is how many there are.
	Cells int32
	Max   int64
	// maxByCell is by cell, where that is not Most for all.
	maxByCell []int64
	// firstCell is where the allowances of its cells begin.
	firstCell int32
}

// A Rule says how slots stand on the domains of a level.
type Rule int

const (
	// OneDomain puts all in one domain.
	OneDomain Rule = iota
	// FewestDomains puts them in as few domains as there can be.
	FewestDomains
	// Balanced puts them in equal shares, and in as few domains as there can be.
	Balanced
)

// A Level is what a topology asks for of one level, which divides the nodes into domains.
type Level struct {
	Type string
	Rule Rule
	// DomainOf is by position the domain of a node; -1 for none.
	DomainOf []int32
	// Names are by domain.
	Names []string
}

// A View says what an attempt counts on.
type View struct {
	// Empty: no node belongs to a holder and pools hold the most that can ever be free, as if no job
	// held anything.
	Empty bool
	// Up: nodes that are down are left out.
	Up bool
	// Now: constraints that hold for the present count.
	Now bool
}

// The views that verdicts are made of.
var (
	ViewNow  = View{Up: true, Now: true}
	ViewUp   = View{Empty: true, Up: true}
	ViewEver = View{Empty: true}
)

// Offset returns where the slots of a shape begin among the most slots of all, or for the number
// of shapes where all end.
func Offset(shapes []Shape, shape int) int64 {
	n := int64(0)
	for i := range shapes[:shape] {
		n = SatAdd(n, shapes[i].Count.Max)
	}
	return n
}
