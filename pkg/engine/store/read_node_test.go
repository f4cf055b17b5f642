package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

func TestReadNodeGraphRefuses(t *testing.T) {
	cases := map[string]struct {
		change  func(g *resource.Graph)
		wantErr string
	}{
		"no node": {
			change:  func(g *resource.Graph) { g.Vertices[2].Type = "host" },
			wantErr: "the graph has no vertex of type node",
		},
		"two nodes": {
			change:  func(g *resource.Graph) { g.Vertices[1].Type = "node" },
			wantErr: `the graph has more than one node: "r1" and "n1"`,
		},
		"a node that is the root": {
			change:  func(g *resource.Graph) { g.Vertices, g.Edges = g.Vertices[2:3], nil },
			wantErr: `node "n1" has no parent: a node must be below a root vertex`,
		},
		"a vertex in two others": {
			change:  func(g *resource.Graph) { g.Edges = append(g.Edges, resource.Edge{Source: 0, Target: 2}) },
			wantErr: `vertex "n1" has two parents`,
		},
		"a circle above": {
			change:  func(g *resource.Graph) { g.Edges = append(g.Edges, resource.Edge{Source: 1, Target: 0}) },
			wantErr: `node "n1": the edges form a cycle`,
		},
		"a circle through the node": {
			change:  func(g *resource.Graph) { g.Edges = append(g.Edges, resource.Edge{Source: 2, Target: 0}) },
			wantErr: `node "n1": the edges form a cycle`,
		},
		"a circle beside": {
			change: func(g *resource.Graph) {
				g.Vertices = append(g.Vertices, resource.Vertex{Type: "a"}, resource.Vertex{Type: "b"})
				g.Edges = append(g.Edges, resource.Edge{Source: 4, Target: 5}, resource.Edge{Source: 5, Target: 4})
			},
			wantErr: `node "n1": 2 vertices are neither above nor below it`,
		},
		"a vertex beside the way": {
			change: func(g *resource.Graph) {
				g.Vertices = append(g.Vertices, resource.Vertex{Type: "rack", Name: "r2"})
				g.Edges = append(g.Edges, resource.Edge{Source: 0, Target: 4})
			},
			wantErr: `node "n1": 1 vertices are neither above nor below it`,
		},
		"an edge to nowhere": {
			change:  func(g *resource.Graph) { g.Edges[0].Target = 4 },
			wantErr: "edge from vertex 0 to vertex 4: the graph has only 4 vertices",
		},
		"an edge from nowhere": {
			change:  func(g *resource.Graph) { g.Edges[0].Source = -1 },
			wantErr: "edge from vertex -1 to vertex 1: the graph has only 4 vertices",
		},
		"a vertex without a type": {
			change:  func(g *resource.Graph) { g.Vertices[3].Type = "" },
			wantErr: `vertex "core0" below "/cluster0/r1/n1" has no type`,
		},
		"a size below 0": {
			change:  func(g *resource.Graph) { g.Vertices[3].Size = -1 },
			wantErr: `vertex "core0" below "/cluster0/r1/n1": size must be at least 0, is -1`,
		},
		"an unknown status": {
			change:  func(g *resource.Graph) { g.Vertices[2].Status = 7 },
			wantErr: `vertex "n1" below "/cluster0/r1": unknown status 7`,
		},
		"a path of another rack": {
			change: func(g *resource.Graph) {
				g.Vertices[2].Path = "/cluster0/r2/n1"
			},
			wantErr: `vertex "n1" has the path /cluster0/r2/n1, which is not below "/cluster0/r1"`,
		},
		"two vertices of one path": {
			change: func(g *resource.Graph) {
				g.Vertices = append(g.Vertices, g.Vertices[3])
				g.Edges = append(g.Edges, resource.Edge{Source: 2, Target: 4})
			},
			wantErr: `node "n1": two vertices have the path /cluster0/r1/n1/core0`,
		},
		"one pool in two units": {
			change: func(g *resource.Graph) {
				g.Vertices = append(g.Vertices, resource.Vertex{Type: "core", ID: 1, Unit: "k"})
				g.Edges = append(g.Edges, resource.Edge{Source: 2, Target: 4})
			},
			wantErr: `node "n1": core has two units, "m" and "k"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := matchtest.Node("n1", [][2]string{{"rack", "r1"}}, matchtest.Cores(1))
			if _, err := readNodeGraph(g); err != nil {
				t.Fatalf("before the change readNodeGraph() = %v", err)
			}
			tc.change(g)
			_, err := readNodeGraph(g)
			if !errors.Is(err, match.ErrInvalid) || !strings.HasSuffix(err.Error(), tc.wantErr) {
				t.Errorf("readNodeGraph() = %v, want %s: %s", err, match.ErrInvalid, tc.wantErr)
			}
		})
	}
	if _, err := readNodeGraph(nil); !errors.Is(err, match.ErrInvalid) {
		t.Errorf("readNodeGraph(nil) = %v, want the error %q", err, match.ErrInvalid)
	}
}

func TestReadNodeGraphFillsInNamesAndPaths(t *testing.T) {
	g := &resource.Graph{
		Vertices: []resource.Vertex{
			{Type: "core", ID: 3, Size: 1}, {Type: "node", Name: "n1"}, {Type: "cluster", Basename: "hpc"},
		},
		Edges: []resource.Edge{
			{Source: 2, Target: 1}, {Source: 1, Target: 0},
			{Source: 0, Target: 2, Subsystem: "power"},
		},
	}
	s, err := readNodeGraph(g)
	if err != nil {
		t.Fatalf("readNodeGraph() = %v", err)
	}
	for _, v := range []struct {
		got        *resource.Vertex
		name, path string
	}{
		{s.ancestors[0], "hpc0", "/hpc0"},
		{s.node, "n1", "/hpc0/n1"},
		{s.descendants[0].res, "core3", "/hpc0/n1/core3"},
	} {
		if v.got.Name != v.name || v.got.Path != v.path {
			t.Errorf("%s has the path %v, want %s with %s", v.got.Name, v.got.Path, v.name, v.path)
		}
	}
}
