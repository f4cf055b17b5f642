package fluxion

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// An answer is what the library gave out: R in JGF, read as far as it is of use.
type answer struct {
	// nodes are the numbers of nodes with something on them, as they came.
	nodes []int64
	// units are those below each node, by the name of their type, and way the
	// vertices on the way to them, by path.
	units     map[int64]map[string][]answerVertex
	ancestors map[string]answerVertex
	// parents is what each vertex stands in, by id.
	parents map[string]string
}

// A piece is a vertex of an answer, as it was written.
type answerVertex struct {
	ID       string          `json:"id"`
	Metadata json.RawMessage `json:"metadata"`
	path     string
}

// An edge is one of an answer.
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

// nodeAbove returns the number of the node that the vertex at a path stands in
// directly.
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

// share is the part of R that is one slot's: what it holds of a node, nth among
// the slots there, and the way up from it.
func (a *answer) share(number int64, nth int64, need []amount) string {
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
	text, _ := json.Marshal(r) // It is made of what was read.
	return string(text)
}

// count returns how many slots stand on a node, or fails if what is there is no
// whole number of them.
func (a *answer) count(number int64, need []amount) (int64, error) {
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
