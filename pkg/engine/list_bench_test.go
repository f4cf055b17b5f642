package engine

import (
	"fmt"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// BenchmarkAuditPage lists a page of a cluster with ten slots on each node.
func BenchmarkAuditPage(b *testing.B) {
	for _, nodes := range []int{1_000, 5_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			e, epoch := engineWithSlots(b, nodes)
			b.ReportAllocs()
			for b.Loop() {
				page, err := e.Nodes(b.Context(), epoch, "node5", 167)
				if err != nil || len(page) != 167 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}

// engineWithSlots returns an engine whose nodes have ten slots each.
func engineWithSlots(b *testing.B, nodes int) (*Engine, match.Epoch) {
	b.Helper()
	e, err := New(Options{Epoch: func() match.Epoch { return 1 }})
	if err != nil {
		b.Fatal(err)
	}
	epoch, err := e.Reset(b.Context())
	for n := range nodes {
		name := fmt.Sprintf("node%d", n)
		if err == nil {
			err = e.PutNode(b.Context(), epoch, matchtest.Node(name, [][2]string{{"rack", fmt.Sprintf("rack%d", n/40)}},
				matchtest.Cores(96), matchtest.Memory(512), matchtest.Pods(110)))
		}
		job := match.Job{ID: match.JobID(n + 1)}
		for s := range 10 {
			job.Slots = append(job.Slots, matchtest.Held(fmt.Sprint(s), name, matchtest.Cores(1), matchtest.Memory(1), matchtest.Pods(1)))
		}
		if err == nil {
			err = e.Update(b.Context(), epoch, job)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return e, epoch
}
