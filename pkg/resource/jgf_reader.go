package resource

import "fmt"

// A reader reads the vertices and edges of one text.
type reader struct {
	cursor
	ids vertexIndex
	// words keeps the strings of a graph, because types, units and
	// the like repeat in every vertex. It is nil while a set is read.
	words *words
	// paths and properties are reused for every vertex. They
	// are nil if each vertex needs maps that can be kept.
	paths, properties map[string]string
}

func newReader(data []byte) reader {
	return reader{cursor: cursor{data: data}, ids: newVertexIndex(len(data))}
}

// word reads a string that probably occurs more than once.
func (r *reader) word() (string, error) {
	b, err := r.bytes()
	if err != nil {
		return "", err
	}
	return r.keep(b), nil
}

// keep returns b as a string that may be shared.
func (r *reader) keep(b []byte) string {
	if r.words == nil {
		return string(b)
	}
	return r.words.word(b)
}

// in adds the key to an error. It returns nil if err is nil.
func in(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// texts reads an object of strings into m, or into a new map if m is nil. It returns
// nil for an empty object. repeated is set if the values probably occur more than once.
func (r *reader) texts(m map[string]string, repeated bool) (map[string]string, error) {
	clear(m)
	more, err := r.enter('{', '}', "an object")
	for more && err == nil {
		if m == nil {
			m = make(map[string]string, 1)
		}
		if err = r.textField(m, repeated); err == nil {
			more, err = r.next('}')
		}
	}
	if len(m) == 0 {
		m = nil
	}
	return m, err
}

func (r *reader) textField(m map[string]string, repeated bool) error {
	b, err := r.key()
	if err != nil {
		return err
	}
	key := Containment
	if string(b) != key {
		key = r.keep(b)
	}
	value, err := r.bytes()
	if err != nil {
		return in(key, err)
	}
	before := len(m)
	if repeated || r.words == nil {
		m[key] = r.keep(value)
	} else {
		m[key] = r.words.text(value)
	}
	if len(m) == before {
		return in(key, fmt.Errorf("appears twice"))
	}
	return nil
}
