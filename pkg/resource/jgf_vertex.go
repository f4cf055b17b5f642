package resource

import "fmt"

// A reader reads the vertices of one text. In a graph, where types, units and the
// like repeat in every vertex, words keeps each once; in a set it is nil.
type reader struct {
	cursor
	words map[string]string
}

// A node is a vertex as it is written: under an id that the edges refer to, with
// what only a Set has to say about it.
type node struct {
	id string
	Vertex
	extra extra
}

// An extra is the metadata key fluence, in which a Set keeps those fields of a
// pool whose JGF names say what is held of it. Other readers pass it over.
type extra struct {
	size      int64
	sized     bool
	exclusive bool
}

func (r *reader) word() (string, error) {
	b, err := r.bytes()
	if err != nil {
		return "", err
	}
	return r.keep(b), nil
}

func (r *reader) keep(b []byte) string {
	if w, ok := r.words[string(b)]; ok {
		return w
	}
	w := string(b)
	if r.words != nil {
		r.words[w] = w
	}
	return w
}

// node reads one item of the nodes of a graph (RFC 4; RFC 20, "Graph Vertices").
func (r *reader) node(n *node) error {
	*n = node{}
	metadata, named, done := -1, false, false
	err := r.object(func(key []byte) (err error) {
		switch string(key) {
		case "id":
			if named {
				return fmt.Errorf("id is there twice")
			}
			named = true
			n.id, err = r.text()
			return in("id", err)
		case "metadata":
			if metadata >= 0 {
				return fmt.Errorf("metadata is there twice")
			}
			r.peek()
			metadata = r.pos
			if !named { // errors name the id, so it has to be known first
				return r.skip()
			}
			done = true
			return n.within(r.metadata(n))
		}
		return r.skip()
	})
	switch {
	case err != nil:
		return err
	case !named:
		return fmt.Errorf("no id")
	case metadata < 0:
		return n.within(fmt.Errorf("no metadata"))
	case done:
		return nil
	}
	end := r.pos
	r.pos = metadata
	err = n.within(r.metadata(n))
	r.pos = end
	return err
}

// within names the vertex that err is about.
func (n *node) within(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("vertex %q: %w", n.id, err)
}

// in names the key that err is about.
func in(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// The metadata keys that may not be there twice, or whose absence matters.
const (
	keyType = 1 << iota
	keyBasename
	keyName
	keyID
	keyUniqID
	keyRank
	keySize
	keyUnit
	keyExclusive
	keyStatus
	keyProperties
	keyPaths
	keyFluence
)

func (r *reader) metadata(n *node) error {
	n.Rank, n.Size = NoRank, 1
	seen := 0
	err := r.object(func(key []byte) error {
		bit, err := r.field(n, key)
		if err == nil && seen&bit != 0 {
			err = fmt.Errorf("is there twice")
		}
		seen |= bit
		if err != nil {
			return in(string(key), err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case seen&keyType == 0:
		return fmt.Errorf("no type")
	case seen&keyPaths == 0:
		return fmt.Errorf("no paths")
	}
	return n.complete(seen)
}

// field reads the value of one key and says which.
func (r *reader) field(n *node, key []byte) (bit int, err error) {
	switch string(key) {
	case "type":
		n.Type, err = r.word()
		return keyType, err
	case "basename":
		n.Basename, err = r.word()
		return keyBasename, err
	case "name":
		n.Name, err = r.text()
		return keyName, err
	case "id":
		n.ID, err = r.integer()
		return keyID, err
	case "uniq_id":
		n.UniqID, err = r.integer()
		return keyUniqID, err
	case "rank":
		n.Rank, err = r.integer()
		return keyRank, err
	case "size":
		n.Size, err = r.integer()
		return keySize, err
	case "unit":
		n.Unit, err = r.word()
		return keyUnit, err
	case "exclusive":
		n.Exclusive, err = r.boolean()
		return keyExclusive, err
	case "status":
		var s int64
		s, err = r.integer()
		n.Status = Status(s)
		if err == nil && s != int64(Up) && s != int64(Down) {
			err = fmt.Errorf("%d: neither 0, up, nor 1, down", s)
		}
		return keyStatus, err
	case "properties":
		if !r.null() {
			n.Properties, err = r.texts()
		}
		return keyProperties, err
	case "paths":
		n.Paths, err = r.texts()
		return keyPaths, err
	case "fluence":
		return keyFluence, r.extra(&n.extra)
	}
	return 0, r.skip()
}

func (r *reader) extra(x *extra) error {
	return r.object(func(key []byte) (err error) {
		switch string(key) {
		case "size":
			x.size, err = r.integer()
			x.sized = true
			return in("size", err)
		case "exclusive":
			x.exclusive, err = r.boolean()
			return in("exclusive", err)
		}
		return r.skip()
	})
}

// texts reads an object of strings; an empty one is nil.
func (r *reader) texts() (map[string]string, error) {
	var m map[string]string
	err := r.object(func(key []byte) error {
		k := r.keep(key)
		v, err := r.text()
		if err != nil {
			return in(k, err)
		}
		if _, twice := m[k]; twice {
			return in(k, fmt.Errorf("is there twice"))
		}
		if m == nil {
			m = make(map[string]string, 1)
		}
		m[k] = v
		return nil
	})
	return m, err
}
