package reapitest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// closesTypes is the first release that closes its table of types.
const closesTypes Release = 47

// A typeTable has the names of types that a process knows. From release 0.47 to 0.54.0 the first
// graph that loads closes the table. A later graph may only have types of the table, in its vertices
// and in its filters.
type typeTable struct {
	names  map[string]bool
	closed bool
}

func newTypeTable() typeTable {
	t := typeTable{names: make(map[string]bool)}
	for _, name := range []string{"cluster", "core", "socket", "gpu", "node", "rack", "slot"} {
		t.names[name] = true
	}
	return t
}

// learn adds names. It stops at the first new name if the table is closed.
func (t *typeTable) learn(names []string) error {
	for _, name := range names {
		if t.closed && !t.names[name] {
			return fmt.Errorf("This interner is finalized and must be open to add strings, found new string: '%s': Cannot allocate memory", name) //nolint:staticcheck // the library's own words
		}
		t.names[name] = true
	}
	return nil
}

// knows reports whether all types of a request are in the table.
func (t *typeTable) knows(rs []jobspec.Resource) bool {
	return !slices.ContainsFunc(rs, func(r jobspec.Resource) bool { return !t.names[r.Type] || !t.knows(r.With) })
}

// typesOf returns the types that a graph has in its vertices and then in its filters.
func typesOf(g *graph, options string) []string {
	var names []string
	for _, v := range g.Graph().Vertices {
		names = append(names, v.Type)
	}
	var o struct {
		Filters string `json:"prune_filters"`
	}
	_ = json.Unmarshal([]byte(options), &o) // It was read before.
	for filter := range strings.SplitSeq(o.Filters, ",") {
		high, low, ok := strings.Cut(filter, ":")
		if high != "ALL" && ok {
			names = append(names, high)
		}
		if ok {
			names = append(names, low)
		}
	}
	return names
}
