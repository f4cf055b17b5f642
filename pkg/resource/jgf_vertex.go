package resource

import "fmt"

// A reader reads the vertices and edges of one text.
type reader struct {
	cursor
	ids vertexIndex
	// words keeps the strings of a graph, where types, units and the like repeat in
	// every vertex; in a set it is nil.
	words *words
	// paths and properties, where they are not nil, serve one vertex after the
	// other.
	paths, properties map[string]string
}

func newReader(data []byte) reader {
	return reader{cursor: cursor{data: data}, ids: newVertexIndex(len(data))}
}

// A node is a vertex as it is written: under an id that the edges refer to, with
// what only a Set has to say about it.
type node struct {
	id []byte
	Vertex
	extra extra
}

// An extra is the metadata key fluence, in which a Set keeps those fields of a
// pool whose JGF names say what is held of it. Other readers pass it over.
type extra struct {
	size      int64
	sized     bool
	exclusive bool
	// label is from the key ephemeral, which Fluxion writes too.
	label string
}

// word reads a string that is likely to come again.
func (r *reader) word() (string, error) {
	b, err := r.bytes()
	if err != nil {
		return "", err
	}
	return r.keep(b), nil
}

func (r *reader) keep(b []byte) string {
	if r.words == nil {
		return string(b)
	}
	return r.words.word(b)
}

// node reads one item of the nodes of a graph (RFC 4; RFC 20, "Graph Vertices").
func (r *reader) node(n *node) error {
	*n = node{}
	metadata := -1
	more, err := r.enter('{', '}', "an object")
	for more && err == nil {
		if err = r.nodeField(n, &metadata); err == nil {
			more, err = r.next('}')
		}
	}
	switch {
	case err != nil:
		return err
	case n.id == nil:
		return fmt.Errorf("no id")
	case metadata < 0:
		return n.within(fmt.Errorf("no metadata"))
	case metadata == already:
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

// already stands for the place of metadata that have been read, as no other can.
const already = 0

// nodeField reads one key of a vertex's item. It notes where the metadata are if
// the id, which errors name, is not known yet.
func (r *reader) nodeField(n *node, metadata *int) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	switch string(key) {
	case "id":
		if n.id != nil {
			return fmt.Errorf("id is there twice")
		}
		n.id, err = r.bytes()
		return in("id", err)
	case "metadata":
		if *metadata >= 0 {
			return fmt.Errorf("metadata is there twice")
		}
		r.peek()
		*metadata = r.pos
		if n.id != nil {
			*metadata = already
			return n.within(r.metadata(n))
		}
	}
	return r.skip()
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
	keyEphemeral
)

func (r *reader) metadata(n *node) error {
	n.Rank, n.Size = NoRank, 1
	seen := 0
	more, err := r.enter('{', '}', "an object")
	for more && err == nil {
		key, bad := r.key()
		if bad != nil {
			return bad
		}
		bit, bad := r.field(n, key)
		if bad == nil && seen&bit != 0 {
			bad = fmt.Errorf("is there twice")
		}
		if bad != nil {
			return in(string(key), bad)
		}
		seen |= bit
		more, err = r.next('}')
	}
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
		n.Name, err = r.word()
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
			n.Properties, err = r.texts(r.properties, true)
		}
		return keyProperties, err
	case "paths":
		return keyPaths, r.places(n)
	case "fluence":
		return keyFluence, r.extra(&n.extra)
	case "ephemeral":
		return keyEphemeral, r.label(&n.extra)
	}
	return 0, r.skip()
}

// places reads the paths of a vertex.
func (r *reader) places(n *node) error {
	clear(r.paths)
	n.Paths = nil
	more, err := r.enter('{', '}', "an object")
	for more && err == nil {
		if err = r.place(n); err == nil {
			more, err = r.next('}')
		}
	}
	return err
}

func (r *reader) place(n *node) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	subsystem := Containment
	if string(key) != subsystem {
		subsystem = r.keep(key)
	}
	value, err := r.bytes()
	path := ""
	if r.words == nil {
		path = r.keep(value)
	} else if err == nil {
		path = r.words.text(value)
	}
	_, twice := n.Paths[subsystem]
	switch {
	case err != nil:
		return in(subsystem, err)
	case twice || subsystem == Containment && n.Path != "":
		return in(subsystem, fmt.Errorf("is there twice"))
	case !isPath(path):
		return in(subsystem, fmt.Errorf("%q is no path", path))
	case subsystem == Containment:
		n.Path = path
		return nil
	case n.Paths == nil && r.paths != nil:
		n.Paths = r.paths
	case n.Paths == nil:
		n.Paths = make(map[string]string, 1)
	}
	n.Paths[subsystem] = path
	return nil
}

func (r *reader) extra(x *extra) error {
	var sizes, exclusives int
	return r.object(func(key []byte) error {
		switch string(key) {
		case "size":
			x.sized = true
			return once(&sizes, "size", func() (err error) { x.size, err = r.integer(); return err })
		case "exclusive":
			return once(&exclusives, "exclusive", func() (err error) { x.exclusive, err = r.boolean(); return err })
		}
		return r.skip()
	})
}

// label reads a label if there is one; what else may stand there is not ours.
func (r *reader) label(x *extra) error {
	if r.peek() != '{' {
		return r.skip()
	}
	return r.object(func(key []byte) (err error) {
		if string(key) != "label" || r.peek() != '"' {
			return r.skip()
		}
		x.label, err = r.word()
		return in("label", err)
	})
}

// texts reads an object of strings into m or, where that is nil, a new map; an
// empty one is nil.
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
		return in(key, fmt.Errorf("is there twice"))
	}
	return nil
}
