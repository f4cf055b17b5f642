package jobspec

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EncodeYAML returns the jobspec of Encode as YAML for people to read, with one line per
// key. Texts are quoted, because YAML would take some of them for numbers or truth values.
func (j *Jobspec) EncodeYAML() ([]byte, error) {
	text, err := j.Encode()
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("write jobspec: %w", err)
	}
	unfold(&doc, false)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, fmt.Errorf("write jobspec: %w", err)
	}
	if b.Len() > MaxSize {
		return nil, fmt.Errorf("jobspec has %d bytes as YAML, at most %d are read", b.Len(), MaxSize)
	}
	return b.Bytes(), nil
}

// plainKeys are keys of RFC 14, of RFC 31 and of attributes.system.fluence.
// They need no quotes, because YAML takes them for texts.
var plainKeys = strings.Fields(`version resources tasks attributes
	type count unit exclusive with label id min max operator operand
	command slot per_slot total distribution
	user system duration queue cwd environment constraints fluence constraintsNow maxPerLevel
	properties hostlist ranks and or not`)

// unfold puts each entry on a line, except in lists of
// texts or numbers. It takes the quotes off plain keys.
func unfold(n *yaml.Node, key bool) {
	lines := n.Kind == yaml.MappingNode
	for i, item := range n.Content {
		unfold(item, n.Kind == yaml.MappingNode && i%2 == 0)
		lines = lines || len(item.Content) > 0
	}
	if lines && len(n.Content) > 0 || key && slices.Contains(plainKeys, n.Value) {
		n.Style = 0
	}
}
