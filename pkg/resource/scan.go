package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// A cursor reads JSON from front to back without building a tree of it: a graph
// may have a million vertices, and 50,000 sets are read when an engine starts.
type cursor struct {
	data    []byte
	pos     int
	nesting int
}

func (c *cursor) fault(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", c.pos, fmt.Sprintf(format, args...))
}

// peek passes over blanks and returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for ; c.pos < len(c.data); c.pos++ {
		switch b := c.data[c.pos]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (c *cursor) expect(b byte) error {
	if got := c.peek(); got != b {
		return c.fault("%q expected", b)
	}
	c.pos++
	return nil
}

// end fails unless nothing but blanks is left.
func (c *cursor) end() error {
	c.peek()
	if c.pos < len(c.data) {
		return c.fault("text after the end")
	}
	return nil
}

// object calls each with every key, standing at its value. The key is valid only
// during the call.
func (c *cursor) object(each func(key []byte) error) error {
	return c.container('{', '}', "an object", func(int) error {
		key, err := c.bytes()
		if err != nil {
			return err
		}
		if err := c.expect(':'); err != nil {
			return err
		}
		return each(key)
	})
}

// array calls each with every index, standing at the item.
func (c *cursor) array(each func(i int) error) error {
	return c.container('[', ']', "an array", each)
}

func (c *cursor) container(open, closing byte, what string, each func(i int) error) error {
	if c.peek() != open {
		return c.wrong(what)
	}
	c.pos++
	if c.peek() == closing {
		c.pos++
		return nil
	}
	for i := 0; ; i++ {
		if err := each(i); err != nil {
			return err
		}
		if c.peek() == closing {
			c.pos++
			return nil
		}
		if err := c.expect(','); err != nil {
			return err
		}
	}
}

// bytes returns the content of a string, valid until the text is.
func (c *cursor) bytes() ([]byte, error) {
	if c.peek() != '"' {
		return nil, c.wrong("a string")
	}
	start := c.pos
	for i := start + 1; i < len(c.data); i++ {
		switch b := c.data[i]; {
		case b == '"':
			c.pos = i + 1
			return c.data[start+1 : i], nil
		case b == '\\', b < ' ':
			return c.escaped(start, i)
		}
	}
	return nil, c.fault("string without an end")
}

// escaped returns the content of a string with escapes, the first one at i.
func (c *cursor) escaped(start, i int) ([]byte, error) {
	for ; i < len(c.data) && c.data[i] != '"'; i++ {
		if c.data[i] == '\\' {
			i++
		}
	}
	if i >= len(c.data) {
		return nil, c.fault("string without an end")
	}
	var s string
	if err := json.Unmarshal(c.data[start:i+1], &s); err != nil {
		return nil, c.fault("malformed string")
	}
	c.pos = i + 1
	return []byte(s), nil
}

func (c *cursor) text() (string, error) {
	b, err := c.bytes()
	return string(b), err
}

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

// plainInteger spares most numbers the full check.
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
	if b := c.peek(); b != '-' && (b < '0' || b > '9') {
		return 0, c.wrong("a whole number")
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

func (c *cursor) boolean() (bool, error) {
	switch {
	case c.literal("true"):
		return true, nil
	case c.literal("false"):
		return false, nil
	}
	return false, c.wrong("true or false")
}

// null passes over null if that is what comes next.
func (c *cursor) null() bool { return c.literal("null") }

func (c *cursor) literal(word string) bool {
	c.peek()
	if !bytes.HasPrefix(c.data[c.pos:], []byte(word)) {
		return false
	}
	c.pos += len(word)
	return true
}
