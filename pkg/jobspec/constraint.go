package jobspec

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/idset"
)

// maxConstraintDepth is the largest depth to which and, or and not may nest.
const maxConstraintDepth = 64

// A Condition reports whether a node vertex with this
// name, rank and properties satisfies a constraint.
type Condition func(name string, rank int64, properties map[string]string) bool

// Validate returns an error, which names the operand, if RFC 31 does not allow the constraint:
// it has an unknown operator, operands of the wrong kind, a malformed hostlist (RFC 29) or
// idset (RFC 22), or hostlists of more than maxHosts names. A nil constraint is valid.
func (c *Constraint) Validate() error {
	room := maxHosts
	return c.validate(0, &room)
}

// validate is Validate for a constraint at this depth. It
// subtracts the number of names in the hostlists from room.
func (c *Constraint) validate(depth int, room *int) error {
	if c == nil {
		return nil
	}
	if depth >= maxConstraintDepth {
		return fault("nested deeper than %d", maxConstraintDepth)
	}
	switch c.Op {
	case OpProperties, OpHostlist, OpRanks:
		if len(c.Args) > 0 {
			return in(c.Op, fault("takes texts, not constraints"))
		}
	case OpAnd, OpOr, OpNot:
		if len(c.Values) > 0 {
			return in(c.Op, fault("takes constraints, not texts"))
		}
	case "":
		if len(c.Args)+len(c.Values) > 0 {
			return fault("operands without an operator")
		}
	default:
		return fault("unknown operator %s", shorten(c.Op))
	}
	for i, text := range c.Values {
		var err error
		switch c.Op {
		case OpProperties:
			err = checkProperty(text)
		case OpHostlist:
			err = checkHostlist(text, room)
		case OpRanks:
			_, err = idset.Parse(text)
		}
		if err != nil {
			return in(c.Op, inItem(i, fault("%s: %v", shorten(text), err)))
		}
	}
	for i := range c.Args {
		if err := c.Args[i].validate(depth+1, room); err != nil {
			return in(c.Op, inItem(i, err))
		}
	}
	return nil
}

// Compile returns the constraint as a condition. A hostlist costs one look-up there,
// however long it is. A nil constraint holds everywhere. Compile fails if Validate does.
func (c *Constraint) Compile() (Condition, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c == nil {
		return always, nil
	}
	return c.compile(), nil
}

// Leaves returns the number of look-ups that it takes to evaluate the
// constraint: one per property, per hostlist operator and per ranks operator.
func (c *Constraint) Leaves() int {
	switch {
	case c == nil:
		return 0
	case c.Op == OpProperties:
		return len(c.Values)
	case c.Op == OpHostlist, c.Op == OpRanks:
		return 1
	}
	n := 0
	for i := range c.Args {
		n += c.Args[i].Leaves()
	}
	return n
}

// always is the condition that holds everywhere.
func always(string, int64, map[string]string) bool { return true }

// compile returns the condition of a valid constraint.
func (c *Constraint) compile() Condition {
	switch c.Op {
	case OpProperties:
		return hasProperties(c.Values)
	case OpHostlist:
		return isOneOf(c.Values)
	case OpRanks:
		return hasRank(c.Values)
	case OpAnd, OpOr, OpNot:
		args := make([]Condition, len(c.Args))
		for i := range c.Args {
			args[i] = c.Args[i].compile()
		}
		return combine(c.Op, args)
	}
	return always
}

// combine joins conditions with an operator. Without
// conditions, "and" holds, but "or" and "not" do not hold.
func combine(op string, args []Condition) Condition {
	// "and" stops at the first condition that is false. "not" stops there too,
	// and inverts the result. "or" stops at the first condition that is true.
	stop, then := false, false
	switch op {
	case OpOr:
		stop, then = true, true
	case OpNot:
		then = true
	}
	return func(name string, rank int64, properties map[string]string) bool {
		for _, holds := range args {
			if holds(name, rank, properties) == stop {
				return then
			}
		}
		return !then
	}
}

// hasProperties returns the condition of the operator properties.
func hasProperties(values []string) Condition {
	var present, absent []string
	for _, v := range values {
		if p, not := strings.CutPrefix(v, "^"); not {
			absent = append(absent, p)
		} else {
			present = append(present, v)
		}
	}
	return func(_ string, _ int64, properties map[string]string) bool {
		for _, p := range present {
			if _, ok := properties[p]; !ok {
				return false
			}
		}
		for _, p := range absent {
			if _, ok := properties[p]; ok {
				return false
			}
		}
		return true
	}
}

// isOneOf returns the condition of the operator hostlist.
func isOneOf(values []string) Condition {
	names := make(map[string]struct{}, len(values))
	for _, v := range values {
		if hostlist.Single(v) {
			names[v] = struct{}{}
			continue
		}
		list, _ := hostlist.Parse(v) // valid, because Compile has checked it
		for name := range list.Names() {
			names[name] = struct{}{}
		}
	}
	return func(name string, _ int64, _ map[string]string) bool {
		_, ok := names[name]
		return ok
	}
}

// hasRank returns the condition of the operator ranks.
func hasRank(values []string) Condition {
	var spans []idset.Span
	for _, v := range values {
		set, _ := idset.Parse(v) // valid, because Compile has checked it
		spans = append(spans, set...)
	}
	set := idset.Merge(spans)
	return func(_ string, rank int64, _ map[string]string) bool { return set.Has(rank) }
}

// checkProperty rejects the characters that Fluxion rejects. They
// are operators in the syntax for constraints on a command line.
func checkProperty(text string) error {
	p := strings.TrimPrefix(text, "^")
	if i := strings.IndexAny(p, "!&'\"^`|()"); i >= 0 {
		return fault("%q cannot be part of a property", p[i])
	}
	return nil
}
