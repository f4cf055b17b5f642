// Package demand translates a jobspec into the parts of a solver's problem that do not depend on a
// graph. Package engine adds what depends on the graph: columns, the nodes of limits, and domains.
//
// Its files, listed so that a file mostly uses those above it:
//
//	hosts.go        on which hosts may a slot be, by their names?
//	constraints.go  which nodes may a slot use?
//	demand.go       which slots are requested?
//	limits.go       how many slots may share a rack, or the nodes of a list?
//	attributes.go   what does a slot request besides amounts?
//	topology.go     how close together must the slots be?
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

// conditionSteps is the cost in steps of evaluating one part of a constraint on one node.
const conditionSteps = 8

// A Demand is a jobspec in the solver's terms. It does not depend on a graph. The solver's problem
// takes the shapes and needs. Limits, constraints and the topology still have to be resolved to the
// nodes of a graph.
type Demand struct {
	Shapes []solver.Shape
	// Needs are the requested types of pools. Their columns and units are not set.
	Needs []solver.Need
	// Units has, by need, the unit that the jobspec names. It is "" if the graph's own unit is wanted.
	Units []string
	// Limits are not resolved to the nodes of a graph.
	Limits []Limit
	// Topology applies to the slots of all shapes together. Nil means that any placement will do.
	Topology *jobspec.Topology
	// constraints has the constraints by shape.
	constraints []constraints
	// limitByName maps the name of a limit to its index in Limits. It is nil if there are no limits.
	// limitByHosts maps the text of host lists to the index of the first limit with these lists.
	limitByName, limitByHosts map[string]int
}

// Read translates a jobspec. It fails with match.ErrInvalid, and the error names what is wrong or
// what this engine does not support.
func Read(js *jobspec.Jobspec) (*Demand, error) {
	if js == nil {
		return nil, invalid("no jobspec")
	}
	if len(js.Resources) == 0 {
		return nil, invalid("the jobspec has no resources")
	}
	var all constraints
	if err := all.readConstraint(js.Attributes.System.Constraints, false); err != nil {
		return nil, invalid("attributes.system.constraints: %w", err)
	}
	a := &Demand{
		Shapes: make([]solver.Shape, len(js.Resources)), constraints: make([]constraints, len(js.Resources)),
	}
	// Usually all slots request the same types.
	types := min(len(js.Resources[0].With), match.MaxResourceTypes)
	a.Needs, a.Units = make([]solver.Need, 0, types), make([]string, 0, types)
	labels := make(map[string]int, len(js.Resources))
	least := int64(0)
	for i := range js.Resources {
		s := &a.Shapes[i]
		if err := a.readSlot(s, &js.Resources[i]); err != nil {
			return nil, err
		}
		if _, twice := labels[s.Label]; twice {
			return nil, invalid("two slot requests have the label %q", s.Label)
		}
		labels[s.Label] = i
		if js.Attributes.System.Constraints != nil {
			a.constraints[i] = constraints{permanent: slices.Clone(all.permanent), rules: slices.Clone(all.rules)}
			s.Constrained = true
			s.ConstraintSteps += conditionSteps * js.Attributes.System.Constraints.Leaves()
		}
		least = solver.SatAdd(least, s.Count.Min)
	}
	if least > solver.MaxSlots {
		return nil, invalid("%d slots are requested, at most %d are supported", least, solver.MaxSlots)
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
		s.AmountPerSlot = append(s.AmountPerSlot, make([]int64, len(a.Needs)-len(s.AmountPerSlot))...)
	}
	return a, nil
}

// readSlot reads one slot request.
func (a *Demand) readSlot(s *solver.Shape, r *jobspec.Resource) error {
	switch {
	case r.Type != jobspec.SlotType:
		return invalid("%q at the top level of the jobspec: this engine supports only slots there", r.Type)
	case r.Label == "":
		return invalid("a slot has no label")
	case r.Exclusive != nil && *r.Exclusive:
		return invalid("slot %q: exclusive is not supported by this engine", r.Label)
	case len(r.With) == 0:
		return invalid("slot %q requests no resources", r.Label)
	}
	if err := r.Count.Validate(); err != nil {
		return invalid("slot %q: count: %w", r.Label, err)
	}
	if r.Count.Min < 1 {
		return invalid("slot %q: count: must be at least 1, is %d", r.Label, r.Count.Min)
	}
	s.Label, s.Count = r.Label, r.Count
	for i := range r.With {
		if err := a.readPool(s, &r.With[i]); err != nil {
			return err
		}
	}
	return nil
}

