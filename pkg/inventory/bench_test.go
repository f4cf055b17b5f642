package inventory

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkLoad fills an engine with nodes of ten pods each.
func BenchmarkLoad(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 5_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			i, err := New(Config{Engine: embedded(), Nodes: newInformer(), Pods: newInformer()})
			if err != nil {
				b.Fatal(err)
			}
			for n := range nodes {
				i.setNode(nil, node(fmt.Sprintf("n%d", n), "8"))
				for p := range 10 {
					uid := types.UID(fmt.Sprintf("uid-%d-%d", n, p))
					i.setPod(nil, pod(string(uid), uid, fmt.Sprintf("n%d", n), "1"))
				}
			}
			for b.Loop() {
				if _, err := i.load(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHeartbeat sends events of nodes and pods that did not change.
func BenchmarkHeartbeat(b *testing.B) {
	i, err := New(Config{Engine: embedded(), Nodes: newInformer(), Pods: newInformer()})
	if err != nil {
		b.Fatal(err)
	}
	n, p := node("n1", "8"), pod("a", "u1", "n1", "1")
	b.Run("node", func(b *testing.B) {
		for b.Loop() {
			i.setNode(nil, n)
		}
	})
	b.Run("pod", func(b *testing.B) {
		for b.Loop() {
			i.setPod(nil, p)
		}
	})
}
