package resource

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// number returns the text of a number.
func (c *cursor) number() ([]byte, error) {
	if b := c.peek(); b != '-' && (b < '0' || b > '9') {
		return nil, c.wrong("a number")
	}
	start := c.pos
	for c.pos < len(c.data) && numeric(c.data[c.pos]) {
		c.pos++
	}
	n := c.data[start:c.pos]
	if plainInteger(n) || json.Valid(n) {
		return n, nil
	}
	return nil, c.fault("%q: malformed number", n)
}

func numeric(b byte) bool {
	return b >= '0' && b <= '9' || b == '-' || b == '.' || b == 'e' || b == 'E' || b == '+'
}

// plainInteger reports whether n is a number without sign,
// fraction and exponent. It saves most numbers the full check.
func plainInteger(n []byte) bool {
	if len(n) > 1 && n[0] == '0' {
		return false
	}
	for _, b := range n {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}

func (c *cursor) integer() (int64, error) {
	b := c.peek()
	if b != '-' && (b < '0' || b > '9') {
		return 0, c.wrong("a whole number")
	}
	if n, ok := c.shortInteger(); ok {
		return n, nil
	}
	text, err := c.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: not a whole number of 64 bits", text)
	}
	return n, nil
}

// shortInteger reads a number of at most 18 digits that has no sign, fraction
// or exponent. If another number comes, it returns false and skips nothing.
func (c *cursor) shortInteger() (int64, bool) {
	const most = 18
	n, i := int64(0), c.pos
	for ; i < len(c.data) && c.data[i]-'0' <= 9; i++ {
		n = 10*n + int64(c.data[i]-'0')
	}
	digits := i - c.pos
	if digits == 0 || digits > most || digits > 1 && c.data[c.pos] == '0' || i < len(c.data) && numeric(c.data[i]) {
		return 0, false
	}
	c.pos = i
	return n, true
}
