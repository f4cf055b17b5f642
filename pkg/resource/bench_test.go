package resource

import (
	"fmt"
	"io"
	"testing"
)

// sizes has the numbers of nodes of the clusters. Each node has two vertices.
var sizes = []int{100, 10_000}

func BenchmarkReadJGF(b *testing.B) {
	for _, nodes := range sizes {
		text, err := cluster(nodes).JGF()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := ReadJGF(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// flat returns the text of a graph of nodes with 64 cores and 8 gpus each,
// as other programs write it: with every key, even if it is a default.
func flat(nodes int) []byte {
	var b, edges []byte
	uniq := 0
	add := func(parent int, vertexType string, id, rank int, path string) int {
		if uniq > 0 {
			b = append(b, ',')
			edges = fmt.Appendf(edges, `{"source":"%d","target":"%d"},`, parent, uniq)
		}
		b = fmt.Appendf(b, `{"id":"%[1]d","metadata":{"type":"%[2]s","basename":"%[2]s","name":"%[2]s%[3]d","id":%[3]d,"uniq_id":%[1]d,"rank":%[4]d,"exclusive":false,"unit":"","size":1,"paths":{"containment":"%[5]s/%[2]s%[3]d"}}}`,
			uniq, vertexType, id, rank, path)
		uniq++
		return uniq - 1
	}
	b = append(b, `{"graph":{"nodes":[`...)
	root := add(-1, TypeCluster, 0, NoRank, "")
	for n := range nodes {
		node := add(root, TypeNode, n, n, "/cluster0")
		path := fmt.Sprintf("/cluster0/node%d", n)
		for i := range 64 {
			add(node, typeCore, i, n, path)
		}
		for i := range 8 {
			add(node, typeGPU, i, n, path)
		}
	}
	b = append(append(b, `],"edges":[`...), edges[:len(edges)-1]...)
	return append(b, "]}}"...)
}

func BenchmarkWalkJGF(b *testing.B) {
	for _, nodes := range sizes {
		text := flat(nodes)
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			vertices, edges := 0, 0
			for b.Loop() {
				vertices, edges = 0, 0
				err := WalkJGF(text, func(*Vertex) error { vertices++; return nil }, func(Edge) error { edges++; return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
			if want := 73*nodes + 1; vertices != want || edges != want-1 {
				b.Fatalf("%d vertices and %d edges, want %d and one less", vertices, edges, want)
			}
			b.ReportMetric(float64(vertices), "vertices")
		})
	}
}

func BenchmarkJGF(b *testing.B) {
	for _, nodes := range sizes {
		g := cluster(nodes)
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.JGF(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// onNode returns what a pod holds once it is matched: a node and four pools.
func onNode() *Set {
	s := pod()
	const node = "/cluster0/zone-a/ip-10-0-0-0.internal"
	for i := range s.Vertices {
		v := &s.Vertices[i]
		v.UniqID, v.Basename, v.Name, v.Size = int64(20+i), v.Type, v.Type+"0", 1<<40
		v.Path = node + "/" + v.Name
	}
	s.Vertices = append(s.Vertices, placed(3, TypeNode, node, 0, NoRank))
	return s
}

func BenchmarkEncodeSet(b *testing.B) {
	for name, s := range map[string]*Set{"amounts": pod(), "vertices": onNode()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseSet(b *testing.B) {
	for name, s := range map[string]*Set{"amounts": pod(), "vertices": onNode()} {
		text, err := s.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseSet(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkJGFWriter(b *testing.B) {
	for _, nodes := range sizes {
		g := cluster(nodes)
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := write(io.Discard, g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFormat(b *testing.B) {
	g := &Set{}
	for i := range 5000 {
		path := fmt.Sprintf("/cluster0/node%d", i)
		for j := range 8 {
			g.Vertices = append(g.Vertices, exclusively(placed(int64(100*i+j), typeCore, fmt.Sprintf("%s/core%d", path, j), int64(j), int64(i))))
		}
		g.Vertices = append(g.Vertices, placed(int64(100*i+99), TypeNode, path, int64(i), int64(i)))
	}
	for _, format := range Formats() {
		b.Run(format, func(b *testing.B) {
			for b.Loop() {
				if _, err := g.Format(format); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
