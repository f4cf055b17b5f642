package resource

import (
	"fmt"
	"testing"
)

// Sizes of a cluster in nodes, of two vertices each.
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

// onNode is what a pod holds once it has been matched: a node and four pools.
func onNode() *Set {
	s := pod()
	const node = "/cluster0/zone-a/ip-10-0-0-0.internal"
	for i := range s.Vertices {
		v := &s.Vertices[i]
		v.UniqID, v.Basename, v.Name, v.Size = int64(20+i), v.Type, v.Type+"0", 1<<40
		v.Paths = map[string]string{Containment: node + "/" + v.Name}
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
