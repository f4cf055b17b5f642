package resource

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
)

// A cursor reads JSON from front to back without building a tree, because a graph
// may have a million vertices, and 50,000 sets are read when an engine starts.
type cursor struct {
	data    []byte
	pos     int
	nesting int
}

// fault returns an error at the current position.
func (c *cursor) fault(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", c.pos, fmt.Sprintf(format, args...))
}

// peek skips blanks. It returns the next byte, or 0 at the end.
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

// expect skips blanks and the byte b. It fails if another byte comes.
func (c *cursor) expect(b byte) error {
	if got := c.peek(); got != b {
		return c.fault("%q expected", b)
	}
	c.pos++
	return nil
}

// end fails if anything but blanks is left.
func (c *cursor) end() error {
	c.peek()
	if c.pos < len(c.data) {
		return c.fault("text after the end")
	}
	return nil
}

// object reads an object. It calls each with every key; the cursor is
// at the value of the key then. The key is valid only during the call.
func (c *cursor) object(each func(key []byte) error) error {
	more, err := c.enter('{', '}', "an object")
	for more && err == nil {
		var key []byte
		if key, err = c.key(); err == nil {
			err = each(key)
		}
		if err == nil {
			more, err = c.next('}')
		}
	}
	return err
}

// array reads an array. It calls each with every index; the cursor is at the item then.
func (c *cursor) array(each func(i int) error) error {
	more, err := c.enter('[', ']', "an array")
	for i := 0; more && err == nil; i++ {
		if err = each(i); err == nil {
			more, err = c.next(']')
		}
	}
	return err
}

// enter skips the bracket that begins an object or array. If the object or
// array is empty, enter skips the closing bracket too and returns false.
func (c *cursor) enter(open, closing byte, what string) (more bool, err error) {
	if c.peek() != open {
		return false, c.wrong(what)
	}
	c.pos++
	if c.peek() == closing {
		c.pos++
		return false, nil
	}
	return true, nil
}

// next skips the comma between two entries and returns true, or
// the closing bracket after the last entry and returns false.
func (c *cursor) next(closing byte) (more bool, err error) {
	switch c.peek() {
	case ',':
		c.pos++
		return true, nil
	case closing:
		c.pos++
		return false, nil
	}
	return false, c.fault("%q expected", ',')
}

// key reads the key of an object's entry and the colon
// after it. The key is valid as long as data is.
func (c *cursor) key() ([]byte, error) {
	key, err := c.bytes()
	if err == nil {
		err = c.expect(':')
	}
	return key, err
}

// bytes returns the content of a string. It is valid
// as long as data is, and nil only with an error.
func (c *cursor) bytes() ([]byte, error) {
	if c.peek() != '"' {
		return nil, c.wrong("a string")
	}
	start := c.pos + 1
	i := start
	for ; i+8 <= len(c.data); i += 8 {
		if at := special(binary.LittleEndian.Uint64(c.data[i:])); at < 8 {
			i += at
			break
		}
	}
	for i < len(c.data) && c.data[i] != '"' && c.data[i] != '\\' && c.data[i] >= ' ' {
		i++
	}
	switch {
	case i == len(c.data):
		return nil, c.fault("string without an end")
	case c.data[i] != '"':
		return c.escaped(start-1, i)
	}
	c.pos = i + 1
	return c.data[start:i], nil
}

// special returns the index of the first of eight bytes that ends a string,
// begins an escape or is a control character. It returns 8 if there is none.
func special(w uint64) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^'"'*ones, w^'\\'*ones
	// The top bit of a byte is set in the result if the byte is less than what is subtracted
	// from it. A borrow can be wrong only for the bytes above the first such byte.
	found := (quote-ones)&^quote | (backslash-ones)&^backslash | (w-' '*ones)&^w
	return bits.TrailingZeros64(found&tops) / 8
}

// escaped returns the content of a string with escapes. The first escape is at i.
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

func (c *cursor) boolean() (bool, error) {
	switch {
	case c.literal("true"):
		return true, nil
	case c.literal("false"):
		return false, nil
	}
	return false, c.wrong("true or false")
}

// null skips null if it comes next. It reports whether it did.
func (c *cursor) null() bool { return c.literal("null") }

// literal skips a word if it comes next. It reports whether it did.
func (c *cursor) literal(word string) bool {
	c.peek()
	if !bytes.HasPrefix(c.data[c.pos:], []byte(word)) {
		return false
	}
	c.pos += len(word)
	return true
}
