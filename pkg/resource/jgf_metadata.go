package resource

import "fmt"

// These metadata keys may not be there twice, or their absence matters.
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
			bad = fmt.Errorf("appears twice")
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

// field reads the value of one key. It returns the bit of the key, or 0 for an unknown key.
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
			err = fmt.Errorf("%d: must be 0 (up) or 1 (down)", s)
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

// place reads the path of one subsystem.
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
		return in(subsystem, fmt.Errorf("appears twice"))
	case !isPath(path):
		return in(subsystem, fmt.Errorf("%q is not a path", path))
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
