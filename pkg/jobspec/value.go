package jobspec

import "bytes"

// These limits apply to a text. A jobspec that excludes each of 50,000 nodes by name is below them.
const (
	// MaxSize is the largest size of the text of a jobspec, in bytes.
	MaxSize = 4 << 20
	// maxDepth is the largest depth to which lists and mappings may nest.
	maxDepth = 256
	// maxCost is the largest size of a document after its aliases are
	// followed. A value counts valueCost bytes and the bytes of its text.
	maxCost   = 16 << 20
	valueCost = 16
)

// A kind is the form of a value in the text.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindList
	kindMapping
)

// A value is a node of the document, no matter whether the text is YAML or JSON. A
// scalar keeps its text, because each field has its own rules for the form of a number.
type value struct {
	kind   kind
	line   int
	text   string
	quoted bool
	keys   []string // of a mapping, in the order of the text
	items  []value  // of a list, or the values of a mapping
}

// readValue reads the first document of a text. If the text is JSON, it is
// read as JSON, because YAML has no surrogate pairs and is many times slower.
func readValue(data []byte) (value, error) {
	if len(data) > MaxSize {
		return value{}, fault("jobspec has %d bytes, at most %d are read", len(data), MaxSize)
	}
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		if v, ok, err := readJSON(data); ok {
			return v, err
		}
	}
	return readYAML(data)
}

// child returns the value at a step of a path.
func (v value) child(s step) (value, bool) {
	if s.key != "" {
		return v.get(s.key)
	}
	if v.kind != kindList || s.index >= len(v.items) {
		return value{}, false
	}
	return v.items[s.index], true
}

// get returns the value of a key.
func (v value) get(key string) (value, bool) {
	for i, k := range v.keys {
		if k == key {
			return v.items[i], true
		}
	}
	return value{}, false
}

// String describes the value for error messages.
func (v value) String() string {
	switch v.kind {
	case kindNull:
		return "null"
	case kindBool, kindNumber, kindText:
		return shorten(v.text)
	case kindList:
		return "a list"
	case kindMapping:
		return "a mapping"
	}
	return "an unknown value"
}

// scalar returns the text of a number, a truth value or a text.
func (v value) scalar() (string, error) {
	switch v.kind {
	case kindBool, kindNumber, kindText:
		return v.text, nil
	case kindNull, kindList, kindMapping:
	}
	return "", faultAt(v, "%v: not a text", v)
}

// list returns the items of a list. It returns an error for any other value.
func (v value) list() ([]value, error) {
	if v.kind != kindList {
		return nil, faultAt(v, "%v: not a list", v)
	}
	return v.items, nil
}

// mapping returns an error if the value is not a mapping.
func (v value) mapping() error {
	if v.kind != kindMapping {
		return faultAt(v, "%v: not a mapping", v)
	}
	return nil
}

// require returns the value of a key. It returns an error if the key is missing.
func (v value) require(key string) (value, error) {
	item, ok := v.get(key)
	if !ok {
		return value{}, faultAt(v, "key %q is missing", key)
	}
	return item, nil
}
