package resource

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// appendNodes writes the keys nodelist and, if a node with a rank has any,
// properties of R's execution.
func appendNodes(b []byte, shares []Share) []byte {
	b = append(b, `,"nodelist":[`...)
	var nodes []*Share
	for i := range shares {
		if v := &shares[i]; v.Type == TypeNode && v.Name != "" {
			nodes = append(nodes, v)
		}
	}
	if len(nodes) == 0 {
		return append(b, ']')
	}
	slices.SortStableFunc(nodes, func(a, b *Share) int { return cmp.Compare(a.Rank, b.Rank) })
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	b = appendText(b, encodeHostlist(names))
	return appendProperties(append(b, ']'), nodes)
}

// appendProperties writes the ranks that have each property, as name or, with a
// value, as name=value.
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

// hostname says whether a name can stand in a hostlist (RFC 29). The empty name
// can: it is left out.
func hostname(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c <= ' ', c > '~', c == ',', c == '[', c == ']':
			return false
		}
	}
	return true
}

// encodeHostlist writes names in their order as a hostlist (RFC 29), following
// ones with the same beginning as one: "a[0-9,12]".
func encodeHostlist(names []string) string {
	var b []byte
	for i := 0; i < len(names); {
		if i > 0 {
			b = append(b, ',')
		}
		prefix, first, ok := splitNumber(names[i])
		if !ok {
			b = append(b, names[i]...)
			i++
			continue
		}
		width := 0
		if len(first) > 1 && first[0] == '0' {
			width = len(first)
		}
		var ids []int64
		start := i
		for ; i < len(names); i++ {
			p, digits, ok := splitNumber(names[i])
			id, err := strconv.ParseInt(digits, 10, 64)
			if !ok || err != nil || p != prefix || padded(id, width) != digits {
				break
			}
			ids = append(ids, id)
		}
		if len(ids) == 1 {
			b = append(b, names[start]...)
			continue
		}
		b = append(append(b, prefix...), '[')
		b = appendRanges(b, ids, func(b []byte, id int64) []byte { return append(b, padded(id, width)...) })
		b = append(b, ']')
	}
	return string(b)
}

// splitNumber parts a name into what stands before the digits at its end, and
// those; ok is false where there are none, or more than an id may have.
func splitNumber(name string) (prefix, digits string, ok bool) {
	prefix = strings.TrimRight(name, "0123456789")
	digits = name[len(prefix):]
	return prefix, digits, digits != "" && len(digits) <= 18
}

func padded(id int64, width int) string {
	digits := strconv.FormatInt(id, 10)
	return strings.Repeat("0", max(0, width-len(digits))) + digits
}
