package resource

// Hang adds v below the vertex with the index parent, or as the root where that
// is -1, and returns its index. Of v it needs the type and the name: it numbers v
// by its place in the graph, calls it after its type, gives it no rank and the
// path of containment that its parent leads to.
func (g *Graph) Hang(parent int, v Vertex) int {
	at := len(g.Vertices)
	path := "/" + v.Name
	if parent >= 0 {
		path = g.Vertices[parent].Path + path
		g.Edges = append(g.Edges, Edge{Source: parent, Target: at, Subsystem: Containment})
	}
	v.UniqID, v.Basename, v.Rank = int64(at), v.Type, NoRank
	v.Path = path
	g.Vertices = append(g.Vertices, v)
	return at
}
