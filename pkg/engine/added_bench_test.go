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

// The graph of the benchmarks: a cluster of nodes with this number of cores and gpus. Each core and
// each gpu is a vertex.
const (
	coresPerNode = 64
	gpusPerNode  = 8
)

// flat returns the graph as JGF.
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

// benchRequests are the requests of the benchmarks. They request count whole nodes with everything below
// them, count nodes with four cores of each, or count pods of eight cores and a gpu wherever there
// is room.
var benchRequests = map[string]func(count int64) jobspec.Resource{
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

// fluxionMatch has the time of one match in Fluxion, in milliseconds, by shape, nodes, policy and
// count of 1, 16 and 256. It was measured with flux-sched 0.39.0 built with -O2, called through
// fluxion-go with results in jgf, on a machine of 2 cores. Release 0.54.0 is as fast.
var fluxionMatch = map[string]map[int]map[string][3]float64{
	"node": {
		100:    {"first": {0.51, 8.3}, "low": {2.0, 9.2}, "lonodex": {2.0, 11.5}},
		1_000:  {"first": {0.81, 21, 363}, "low": {46, 57, 271}, "lonodex": {50, 59, 368}},
		10_000: {"first": {2.1, 25, 373}, "low": {592, 544, 1031}, "lonodex": {594, 655, 1375}},
	},
	"part": {
		1_000:  {"first": {0.16, 1.2, 28}, "low": {42, 40, 59}, "lonodex": {53, 45, 274}},
		10_000: {"first": {1.3, 2.6, 45}, "low": {415, 544, 763}, "lonodex": {651, 766, 1182}},
	},
	"pods": {
		1_000:  {"first": {0.27, 2.6, 33}, "low": {51, 60, 92}, "lonodex": {50, 49, 60}},
		10_000: {"first": {1.4, 6.4, 70}, "low": {696, 982, 658}, "lonodex": {477, 476, 667}},
	},
}

// fluxionLoad has what Fluxion takes to load the graph, by nodes.
var fluxionLoad = map[int]struct{ seconds, megabytes float64 }{
	100: {0.09, 33}, 1_000: {1.3, 365}, 10_000: {12.8, 3300},
}

// compare reports Fluxion's time next to the measured time.
func compare(b *testing.B, shape, policy string, nodes int, count int64) {
	b.Helper()
	at := map[int64]int{1: 0, 16: 1, 256: 2}[count]
	if ms := fluxionMatch[shape][nodes][policy][at]; ms > 0 {
		b.ReportMetric(ms, "fluxion-ms/op")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ms/op")
}

// allocate matches and releases alternately.
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

// BenchmarkMatch requests whole nodes in an idle graph of cluster, nodes, cores and gpus. Only the
// match is timed.
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
					allocate(b, e, ask(epoch, benchRequests["node"](count)))
					compare(b, "node", policy, nodes, count)
				})
			}
		}
	}
}

// BenchmarkShape requests parts of nodes, and pods.
func BenchmarkShape(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000} {
		text := flat(nodes)
		for _, policy := range []string{match.PolicyFirst, match.PolicyLow, match.PolicyLonodex} {
			e, epoch := added(b, text, policy)
			for _, shape := range []string{"part", "pods"} {
				for _, count := range []int64{1, 16, 256} {
					b.Run(fmt.Sprintf("shape=%s/policy=%s/nodes=%d/count=%d", shape, policy, nodes, count), func(b *testing.B) {
						allocate(b, e, ask(epoch, benchRequests[shape](count)))
						compare(b, shape, policy, nodes, count)
					})
				}
			}
		}
	}
}

// BenchmarkFilled requests one pod when all nodes except the last are full.
func BenchmarkFilled(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000} {
		text := flat(nodes)
		for _, policy := range []string{match.PolicyFirst, match.PolicyLow} {
			e, epoch := added(b, text, policy)
			full := ask(epoch, benchRequests["node"](int64(nodes-1)))
			full.ID = 2
			if _, err := e.Match(b.Context(), full); err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("policy=%s/nodes=%d", policy, nodes), func(b *testing.B) {
				allocate(b, e, ask(epoch, benchRequests["pods"](1)))
			})
			b.Run(fmt.Sprintf("refused/policy=%s/nodes=%d", policy, nodes), func(b *testing.B) {
				for b.Loop() {
					if _, err := e.Match(b.Context(), ask(epoch, benchRequests["node"](2))); !errors.Is(err, match.ErrBusy) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkLoad reads a graph from memory. It reports the memory that the engine holds after a
// garbage collection.
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
			if f := fluxionLoad[nodes]; f.seconds > 0 {
				b.ReportMetric(f.seconds*1e3, "fluxion-ms")
				b.ReportMetric(f.megabytes, "fluxion-MB")
			}
			runtime.KeepAlive(e)
			runtime.KeepAlive(text)
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
