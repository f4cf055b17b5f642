package jobspec

import "math"

// parseResources reads a list of resource vertices (RFC 14, "Resources").
func parseResources(v value) ([]Resource, error) {
	items, err := v.list()
	if err != nil {
		return nil, err
	}
	var rs []Resource
	for i, item := range items {
		r, err := parseResource(item)
		if err != nil {
			return nil, inItem(i, err)
		}
		rs = append(rs, r)
	}
	return rs, nil
}

func parseResource(v value) (Resource, error) {
	var r Resource
	if err := v.mapping(); err != nil {
		return r, err
	}
	if err := only(v, "type", "count", "unit", "exclusive", "with", "label", "id"); err != nil {
		return r, err
	}
	if _, err := v.require("type"); err != nil {
		return r, err
	}
	for _, f := range []struct {
		key string
		to  *string
	}{{"type", &r.Type}, {"unit", &r.Unit}, {"label", &r.Label}, {"id", &r.ID}} {
		if err := setText(f.to, v, f.key); err != nil {
			return r, err
		}
	}
	count, err := v.require("count")
	if err != nil {
		return r, err
	}
	if r.Count, err = parseCount(count, r.Unit); err != nil {
		return r, in("count", err)
	}
	if item, ok := v.get("exclusive"); ok {
		if r.Exclusive, err = parseExclusive(item); err != nil {
			return r, in("exclusive", err)
		}
	}
	if item, ok := v.get("with"); ok {
		if r.With, err = parseResources(item); err != nil {
			return r, in("with", err)
		}
	}
	return r, nil
}

// parseExclusive accepts "true" and "false", and no other word that YAML takes for a truth value.
func parseExclusive(v value) (*bool, error) {
	if text, err := v.scalar(); err == nil && (text == "true" || text == "false") {
		is := text == "true"
		return &is, nil
	}
	return nil, faultAt(v, "%v: must be true or false", v)
}

// maxPlain is the largest plain number without a unit, as in Fluxion.
// An amount in a unit may be larger, and so may the ends of a range.
const maxPlain = math.MaxUint32

// parseCount reads a whole number or a range. A range has either
// only the key min, and then no upper limit, or all of its keys.
func parseCount(v value, unit string) (Count, error) {
	if v.kind == kindBool || v.kind == kindNumber || v.kind == kindText {
		n, err := wholeNumber(v)
		if err == nil && unit == "" && n > maxPlain {
			err = faultAt(v, "%v: more than %d without a unit", v, int64(maxPlain))
		}
		return Exactly(n), err
	}
	if v.kind != kindMapping {
		return Count{}, faultAt(v, "%v: must be a whole number or a range", v)
	}
	if err := only(v, "min", "max", "operator", "operand"); err != nil {
		return Count{}, err
	}
	low, err := v.require("min")
	if err != nil {
		return Count{}, err
	}
	c := Between(0, NoLimit)
	if c.Min, err = wholeNumber(low); err != nil {
		return c, in("min", err)
	}
	if len(v.keys) == 1 {
		return c, rangeMin(low, c.Min)
	}
	if len(v.keys) != 4 {
		return c, faultAt(v, "max, operator and operand go together")
	}
	for _, f := range []struct {
		key string
		to  *int64
	}{{"max", &c.Max}, {"operand", &c.Operand}} {
		item, _ := v.get(f.key)
		if *f.to, err = wholeNumber(item); err != nil {
			return c, in(f.key, err)
		}
	}
	operator, _ := v.get("operator")
	text, err := operator.scalar()
	if err != nil {
		return c, in("operator", err)
	}
	if len(text) != 1 {
		return c, in("operator", faultAt(operator, "%v: must be +, * or ^", operator))
	}
	c.Operator = text[0]
	return c, rangeMin(low, c.Min)
}

// rangeMin rejects a range that starts below 1. As a plain number, 0 would be a valid count.
func rangeMin(v value, low int64) error {
	if low < 1 {
		return in("min", faultAt(v, "%v: less than 1", v))
	}
	return nil
}
