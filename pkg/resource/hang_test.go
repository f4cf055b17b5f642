package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHangBuildsATreeWithPaths(t *testing.T) {
	var g Graph
	root := g.Hang(-1, Vertex{Type: TypeCluster, Name: "cluster0", Size: 1})
	node := g.Hang(root, Vertex{Type: TypeNode, Name: "n1", Size: 1, Status: Down})
	g.Hang(node, Vertex{Type: "core", Name: "core0", Size: 4000, Unit: "m"})
	g.Hang(root, Vertex{Type: TypeNode, Name: "n2", Size: 1})

	want := Graph{
		Vertices: []Vertex{
			{UniqID: 0, Type: TypeCluster, Basename: TypeCluster, Name: "cluster0", Rank: NoRank, Size: 1, Path: "/cluster0"},
			{UniqID: 1, Type: TypeNode, Basename: TypeNode, Name: "n1", Rank: NoRank, Size: 1, Status: Down, Path: "/cluster0/n1"},
			{UniqID: 2, Type: "core", Basename: "core", Name: "core0", Rank: NoRank, Size: 4000, Unit: "m", Path: "/cluster0/n1/core0"},
			{UniqID: 3, Type: TypeNode, Basename: TypeNode, Name: "n2", Rank: NoRank, Size: 1, Path: "/cluster0/n2"},
		},
		Edges: []Edge{
			{Source: 0, Target: 1, Subsystem: Containment},
			{Source: 1, Target: 2, Subsystem: Containment},
			{Source: 0, Target: 3, Subsystem: Containment},
		},
	}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("graph (-want +got):\n%s", diff)
	}
}
