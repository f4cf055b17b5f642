package jobspec

import "encoding/json"

// parseAttributes reads attributes (RFC 14, "Attributes"). The value null means no attributes.
func parseAttributes(v value) (Attributes, error) {
	var a Attributes
	if v.kind == kindNull {
		return a, nil
	}
	if err := v.mapping(); err != nil {
		return a, err
	}
	if err := only(v, "user", "system"); err != nil {
		return a, err
	}
	var err error
	if item, ok := v.get("user"); ok {
		if a.User, err = rawMapping(item); err != nil {
			return a, in("user", err)
		}
	}
	if item, ok := v.get("system"); ok && item.kind != kindNull {
		if a.System, err = parseSystem(item); err != nil {
			return a, in("system", err)
		}
	}
	return a, nil
}

func parseSystem(v value) (System, error) {
	var s System
	if err := v.mapping(); err != nil {
		return s, err
	}
	for i, key := range v.keys {
		var err error
		switch item := v.items[i]; key {
		case "duration":
			s.Duration, err = seconds(item)
			s.ZeroDuration = s.Duration == 0
		case "queue":
			s.Queue, err = item.scalar()
		case "cwd":
			s.Cwd, err = item.scalar()
		case "environment":
			s.Environment, err = mapOf(item, value.scalar)
		case "constraints":
			s.Constraints, err = parseConstraint(item)
		case "fluence":
			s.Fluence, err = mapOf(item, parseSlotAttributes)
		default:
			if s.Other == nil {
				s.Other = map[string]json.RawMessage{}
			}
			s.Other[key], err = raw(item)
		}
		if err != nil {
			return s, in(key, err)
		}
	}
	return s, nil
}

func parseSlotAttributes(v value) (SlotAttributes, error) {
	var s SlotAttributes
	if err := v.mapping(); err != nil {
		return s, err
	}
	for i, key := range v.keys {
		var err error
		switch item := v.items[i]; key {
		case "constraints":
			s.Constraints, err = parseConstraint(item)
		case "constraintsNow":
			s.ConstraintsNow, err = parseConstraint(item)
		case "maxPerLevel":
			s.MaxPerLevel, err = mapOf(item, wholeNumber)
		case "limits":
			s.Limits, err = parseLimits(item)
		case "topology":
			s.Topology, err = parseTopology(item)
		default:
			return s, faultAt(item, "unknown key %s", shorten(key))
		}
		if err != nil {
			return s, in(key, err)
		}
	}
	return s, nil
}

// parseConstraint reads a constraint (RFC 31): a mapping of one
// operator to the list of its operands, or {} for no condition.
func parseConstraint(v value) (*Constraint, error) {
	if err := v.mapping(); err != nil {
		return nil, err
	}
	if len(v.keys) == 0 {
		return &Constraint{}, nil
	}
	if len(v.keys) > 1 {
		return nil, faultAt(v, "a constraint has one operator, not %d", len(v.keys))
	}
	c := &Constraint{Op: v.keys[0]}
	items, err := v.items[0].list()
	if err != nil {
		return nil, in(c.Op, err)
	}
	for i, item := range items {
		switch c.Op {
		case OpAnd, OpOr, OpNot:
			var arg *Constraint
			if arg, err = parseConstraint(item); err == nil {
				c.Args = append(c.Args, *arg)
			}
		case OpProperties, OpHostlist, OpRanks:
			var text string
			if text, err = operand(c.Op, item); err == nil {
				c.Values = append(c.Values, text)
			}
		default:
			return nil, faultAt(v, "unknown operator %s", shorten(c.Op))
		}
		if err != nil {
			return nil, in(c.Op, inItem(i, err))
		}
	}
	return c, nil
}

// operand reads an operand of properties, hostlist or ranks. A property must be a quoted
// text, as Fluxion requires: in YAML the plain words 1, yes and null are not texts.
func operand(op string, v value) (string, error) {
	if op == OpProperties && !v.quoted {
		return "", faultAt(v, "%v: not a quoted text", v)
	}
	return v.scalar()
}

// mapOf reads a mapping with values of one type. It returns nil for an empty mapping.
func mapOf[T any](v value, read func(value) (T, error)) (map[string]T, error) {
	if err := v.mapping(); err != nil {
		return nil, err
	}
	var m map[string]T
	for i, key := range v.keys {
		item, err := read(v.items[i])
		if err != nil {
			return nil, in(key, err)
		}
		if m == nil {
			m = make(map[string]T, len(v.keys))
		}
		m[key] = item
	}
	return m, nil
}
