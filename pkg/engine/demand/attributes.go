package demand

import "github.com/flux-k8s/fluence/pkg/jobspec"

// readAttributes reads the constraints and limits of one shape.
func (a *Demand) readAttributes(at int, from jobspec.SlotAttributes) error {
	s, n := &a.Shapes[at], &a.constraints[at]
	label := s.Label
	for _, c := range []struct {
		name      string
		from      *jobspec.Constraint
		temporary bool
	}{
		{"constraints", from.Constraints, false},
		{"constraintsNow", from.ConstraintsNow, true},
	} {
		if err := n.readConstraint(c.from, c.temporary); err != nil {
			return invalid("attributes.system.fluence: %q: %s: %w", label, c.name, err)
		}
		if c.from != nil {
			s.Constrained = true
			s.ConstraintSteps += conditionSteps * c.from.Leaves()
		}
	}
	for kind, most := range from.MaxPerLevel {
		if most < 1 {
			return invalid("attributes.system.fluence: %q: maxPerLevel: %s: must be at least 1, is %d", label, kind, most)
		}
		a.addLimit(s, Limit{Level: kind, Max: most})
	}
	for i, l := range from.Limits {
		if err := a.addNamedLimit(s, l); err != nil {
			return invalid("attributes.system.fluence: %q: limits[%d]: %w", label, i, err)
		}
	}
	return nil
}
