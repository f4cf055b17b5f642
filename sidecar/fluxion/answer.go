package fluxion

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// An answer has the vertices that the library gave out: the parts of R, in JGF, that are used.
type answer struct {
	// nodes are the numbers of the nodes with units on them, in the order of R.
	nodes []int64
	// units are the vertices below each node, by the name of their type.
	units map[int64]map[string][]answerVertex
	// ancestors are all other vertices (nodes, levels, cluster), by path.
	ancestors map[string]answerVertex
	// parents is the id of each vertex's parent, by the vertex's id.
	parents map[string]string
}

// An answerVertex is a vertex of R, as it was written.
type answerVertex struct {
	ID       string          `json:"id"`
	Metadata json.RawMessage `json:"metadata"`
	path     string
}

// An edge is an edge of R.
type edge struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// A document is a graph in JGF.
type document struct {
	Graph struct {
		Nodes []answerVertex `json:"nodes"`
		Edges []edge         `json:"edges"`
	} `json:"graph"`
}

// readAnswer reads R.
func readAnswer(text string) (*answer, error) {
	var r document
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("read R: %w", err)
	}
	a := &answer{units: make(map[int64]map[string][]answerVertex), ancestors: make(map[string]answerVertex), parents: make(map[string]string)}
	for _, x := range r.Graph.Edges {
		a.parents[x.Target] = x.Source
	}
	for _, p := range r.Graph.Nodes {
		var about struct {
			Type  string            `json:"type"`
			Paths map[string]string `json:"paths"`
		}
		if err := json.Unmarshal(p.Metadata, &about); err != nil {
			return nil, fmt.Errorf("read R: vertex %q: %w", p.ID, err)
		}
		p.path = about.Paths[resource.Containment]
		number, ok := nodeAbove(p.path)
		if !ok {
			a.ancestors[p.path] = p
			continue
		}
		if a.units[number] == nil {
			a.units[number] = make(map[string][]answerVertex)
			a.nodes = append(a.nodes, number)
		}
		a.units[number][about.Type] = append(a.units[number][about.Type], p)
	}
	return a, nil
}

// nodeAbove returns the number of the node directly above the vertex at a path.
func nodeAbove(path string) (int64, bool) {
	steps := strings.Split(path, "/")
	if len(steps) < 3 {
		return 0, false
	}
	digits, ok := strings.CutPrefix(steps[len(steps)-2], nodeBasename)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// slotR returns the part of R that belongs to one slot, the nth on a node: the units of the slot,
// and the vertices from there to the root.
func (a *answer) slotR(number int64, nth int64, need []unitCount) string {
	var nodes []answerVertex
	for _, x := range need {
		nodes = append(nodes, a.units[number][x.typeName][nth*x.n:(nth+1)*x.n]...)
	}
	for path := nodes[0].path; ; {
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
		if path == "" {
			break
		}
		if p, ok := a.ancestors[path]; ok {
			nodes = append(nodes, p)
		}
	}
	var r document
	r.Graph.Nodes = nodes
	for _, p := range nodes {
		if above, ok := a.parents[p.ID]; ok {
			r.Graph.Edges = append(r.Graph.Edges, edge{above, p.ID})
		}
	}
	text, _ := json.Marshal(r) // It consists of what was read.
	return string(text)
}

// count returns the number of slots on a node. It fails if the node's units are not a whole number
// of slots.
func (a *answer) count(number int64, need []unitCount) (int64, error) {
	has := a.units[number]
	if len(has) != len(need) {
		return 0, fmt.Errorf("%w: %d types on node %d, want %d", errDamaged, len(has), number, len(need))
	}
	n := int64(len(has[need[0].typeName])) / need[0].n
	for _, x := range need {
		if got := int64(len(has[x.typeName])); n == 0 || got != n*x.n {
			return 0, fmt.Errorf("%w: %d of %s on node %d, which is not %d slots of %d", errDamaged, got, x.typeName, number, n, x.n)
		}
	}
	return n, nil
}
