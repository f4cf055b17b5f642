package golden

import (
	"encoding/json"
	"slices"
)

// Shrink makes a case smaller as long as fails returns true for the smaller one. It
// leaves out steps, then jobspecs that no step names, and vertices with everything
// below them. It returns a case with the answers of the program that right opens.
func Shrink(c Case, right Open, fails func(*Case) bool) Case {
	still := func(smaller Case) bool {
		if Record(&smaller, right) != nil || !smaller.Expect.Init.OK || !fails(&smaller) {
			return false
		}
		c = smaller
		return true
	}
	for size := max(1, len(c.Steps)/2); size > 0; size /= 2 {
		for at := len(c.Steps) - size; at >= 0; at = min(at-size, len(c.Steps)-size) {
			smaller := c
			smaller.Steps = slices.Delete(slices.Clone(c.Steps), at, at+size)
			still(smaller)
		}
	}
	named := map[string]string{}
	for _, s := range c.Steps {
		if text, ok := c.Jobspecs[s.Jobspec]; ok {
			named[s.Jobspec] = text
		}
	}
	c.Jobspecs = named
	for i := 1; i < graphSize(c.GraphText); {
		smaller := c
		if smaller.GraphText = without(c.GraphText, i); smaller.GraphText == nil || !still(smaller) {
			i++
		}
	}
	return c
}

// A looseGraph is a JGF. Only the ends of its edges are read.
type looseGraph struct {
	Graph struct {
		Nodes []map[string]any `json:"nodes"`
		Edges []map[string]any `json:"edges"`
	} `json:"graph"`
}

func graphSize(text []byte) int {
	var g looseGraph
	if json.Unmarshal(text, &g) != nil {
		return 0
	}
	return len(g.Graph.Nodes)
}

// without returns a graph without the i-th vertex and all vertices below it.
func without(text []byte, i int) json.RawMessage {
	var g looseGraph
	if json.Unmarshal(text, &g) != nil {
		return nil
	}
	at := map[any]int{}
	for i, n := range g.Graph.Nodes {
		at[n["id"]] = i
	}
	gone := map[any]bool{g.Graph.Nodes[i]["id"]: true}
	for more := true; more; {
		more = false
		for _, e := range g.Graph.Edges {
			// A drawn vertex comes after the vertices above it.
			if down := at[e["source"]] < at[e["target"]]; down && gone[e["source"]] && !gone[e["target"]] {
				gone[e["target"]], more = true, true
			}
		}
	}
	g.Graph.Nodes = slices.DeleteFunc(g.Graph.Nodes, func(n map[string]any) bool { return gone[n["id"]] })
	g.Graph.Edges = slices.DeleteFunc(g.Graph.Edges, func(e map[string]any) bool { return gone[e["source"]] || gone[e["target"]] })
	smaller, err := json.Marshal(g)
	if err != nil {
		return nil
	}
	return smaller
}
