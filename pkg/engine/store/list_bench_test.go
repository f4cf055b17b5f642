package store

import (
	"fmt"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// BenchmarkPageLockTime measures how long matches wait for a page of a cluster with ten slots on each
// node: once while all names are sorted, and once after that.
func BenchmarkPageLockTime(b *testing.B) {
	for _, first := range []bool{true, false} {
		b.Run(fmt.Sprintf("nodes=10000/first=%v", first), func(b *testing.B) {
			st := New()
			for n := range 10_000 {
				name := fmt.Sprintf("node%d", n)
				err := st.PutNodes(matchtest.Node(name, [][2]string{{"rack", fmt.Sprintf("rack%d", n/40)}},
					matchtest.Cores(96), matchtest.Memory(512), matchtest.Pods(110)))
				job := match.Job{ID: match.JobID(n + 1)}
				for s := range 10 {
					job.Slots = append(job.Slots, matchtest.Held(fmt.Sprint(s), name, matchtest.Cores(1), matchtest.Memory(1), matchtest.Pods(1)))
				}
				if err == nil {
					err = st.Update(job)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if first {
					st.hosts.names = nil
				}
				st.Page("node5", 334)
			}
		})
	}
}
