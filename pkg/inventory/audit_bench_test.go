package inventory

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkAuditPage compares one page of a cluster of ten pods a node with an
// engine in the same process, as is done once a second.
func BenchmarkAuditPage(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 5_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", nodes, 10*nodes), func(b *testing.B) {
			inNodes, inPods := newInformer(), newInformer()
			i, err := New(Config{Engine: embedded(), Nodes: inNodes, Pods: inPods})
			if err != nil {
				b.Fatal(err)
			}
			for n := range nodes {
				node := node(fmt.Sprintf("n%d", n), "8")
				done(inNodes.store.Add(node))
				i.setNode(nil, node)
				for p := range 10 {
					uid := types.UID(fmt.Sprintf("uid-%d-%d", n, p))
					pod := pod(string(uid), uid, node.Name, "1")
					done(inPods.store.Add(pod))
					i.setPod(nil, pod)
				}
			}
			e, err := i.load(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			a := newAudit(sender{inventory: i, epoch: e, timeout: time.Minute})
			b.ReportAllocs()
			for b.Loop() {
				if err := a.comparePage(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			if len(a.suspects) > 0 {
				b.Fatalf("%d suspects", len(a.suspects))
			}
		})
	}
}
