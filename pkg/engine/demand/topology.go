package demand

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// readTopology reads the topology. This engine supports one topology for all slots of a request.
func (a *Demand) readTopology(from map[string]jobspec.SlotAttributes) error {
	for i := range a.Shapes {
		t := from[a.Shapes[i].Label].Topology
		if i == 0 {
			a.Topology = t
			continue
		}
		if !sameTopology(a.Topology, t) {
			return invalid("attributes.system.fluence: slots %q and %q have different topologies: this engine supports one for all slots",
				a.Shapes[0].Label, a.Shapes[i].Label)
		}
	}
	t := a.Topology
	if t == nil {
		return nil
	}
	switch {
	case t.Required == "" && t.Balanced == "" && len(t.Preferred) == 0:
		return invalid("attributes.system.fluence: topology: set required, preferred or balanced")
	case t.Balanced != "" && len(t.Preferred) > 0:
		return invalid("attributes.system.fluence: topology: preferred and balanced cannot be combined")
	}
	return nil
}

func sameTopology(x, y *jobspec.Topology) bool {
	if x == nil || y == nil {
		return x == y
	}
	return x.Required == y.Required && x.Balanced == y.Balanced && slices.Equal(x.Preferred, y.Preferred)
}

// Levels returns the topology as a list of rules for levels. Each rule applies inside the domains
// that the rules before it chose. The domains of the nodes are not set.
func (a *Demand) Levels() []solver.Level {
	t := a.Topology
	if t == nil {
		return nil
	}
	var all []solver.Level
	if t.Required != "" {
		all = append(all, solver.Level{Type: t.Required, Rule: solver.OneDomain})
	}
	for _, kind := range t.Preferred {
		all = append(all, solver.Level{Type: kind, Rule: solver.FewestDomains})
	}
	if t.Balanced != "" {
		all = append(all, solver.Level{Type: t.Balanced, Rule: solver.Balanced})
	}
	return all
}
