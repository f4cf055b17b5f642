package resource

// Hang adds v below the vertex with index parent, or as the root if parent is -1. It returns
// the index of v. The caller must set the type and the name of v. Hang sets UniqID to the
// index, Basename to the type, Rank to NoRank, and Path to the path of the parent and the name.
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
