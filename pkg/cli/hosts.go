package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/hostlist"
)

// maxHostText bounds the length of a list of nodes on one line, in bytes.
const maxHostText = 60

// hosts writes names in the short form of RFC 29 of the Flux project: node-[0-3,8]. A list that is long
// is cut, unless all is set. The names are those of nodes, which need no quoting.
func hosts(names []string, all bool) string {
	names = slices.SortedFunc(slices.Values(names), hostlist.Compare)
	text := hostlist.Encode(names)
	if all || len(text) <= maxHostText {
		return text
	}
	n := len(names)
	for len(text) > maxHostText && n > 1 {
		n = max(1, n*maxHostText/len(text))
		text = hostlist.Encode(names[:n])
	}
	return fmt.Sprintf("%s and %d more", text, len(names)-n)
}

// podsOnNodes returns how many pods are on which nodes: "node-[0-3]: 1, node-4: 2". After maxParts parts it
// only counts the other nodes. Zero means no limit.
func podsOnNodes(on map[string]int, maxParts int) string {
	byNumber := map[int][]string{}
	for _, node := range sortedKeys(on) {
		byNumber[on[node]] = append(byNumber[on[node]], node)
	}
	type part struct {
		nodes []string
		text  string
	}
	var parts []part
	for n, nodes := range byNumber {
		parts = append(parts, part{nodes, fmt.Sprintf("%s: %d", hosts(nodes, maxParts == 0), n)})
	}
	slices.SortFunc(parts, func(a, b part) int { return hostlist.Compare(a.nodes[0], b.nodes[0]) })
	var texts []string
	more := 0
	for i, p := range parts {
		if maxParts > 0 && i >= maxParts {
			more += len(p.nodes)
			continue
		}
		texts = append(texts, p.text)
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}
