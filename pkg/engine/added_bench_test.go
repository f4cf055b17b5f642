package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

// The graph of the benchmarks: a cluster of nodes with so many cores and gpus,
// each a vertex.
const (
	coresPerNode = 64
	gpusPerNode  = 8
)

// flat writes it as JGF.
func flat(nodes int) []byte {
	var vertices, edges bytes.Buffer
	uniq := 0
	vertex := func(parent int, kind string, id, rank int, path string) int {
		if uniq > 0 {
			vertices.WriteByte(',')
		}
		fmt.Fprintf(&vertices, `{"id":"%d","metadata":{"type":%q,"basename":%q,"name":"%s%d","id":%d,"uniq_id":%d,"rank":%d,`+
			`"exclusive":false,"unit":"","size":1,"paths":{"containment":%q}}}`, uniq, kind, kind, kind, id, id, uniq, rank, path)
		if parent >= 0 {
			if edges.Len() > 0 {
				edges.WriteByte(',')
			}
			fmt.Fprintf(&edges, `{"source":"%d","target":"%d"}`, parent, uniq)
		}
		uniq++
		return uniq - 1
	}
	root := vertex(-1, "cluster", 0, -1, "/cluster0")
	for n := range nodes {
		path := fmt.Sprintf("/cluster0/node%d", n)
		node := vertex(root, "node", n, n, path)
		for c := range coresPerNode {
			vertex(node, "core", c, n, fmt.Sprintf("%s/core%d", path, c))
		}
		for c := range gpusPerNode {
			vertex(node, "gpu", c, n, fmt.Sprintf("%s/gpu%d", path, c))
		}
	}
	var text bytes.Buffer
	text.Grow(vertices.Len() + edges.Len() + 64)
	fmt.Fprintf(&text, `{"graph":{"nodes":[%s],"edges":[%s]}}`, vertices.Bytes(), edges.Bytes())
	return text.Bytes()
}

func added(b *testing.B, text []byte, policy string) (*engine.Engine, match.Epoch) {
	b.Helper()
	e, err := engine.New(engine.Options{
		Epoch: func() match.Epoch { return 1 },
		Graph: traverser.Options{MatcherPolicy: policy, PruneFilters: "ALL:core"},
	})
	if err != nil {
		b.Fatal(err)
	}
	epoch, err := e.Reset(b.Context())
	if err == nil {
		err = e.AddSubgraph(b.Context(), epoch, text)
	}
	if err == nil {
		err = e.Ready(b.Context(), epoch)
	}
	if err != nil {
		b.Fatal(err)
	}
	return e, epoch
}

func several(kind string, count int64, with ...jobspec.Resource) jobspec.Resource {
	r := jobspec.Resource{Type: kind, Count: jobspec.Exactly(count), With: with}
	if kind == jobspec.SlotType {
		r.Label = "task"
	}
	return r
}

// The requests of the benchmarks: count nodes as a whole, with all that is listed
// of them; count nodes with four cores of each; count pods of eight cores and a
// gpu, wherever there is room.
var wholes = map[string]func(count int64) jobspec.Resource{
	"node": func(count int64) jobspec.Resource {
		return several(jobspec.SlotType, count, several("node", 1, several("core", coresPerNode), several("gpu", gpusPerNode)))
	},
	"part": func(count int64) jobspec.Resource {
		return several("node", count, several(jobspec.SlotType, 1, several("core", 4)))
	},
	"pods": func(count int64) jobspec.Resource {
		return several(jobspec.SlotType, count, several("core", 8), several("gpu", 1))
	},
}

func ask(epoch match.Epoch, r jobspec.Resource) match.Request {
	return match.Request{
		Epoch: epoch, ID: 1, Now: time.Unix(0, 0), Duration: time.Hour,
		Jobspec: &jobspec.Jobspec{Version: 1, Resources: []jobspec.Resource{r}},
	}
}

// allocate matches and releases in turns.
func allocate(b *testing.B, e *engine.Engine, r match.Request) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Match(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := e.Release(b.Context(), r.Epoch, r.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkMatch asks for whole nodes in an idle graph of cluster, nodes, cores
// and gpus. Only the match is timed.
func BenchmarkMatch(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		text := flat(nodes)
		for _, policy := range []string{match.PolicyFirst, match.PolicyLow, match.PolicyLonodex} {
			e, epoch := added(b, text, policy)
			for _, count := range []int64{1, 16, 256} {
				if count > int64(nodes) {
					continue
				}
				b.Run(fmt.Sprintf("policy=%s/nodes=%d/count=%d", policy, nodes, count), func(b *testing.B) {
					allocate(b, e, ask(epoch, wholes["node"](count)))
				})
			}
		}
	}
}

// BenchmarkShape asks for parts of nodes, and for pods.
func BenchmarkShape(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000} {
		text := flat(nodes)
		for _, policy := range []string{match.PolicyFirst, match.PolicyLow, match.PolicyLonodex} {
			e, epoch := added(b, text, policy)
			for _, shape := range []string{"part", "pods"} {
				for _, count := range []int64{1, 16, 256} {
					b.Run(fmt.Sprintf("shape=%s/policy=%s/nodes=%d/count=%d", shape, policy, nodes, count), func(b *testing.B) {
						allocate(b, e, ask(epoch, wholes[shape](count)))
					})
				}
			}
		}
	}
}

// BenchmarkFilled asks for one pod where all nodes but the last are full.
func BenchmarkFilled(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000} {
		text := flat(nodes)
		for _, policy := range []string{match.PolicyFirst, match.PolicyLow} {
			e, epoch := added(b, text, policy)
			full := ask(epoch, wholes["node"](int64(nodes-1)))
			full.ID = 2
			if _, err := e.Match(b.Context(), full); err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("policy=%s/nodes=%d", policy, nodes), func(b *testing.B) {
				allocate(b, e, ask(epoch, wholes["pods"](1)))
			})
			b.Run(fmt.Sprintf("refused/policy=%s/nodes=%d", policy, nodes), func(b *testing.B) {
				for b.Loop() {
					if _, err := e.Match(b.Context(), ask(epoch, wholes["node"](2))); !errors.Is(err, match.ErrBusy) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkLoad reads a graph from memory. It reports what the engine holds on to
// after a garbage collection.
func BenchmarkLoad(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			text := flat(nodes)
			b.SetBytes(int64(len(text)))
			before := heap()
			var e *engine.Engine
			for b.Loop() {
				e, _ = added(b, text, match.PolicyLow)
			}
			b.ReportMetric(float64(heap()-before)/(1<<20), "MB-retained")
			runtime.KeepAlive(e)
		})
	}
}

// heap returns the bytes that are in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
