package demand

import (
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// constraints are the conditions of one shape on nodes, and its rules for hosts. permanent has the
// conditions that count in every verdict. current has the conditions that count only for what fits
// at present.
type constraints struct {
	permanent, current []jobspec.Condition
	rules              []HostRule
}

// readConstraint reads one constraint of a shape. Host lists become rules. What else the
// constraint says becomes a condition. It fails if the constraint is not valid.
func (n *constraints) readConstraint(c *jobspec.Constraint, temporary bool) error {
	if err := c.Validate(); err != nil || c == nil {
		return err
	}
	return n.readPart(c, temporary)
}

// readPart reads a part of a valid constraint. All parts must hold.
func (n *constraints) readPart(c *jobspec.Constraint, temporary bool) error {
	switch {
	case c.Op == jobspec.OpHostlist:
		n.rules = append(n.rules, HostRule{Hosts: newHostSet(c.Values), Temporary: temporary})
		return nil
	case c.Op == jobspec.OpNot && len(c.Args) == 1 && c.Args[0].Op == jobspec.OpHostlist:
		n.rules = append(n.rules, HostRule{Hosts: newHostSet(c.Args[0].Values), Excluded: true, Temporary: temporary})
		return nil
	case c.Op == jobspec.OpAnd:
		for i := range c.Args {
			if err := n.readPart(&c.Args[i], temporary); err != nil {
				return err
			}
		}
		return nil
	}
	holds, err := c.Compile()
	if err != nil {
		return err
	}
	if temporary {
		n.current = append(n.current, holds)
	} else {
		n.permanent = append(n.permanent, holds)
	}
	return nil
}

// allowByConditions evaluates the conditions on a node.
func (n *constraints) allowByConditions(about *resource.Vertex) (permanent, current bool) {
	permanent = holds(n.permanent, about)
	return permanent, permanent && holds(n.current, about)
}

// allow evaluates the conditions and the rules for hosts on a node.
func (n *constraints) allow(about *resource.Vertex) (permanent, current bool) {
	permanent, current = n.allowByConditions(about)
	for i := range n.rules {
		if permanent && !n.rules[i].allows(about.Name) {
			permanent, current = n.rules[i].Temporary, false
		}
	}
	return permanent, current
}

func holds(all []jobspec.Condition, about *resource.Vertex) bool {
	for _, c := range all {
		if !c(about.Name, about.Rank, about.Properties) {
			return false
		}
	}
	return true
}
