// Package demand reads a jobspec into a solver's problem. What it leaves open is to be found in a
// graph, which it does not know.
//
// Its files, each of which uses those before it:
//
//	demand.go    which slots are asked for?
//	limits.go    how many of them may stand together?
//	attributes.go    which nodes may they use?
//	topology.go  how do all of them stand together?
package demand

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// conditionSteps is how many steps it counts to look up in one part of a constraint whether it
// holds on a node.
const conditionSteps = 8

// A Demand is what a jobspec asks for, whatever the graph: what a solver's problem takes over as it
// is, and what is still to be found in a graph.
type Demand struct {
	Shapes []solver.Shape
	// Needs have neither columns nor units yet. Units are by need what it is asked for in, "" for
	// whatever the graph counts in.
	Needs []solver.Need
	Units []string
	// Limits are to be bound to the nodes of a graph.
	Limits []Limit
	// Topology says how the slots of all shapes together stand; nil where that does
	// not matter.
	Topology *jobspec.Topology
	// constraints are by shape.
	constraints []constraints
	// limitByName has the index in Limits of each limit that has a name, by the name. Lists has the index
	// of the first limit of each text of host lists. Both are nil where there are no limits.
	limitByName, limitByHosts map[string]int
}

// A narrowing is what keeps a shape to some nodes: the conditions that hold for good, and those
// for the present too.
type constraints struct{ always, now []jobspec.Condition }

// Read reads what a jobspec asks for. It fails with match.ErrInvalid, naming
// what is wrong or what this engine does not take.
func Read(js *jobspec.Jobspec) (*Demand, error) {
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
	a := &Demand{
		Shapes: make([]solver.Shape, len(js.Resources)), constraints: make([]constraints, len(js.Resources)),
	}
	types := min(len(js.Resources[0].With), match.MaxResourceTypes) // and mostly no other
	a.Needs, a.Units = make([]solver.Need, 0, types), make([]string, 0, types)
	labels := make(map[string]int, len(js.Resources))
	least := int64(0)
	for i := range js.Resources {
		s := &a.Shapes[i]
		if err := a.readSlot(s, &js.Resources[i]); err != nil {
			return nil, err
		}
		if _, twice := labels[s.Label]; twice {
			return nil, invalid("two slots have the label %q", s.Label)
		}
		labels[s.Label] = i
		if js.Attributes.System.Constraints != nil {
			a.constraints[i].always = append(a.constraints[i].always, all)
			s.Constrained = true
			s.ConditionSteps += conditionSteps * js.Attributes.System.Constraints.Leaves()
		}
		least = solver.SatAdd(least, s.Count.Min)
	}
	if least > solver.MaxSlots {
		return nil, invalid("%d slots are asked for, more than %d", least, solver.MaxSlots)
	}
	if attributes := js.Attributes.System.Fluence; len(attributes) > 0 {
		for _, label := range slices.Sorted(maps.Keys(attributes)) {
			at, there := labels[label]
			if !there {
				return nil, invalid("attributes.system.fluence: no slot has the label %q", label)
			}
			if err := a.readAttributes(at, attributes[label]); err != nil {
				return nil, err
			}
		}
		if err := a.readTopology(attributes); err != nil {
			return nil, err
		}
	}
	for i := range a.Shapes {
		s := &a.Shapes[i]
		s.Each = append(s.Each, make([]int64, len(a.Needs)-len(s.Each))...)
	}
	return a, nil
}

// readSlot reads one slot request.
func (a *Demand) readSlot(s *solver.Shape, r *jobspec.Resource) error {
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
	s.Label, s.Count = r.Label, r.Count
	for i := range r.With {
		if err := a.readPool(s, &r.With[i]); err != nil {
			return err
		}
	}
	return nil
}

// readPool reads what a slot takes of one type of pool.
func (a *Demand) readPool(s *solver.Shape, r *jobspec.Resource) error {
	switch {
	case r.Type == "" || r.Type == jobspec.SlotType || r.Type == resource.TypeNode || r.Type == resource.TypeCluster:
		return invalid("slot %q holds %q, which is no pool of a node", s.Label, r.Type)
	case len(r.With) > 0:
		return invalid("slot %q: %s holds %s: this engine takes pools only", s.Label, r.Type, r.With[0].Type)
	case r.Exclusive != nil && *r.Exclusive:
		return invalid("slot %q: %s is exclusive, which this engine does not take", s.Label, r.Type)
	case r.Count.Min != r.Count.Max:
		return invalid("slot %q: %s is a range from %d to %d: this engine takes amounts only", s.Label, r.Type, r.Count.Min, r.Count.Max)
	case r.Count.Min < 1:
		return invalid("slot %q: %s: %d is no amount", s.Label, r.Type, r.Count.Min)
	}
	at := slices.IndexFunc(a.Needs, func(n solver.Need) bool { return n.Type == r.Type })
	if at < 0 {
		if at = len(a.Needs); at == match.MaxResourceTypes {
			return invalid("slot %q asks for %s: more than %d types of pools in one request", s.Label, r.Type, match.MaxResourceTypes)
		}
		a.Needs, a.Units = append(a.Needs, solver.Need{Type: r.Type}), append(a.Units, "")
	}
	unit := &a.Units[at]
	switch {
	case slices.Contains(s.With, at):
		return invalid("slot %q asks for %s twice", s.Label, r.Type)
	case *unit == "":
		*unit = r.Unit
	case r.Unit != "" && r.Unit != *unit:
		return invalid("slot %q: %s is asked for in %q and in %q", s.Label, r.Type, *unit, r.Unit)
	}
	s.Each = append(s.Each, make([]int64, max(0, at+1-len(s.Each)))...)
	s.Each[at] = r.Count.Min
	s.With = append(s.With, at)
	return nil
}

// CheckKeys fails for keys that do not fit the slots.
func (a *Demand) CheckKeys(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if most := solver.Offset(a.Shapes, len(a.Shapes)); int64(len(keys)) != most {
		return invalid("%d keys for %d slots", len(keys), most)
	}
	seen := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		if _, ok := seen[k]; ok {
			return invalid("two slots have the key %q", k)
		}
		seen[k] = struct{}{}
	}
	return nil
}

// Allow says whether the constraints of a shape hold on a node: those for good, and all.
func (a *Demand) Allow(shape int, about *resource.Vertex) (always, now bool) {
	n := &a.constraints[shape]
	always = holds(n.always, about)
	return always, always && holds(n.now, about)
}

func holds(all []jobspec.Condition, about *resource.Vertex) bool {
	for _, c := range all {
		if !c(about.Name, about.Rank, about.Properties) {
			return false
		}
	}
	return true
}

// WithoutLimits returns the demand without what was heeded when a place was found for it.
func (a *Demand) WithoutLimits() *Demand {
	part := *a
	part.Limits, part.Topology = nil, nil
	part.Shapes = slices.Clone(a.Shapes)
	for i := range part.Shapes {
		part.Shapes[i].Limits = nil
	}
	return &part
}

// invalid is the error for arguments that are wrong.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
