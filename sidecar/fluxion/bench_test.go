package fluxion_test

import (
	"fmt"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// BenchmarkMatch places a group that fills nodes and releases it, over
// the stand-in, which takes most of the time. One node is excluded.
func BenchmarkMatch(b *testing.B) {
	for _, slots := range []int64{1, 64, 512} {
		b.Run(fmt.Sprintf("nodes=300/slots=%d", slots), func(b *testing.B) {
			nodes := make([]*resource.Graph, 300)
			for i := range nodes {
				nodes[i] = matchtest.Node(fmt.Sprintf("node-%03d", i), nil, matchtest.Cores(16), matchtest.Memory(16), matchtest.Pods(32))
			}
			r := newRig(b, reapitest.V054, nodes...)
			js := matchtest.Slots("w", slots, matchtest.Cores(4), matchtest.Memory(4), matchtest.Pods(1))
			js = matchtest.Constrain(js, "w", jobspec.SlotAttributes{Constraints: matchtest.Not(matchtest.Hosts("node-007"))})
			for id := match.JobID(1); b.Loop(); id++ {
				if _, err := r.Match(b.Context(), r.ask(id, js)); err != nil {
					b.Fatalf("Match(%d) = %v", id, err)
				}
				r.release(b, id)
			}
		})
	}
}
