package engine

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// readTopology reads how the slots stand together. This engine takes one topology
// for all slots of a request.
func (a *ask) readTopology(from map[string]jobspec.SlotAttributes) error {
	for i := range a.shapes {
		t := from[a.shapes[i].label].Topology
		if i == 0 {
			a.topology = t
			continue
		}
		if !sameTopology(a.topology, t) {
			return invalid("attributes.system.fluence: %q and %q differ in topology: this engine takes one for all slots",
				a.shapes[0].label, a.shapes[i].label)
		}
	}
	t := a.topology
	if t == nil {
		return nil
	}
	switch {
	case t.Required == "" && t.Balanced == "" && len(t.Preferred) == 0:
		return invalid("attributes.system.fluence: a topology that asks for nothing")
	case t.Balanced != "" && len(t.Preferred) > 0:
		return invalid("attributes.system.fluence: topology: preferred and balanced: one of them only")
	}
	return nil
}

func sameTopology(x, y *jobspec.Topology) bool {
	if x == nil || y == nil {
		return x == y
	}
	return x.Required == y.Required && x.Balanced == y.Balanced && slices.Equal(x.Preferred, y.Preferred)
}

// A rule says how slots stand on the domains of a level.
type rule int

const (
	// together: all in one domain.
	together rule = iota
	// few: in as few domains as there can be.
	few
	// balanced: in equal shares, and in as few domains as there can be.
	balanced
)

// An aim is what a topology asks for of one level.
type aim struct {
	kind string
	rule rule
}

// aims lists what a topology asks for, each inside of what those before leave open.
func aims(t *jobspec.Topology) []aim {
	var all []aim
	if t.Required != "" {
		all = append(all, aim{t.Required, together})
	}
	for _, kind := range t.Preferred {
		all = append(all, aim{kind, few})
	}
	if t.Balanced != "" {
		all = append(all, aim{t.Balanced, balanced})
	}
	return all
}

// findLevels fails for a topology of a level that the graph does not have.
func (a *ask) findLevels(g *graph) error {
	if a.topology == nil || g.root == nil {
		return nil
	}
	for _, x := range aims(a.topology) {
		if len(g.partition(x.kind).vertices) == 0 {
			return invalid("topology: the graph has no level %q; there are %s", x.kind, strings.Join(g.kinds(), ", "))
		}
	}
	return nil
}
