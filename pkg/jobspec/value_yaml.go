package jobspec

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// readYAML reads the first document of a YAML text.
func readYAML(data []byte) (value, error) {
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return value{}, fault("jobspec is empty")
	case err != nil:
		return value{}, fmt.Errorf("read jobspec: %w", err)
	case len(doc.Content) != 1:
		return value{}, fault("jobspec is empty")
	}
	r := yamlReader{left: maxCost}
	return r.value(doc.Content[0], 0)
}

// A yamlReader turns the nodes of the yaml package into values.
// It follows aliases, so left also counts what an alias repeats.
type yamlReader struct{ left int }

func (r *yamlReader) value(n *yaml.Node, depth int) (value, error) {
	v := value{line: n.Line}
	if n.Kind == yaml.AliasNode {
		// An anchor may contain its own alias. The depth ends that recursion too.
		return r.value(n.Alias, depth+1)
	}
	if r.left -= valueCost + len(n.Value); r.left < 0 {
		return v, faultAt(v, "jobspec is too large once its aliases are followed")
	}
	if depth >= maxDepth {
		return v, faultAt(v, "nested deeper than %d", maxDepth)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		v.text = n.Value
		v.kind, v.quoted = scalarKind(n)
	case yaml.SequenceNode:
		v.kind = kindList
		v.items = make([]value, 0, len(n.Content))
		for i, c := range n.Content {
			item, err := r.value(c, depth+1)
			if err != nil {
				return v, inItem(i, err)
			}
			v.items = append(v.items, item)
		}
	case yaml.MappingNode:
		if err := r.mapping(&v, n, depth); err != nil {
			return v, err
		}
	case yaml.DocumentNode, yaml.AliasNode:
		return v, faultAt(v, "unexpected YAML node")
	}
	return v, nil
}

func (r *yamlReader) mapping(v *value, n *yaml.Node, depth int) error {
	v.kind = kindMapping
	seen := make(map[string]struct{}, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, err := r.value(n.Content[i], depth+1)
		if err != nil {
			return err
		}
		if k.kind == kindList || k.kind == kindMapping {
			return faultAt(k, "a key of a mapping is %v", k)
		}
		if _, twice := seen[k.text]; twice {
			return faultAt(k, "key %s appears twice", shorten(k.text))
		}
		seen[k.text] = struct{}{}
		item, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return in(k.text, err)
		}
		v.keys = append(v.keys, k.text)
		v.items = append(v.items, item)
	}
	return nil
}

// scalarKind returns the kind that YAML gives a scalar, and whether the scalar was quoted.
func scalarKind(n *yaml.Node) (k kind, quoted bool) {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return kindText, true
	}
	switch n.ShortTag() {
	case "!!null":
		return kindNull, false
	case "!!bool":
		return kindBool, false
	case "!!int", "!!float":
		return kindNumber, false
	}
	return kindText, false
}
