package resource

import "fmt"

// maxNesting is the largest depth to which the skipped parts of a text may nest.
const maxNesting = 128

// skip skips a value.
func (c *cursor) skip() error {
	if c.nesting++; c.nesting > maxNesting {
		return c.fault("nested deeper than %d", maxNesting)
	}
	defer func() { c.nesting-- }()
	var err error
	switch c.peek() {
	case '{':
		err = c.object(func([]byte) error { return c.skip() })
	case '[':
		err = c.array(func(int) error { return c.skip() })
	case '"':
		_, err = c.bytes()
	case 't', 'f':
		_, err = c.boolean()
	case 'n':
		if !c.null() {
			err = c.fault("a value expected")
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		_, err = c.number()
	default:
		err = c.fault("a value expected")
	}
	return err
}

// wrong returns an error that names the value at the
// cursor. what is the kind of value that should be there.
func (c *cursor) wrong(what string) error {
	start := c.pos
	word := c.data[start:min(start+4, len(c.data))]
	if b := c.peek(); b == 't' || b == 'f' || b == 'n' {
		if !c.literal("true") && !c.literal("false") && !c.null() {
			return c.fault("%q: %s expected", word, what)
		}
	} else if err := c.skip(); err != nil {
		return err
	}
	const most = 60
	text := c.data[start:c.pos]
	if len(text) > most {
		text = append(text[:most:most], "..."...)
	}
	return fmt.Errorf("%s: not %s", text, what)
}
