package jobspec

import "math"

// NoLimit is the Max of a range that has no upper limit.
const NoLimit = math.MaxInt64

// Validate returns an error if no text can express the count. A plain number must be at
// least 0. A range must start at 1 or more, or at 2 or more with '^', and must not end below
// its start. Its operand must be at least 1 with '+', and at least 2 with '*' and '^'.
func (c Count) Validate() error {
	least, operand := int64(1), int64(2)
	switch {
	case c.Operator == '+' && c.Operand == 1 && c.Min == c.Max:
		least, operand = 0, 1
	case c.Operator == '+':
		operand = 1
	case c.Operator == '*':
	case c.Operator == '^':
		least = 2
	default:
		return in("operator", fault("%q: must be +, * or ^", c.Operator))
	}
	switch {
	case c.Min < 0:
		return fault("%d: less than 0", c.Min)
	case c.Min < least:
		return in("min", fault("%d: less than %d", c.Min, least))
	case c.Max < c.Min:
		return in("max", fault("%d: less than min, which is %d", c.Max, c.Min))
	case c.Operand < operand:
		return in("operand", fault("%d: less than %d, the least for %c", c.Operand, operand, c.Operator))
	}
	return nil
}

// plain reports whether the count is a single number that is written as a plain number.
func (c Count) plain() bool { return c.Min == c.Max && c.Operator == '+' && c.Operand == 1 }

// Floor returns the largest number that the count accepts
// and that is at most n. It returns 0 if there is none.
func (c Count) Floor(n int64) int64 {
	if c.Min > c.Max || c.Min > n || c.Min < 1 {
		return 0
	}
	most := min(n, c.Max)
	switch c.Operator {
	case '+':
		return most - (most-c.Min)%max(1, c.Operand)
	case '*':
		q := c.Min
		for c.Operand > 1 && q <= most/c.Operand {
			q *= c.Operand
		}
		return q
	case '^':
		q := c.Min
		for {
			p, ok := power(q, c.Operand, most)
			if !ok {
				return q
			}
			q = p
		}
	}
	return 0
}

// power raises base to an exponent. ok is false if the result
// would not be larger than base, or would be larger than most.
func power(base, exponent, most int64) (p int64, ok bool) {
	if base < 2 || exponent < 2 {
		return base, false
	}
	p = 1
	for range exponent {
		if p > most/base {
			return 0, false
		}
		p *= base
	}
	return p, true
}