// readPool reads the amount that a slot takes of one type of pool.
func (a *Demand) readPool(s *solver.Shape, r *jobspec.Resource) error {
	switch {
	case r.Type == "" || r.Type == jobspec.SlotType || r.Type == resource.TypeNode || r.Type == resource.TypeCluster:
		return invalid("slot %q: resource type %q cannot be requested in a slot", s.Label, r.Type)
	case len(r.With) > 0:
		return invalid("slot %q: %s in %s: nested resources are not supported by this engine", s.Label, r.With[0].Type, r.Type)
	case r.Exclusive != nil && *r.Exclusive:
		return invalid("slot %q: %s: exclusive is not supported by this engine", s.Label, r.Type)
	case r.Count.Min != r.Count.Max:
		return invalid("slot %q: %s: a range, %d to %d, is not supported within a slot", s.Label, r.Type, r.Count.Min, r.Count.Max)
	case r.Count.Min < 1:
		return invalid("slot %q: %s: amount must be at least 1, is %d", s.Label, r.Type, r.Count.Min)
	}
	at := slices.IndexFunc(a.Needs, func(n solver.Need) bool { return n.Type == r.Type })
	if at < 0 {
		if at = len(a.Needs); at == match.MaxResourceTypes {
			return invalid("slot %q: %s: the request has more than %d resource types", s.Label, r.Type, match.MaxResourceTypes)
		}
		a.Needs, a.Units = append(a.Needs, solver.Need{Type: r.Type}), append(a.Units, "")
	}
	unit := &a.Units[at]
	switch {
	case slices.Contains(s.NeedsInOrder, at):
		return invalid("slot %q requests %s twice", s.Label, r.Type)
	case *unit == "":
		*unit = r.Unit
	case r.Unit != "" && r.Unit != *unit:
		return invalid("slot %q: %s is requested in units %q and %q", s.Label, r.Type, *unit, r.Unit)
	}
	s.AmountPerSlot = append(s.AmountPerSlot, make([]int64, max(0, at+1-len(s.AmountPerSlot)))...)
	s.AmountPerSlot[at] = r.Count.Min
	s.NeedsInOrder = append(s.NeedsInOrder, at)
	return nil
}

// CheckKeys fails if keys are given and their number differs from the maximum number of slots, or
// if two keys are equal.
func (a *Demand) CheckKeys(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if most := solver.Offset(a.Shapes, len(a.Shapes)); int64(len(keys)) != most {
		return invalid("%d keys are given, want %d: one for each slot that the request may get", len(keys), most)
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

// Allow evaluates the constraints of a shape on a node. permanent is the result of the
// constraints that hold for good. current is the result of all constraints.
func (a *Demand) Allow(shape int, about *resource.Vertex) (permanent, current bool) {
	return a.constraints[shape].allow(about)
}

// AllowByConditions is like Allow, without the rules for hosts.
func (a *Demand) AllowByConditions(shape int, about *resource.Vertex) (permanent, current bool) {
	return a.constraints[shape].allowByConditions(about)
}

// HostRules returns the rules for hosts of a shape.
func (a *Demand) HostRules(shape int) []HostRule { return a.constraints[shape].rules }

// HasConditions reports whether a shape has constraints besides its rules for hosts.
func (a *Demand) HasConditions(shape int) bool {
	n := &a.constraints[shape]
	return len(n.permanent)+len(n.current) > 0
}

// WithoutLimits returns a copy of the demand without limits and topology. It is used for a
// placement that was already found under them.
func (a *Demand) WithoutLimits() *Demand {
	part := *a
	part.Limits, part.Topology = nil, nil
	part.Shapes = slices.Clone(a.Shapes)
	for i := range part.Shapes {
		part.Shapes[i].Limits = nil
	}
	return &part
}

// invalid returns an error that wraps match.ErrInvalid.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
