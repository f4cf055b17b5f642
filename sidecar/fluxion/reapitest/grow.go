package reapitest

import "github.com/flux-k8s/fluence/pkg/traverser"

// A Grower is a client whose graph can grow and shrink, as in release 0.54.
type Grower struct{ *Library }

// OpenGrower returns a client of release 0.54 without a graph.
func (p *Process) OpenGrower() Grower { return Grower{p.Open(V054)} }

// AddSubgraph adds vertices. It opens the table of types.
func (g Grower) AddSubgraph(jgf string) error {
	leave, failed := g.enter("AddSubgraph")
	defer leave()
	if failed != nil {
		return failed
	}
	part, err := traverser.Read([]byte(jgf))
	if err == nil {
		err = g.graph.Add(part)
	}
	if err != nil {
		return g.fail("add_subgraph: ERROR: %v", err)
	}
	g.graph.index()
	for _, v := range g.graph.Graph().Vertices {
		g.process.types.names[v.Type] = true
	}
	return nil
}

// RemoveSubgraph removes the vertex at a path and all below it. The library does so even if jobs hold
// something there. The stand-in panics then, because nobody may depend on that.
func (g Grower) RemoveSubgraph(path string) error {
	leave, failed := g.enter("RemoveSubgraph")
	defer leave()
	if failed != nil {
		return failed
	}
	for held := range g.graph.held() {
		if len(held) > len(path) && held[:len(path)+1] == path+"/" {
			panic("reapitest: RemoveSubgraph of " + path + " while a job holds " + held)
		}
	}
	if err := g.graph.Remove(path); err != nil {
		return g.fail("remove_subgraph: ERROR: %v", err)
	}
	g.graph.index()
	return nil
}
