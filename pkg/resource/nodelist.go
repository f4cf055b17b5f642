package resource

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/hostlist"
)

// namedNodes returns the node vertices that have a name.
func namedNodes(shares []Share) []*Share {
	var nodes []*Share
	for i := range shares {
		if v := &shares[i]; v.Type == TypeNode && v.Name != "" {
			nodes = append(nodes, v)
		}
	}
	return nodes
}

// appendNodes writes two keys of R's execution: nodelist and, if a
// node with a rank has any, properties. It sorts the nodes by rank.
func appendNodes(b []byte, nodes []*Share) []byte {
	b = append(b, `,"nodelist":[`...)
	if len(nodes) == 0 {
		return append(b, ']')
	}
	slices.SortStableFunc(nodes, func(a, b *Share) int { return cmp.Compare(a.Rank, b.Rank) })
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	b = appendText(b, hostlist.Encode(names))
	return appendProperties(append(b, ']'), nodes)
}

// appendProperties writes the ranks that have each property. A
// property is written as name, or as name=value if it has a value.
func appendProperties(b []byte, nodes []*Share) []byte {
	ranks := map[string][]int64(nil)
	for _, n := range nodes {
		if n.Rank < 0 {
			continue
		}
		for name, value := range n.Properties {
			if value != "" {
				name += "=" + value
			}
			ranks = collect(ranks, name, n.Rank)
		}
	}
	if len(ranks) == 0 {
		return b
	}
	b = append(b, `,"properties":{`...)
	for i, name := range slices.Sorted(maps.Keys(ranks)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIDSet(append(appendText(b, name), ':'), ranks[name])
	}
	return append(b, '}')
}
