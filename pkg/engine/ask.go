package engine

import (
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// maxSlots bounds the slots of one request. A request that needs more is
// match.ErrInvalid; a range that reaches further is filled up to here.
const maxSlots = 1 << 20

// conditionSteps is how many steps it counts to look up in one part of a constraint whether it
// holds on a node.
const conditionSteps = 8

// An ask is a request made ready for the matcher.
type ask struct {
	needs  []need
	shapes []shape
	limits []limit
	// names are the indexes of the limits that have one, and lists those of the first limits of
	// each lists of hosts.
	names, lists map[string]int
	// limited says that a shape has limits, so that nodes of equal room are not
	// alike.
	limited bool
	// topology says how the slots of all shapes together stand; nil where that does
	// not matter.
	topology *jobspec.Topology
}

// A need is a type of pool that some shape asks for.
type need struct {
	kind string
	unit string // as asked for, "" for whatever the graph counts in
	// counted is the unit to show: the graph's, if it has just one.
	counted string
	// columns are the graph's that count in the unit.
	columns []*column
}

// A shape is one slot request.
type shape struct {
	label string
	count jobspec.Count
	// each is what one slot takes, by index of the ask's needs; 0 for none.
	each []int64
	// with lists the needs of the shape in the order of the jobspec.
	with []int
	// always hold for good, now for the present too; conditions is how many steps it counts to
	// see whether they hold on a node.
	always, now []jobspec.Condition
	conditions  int
	// limits are indexes of the ask's.
	limits []int
}

// readAsk reads what a jobspec asks for. It fails with match.ErrInvalid, naming
// what is wrong or what this engine does not take.
func readAsk(js *jobspec.Jobspec) (*ask, error) {
	if js == nil {
		return nil, invalid("no jobspec")
	}
	if len(js.Resources) == 0 {
		return nil, invalid("a jobspec without resources")
	}
	all, err := js.Attributes.System.Constraints.Compile()
	if err != nil {
		return nil, invalid("attributes.system.constraints: %w", err)
	}
	a := &ask{shapes: make([]shape, len(js.Resources)), names: make(map[string]int), lists: make(map[string]int)}
	labels := make(map[string]int, len(js.Resources))
	least := int64(0)
	for i := range js.Resources {
		s := &a.shapes[i]
		if err := a.readSlot(s, &js.Resources[i]); err != nil {
			return nil, err
		}
		if _, twice := labels[s.label]; twice {
			return nil, invalid("two slots have the label %q", s.label)
		}
		labels[s.label] = i
		if js.Attributes.System.Constraints != nil {
			s.always = append(s.always, all)
			s.conditions += conditionSteps * js.Attributes.System.Constraints.Leaves()
		}
		least = plus(least, s.count.Min)
	}
	if least > maxSlots {
		return nil, invalid("%d slots are asked for, more than %d", least, maxSlots)
	}
	if about := js.Attributes.System.Fluence; len(about) > 0 {
		for _, label := range slices.Sorted(maps.Keys(about)) {
			at, there := labels[label]
			if !there {
				return nil, invalid("attributes.system.fluence: no slot has the label %q", label)
			}
			if err := a.narrow(&a.shapes[at], about[label]); err != nil {
				return nil, err
			}
		}
		if err := a.readTopology(about); err != nil {
			return nil, err
		}
	}
	for i := range a.shapes {
		s := &a.shapes[i]
		s.each = append(s.each, make([]int64, len(a.needs)-len(s.each))...)
	}
	return a, nil
}

// readSlot reads one slot request.
func (a *ask) readSlot(s *shape, r *jobspec.Resource) error {
	switch {
	case r.Type != jobspec.SlotType:
		return invalid("%q at the top of the jobspec: this engine takes slots only", r.Type)
	case r.Label == "":
		return invalid("a slot without a label")
	case r.Exclusive != nil && *r.Exclusive:
		return invalid("slot %q is exclusive, which this engine does not take", r.Label)
	case len(r.With) == 0:
		return invalid("slot %q asks for nothing", r.Label)
	}
	if err := r.Count.Validate(); err != nil {
		return invalid("slot %q: count: %w", r.Label, err)
	}
	if r.Count.Min < 1 {
		return invalid("slot %q: count: %d is no number of slots", r.Label, r.Count.Min)
	}
	s.label, s.count = r.Label, r.Count
	for i := range r.With {
		if err := a.readPool(s, &r.With[i]); err != nil {
			return err
		}
	}
	return nil
}

// readPool reads what a slot takes of one type of pool.
func (a *ask) readPool(s *shape, r *jobspec.Resource) error {
	switch {
	case r.Type == "" || r.Type == jobspec.SlotType || r.Type == resource.TypeNode || r.Type == resource.TypeCluster:
		return invalid("slot %q holds %q, which is no pool of a node", s.label, r.Type)
	case len(r.With) > 0:
		return invalid("slot %q: %s holds %s: this engine takes pools only", s.label, r.Type, r.With[0].Type)
	case r.Exclusive != nil && *r.Exclusive:
		return invalid("slot %q: %s is exclusive, which this engine does not take", s.label, r.Type)
	case r.Count.Min != r.Count.Max:
		return invalid("slot %q: %s is a range from %d to %d: this engine takes amounts only", s.label, r.Type, r.Count.Min, r.Count.Max)
	case r.Count.Min < 1:
		return invalid("slot %q: %s: %d is no amount", s.label, r.Type, r.Count.Min)
	}
	at := slices.IndexFunc(a.needs, func(n need) bool { return n.kind == r.Type })
	if at < 0 {
		if at = len(a.needs); at == match.MaxKinds {
			return invalid("slot %q asks for %s: more than %d types of pools in one request", s.label, r.Type, match.MaxKinds)
		}
		a.needs = append(a.needs, need{kind: r.Type})
	}
	n := &a.needs[at]
	switch {
	case slices.Contains(s.with, at):
		return invalid("slot %q asks for %s twice", s.label, r.Type)
	case n.unit == "":
		n.unit = r.Unit
	case r.Unit != "" && r.Unit != n.unit:
		return invalid("slot %q: %s is asked for in %q and in %q", s.label, r.Type, n.unit, r.Unit)
	}
	s.each = append(s.each, make([]int64, max(0, at+1-len(s.each)))...)
	s.each[at] = r.Count.Min
	s.with = append(s.with, at)
	return nil
}

// find finds the columns of the graph that hold what is asked for. It fails for
// an amount in a unit that the graph does not count in, and for a topology of a
// level that it does not have.
func (a *ask) find(g *graph) error {
	c := &g.columns
	for i := range a.needs {
		n := &a.needs[i]
		n.columns = nil // those of an earlier try
		n.counted = n.unit
		of := c.byKind[n.kind]
		for _, col := range of {
			if n.unit == "" || col.unit == "" || col.unit == n.unit {
				n.columns = append(n.columns, col)
			}
		}
		switch {
		case len(of) > 0 && len(n.columns) == 0:
			return invalid("%s is asked for in %q, the graph counts it in %q", n.kind, n.unit, of[0].unit)
		case len(n.columns) == 1 && n.unit == "":
			n.counted = n.columns[0].unit
		}
	}
	return a.findLevels(g)
}
