package engine

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// narrow reads what keeps the slots of a label to some nodes.
func (a *ask) narrow(label string, from jobspec.SlotAttributes) error {
	at := slices.IndexFunc(a.shapes, func(s shape) bool { return s.label == label })
	if at < 0 {
		return invalid("attributes.system.fluence: no slot has the label %q", label)
	}
	s := &a.shapes[at]
	for _, c := range []struct {
		name string
		from *jobspec.Constraint
		to   *[]jobspec.Condition
	}{
		{"constraints", from.Constraints, &s.always},
		{"constraintsNow", from.ConstraintsNow, &s.now},
	} {
		holds, err := c.from.Compile()
		if err != nil {
			return invalid("attributes.system.fluence: %q: %s: %w", label, c.name, err)
		}
		if c.from != nil {
			*c.to = append(*c.to, holds)
		}
	}
	for kind, most := range from.MaxPerLevel {
		if most < 1 {
			return invalid("attributes.system.fluence: %q: maxPerLevel: %s: %d is no number of slots", label, kind, most)
		}
		a.bound(s, limit{kind: kind, most: most})
	}
	for i, l := range from.Limits {
		if err := a.narrowBy(s, l); err != nil {
			return invalid("attributes.system.fluence: %q: limits[%d]: %w", label, i, err)
		}
	}
	return nil
}
