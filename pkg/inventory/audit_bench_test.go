package inventory

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkAuditPage compares one page of a cluster of ten pods a node with an
// engine in the same process, as is done once a second. Further pods have no node.
func BenchmarkAuditPage(b *testing.B) {
	for _, size := range []struct{ nodes, waiting int }{{100, 0}, {1_000, 0}, {1_000, 50_000}, {5_000, 0}, {10_000, 0}} {
		nodes := size.nodes
		b.Run(fmt.Sprintf("nodes=%d/pods=%d/waiting=%d", nodes, 10*nodes, size.waiting), func(b *testing.B) {
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
			for w := range size.waiting {
				name := fmt.Sprintf("waiting-%d", w)
				done(inPods.store.Add(pod(name, types.UID(name), "", "1")))
			}
			e, err := i.load(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			a := newAudit(sender{inventory: i, epoch: e, timeout: time.Minute})
			b.ReportAllocs()
			for b.Loop() {
				a.restsUntil = time.Time{}
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
