package engine_test

import (
	"fmt"
	"testing"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// blocks builds nodes in racks of 34 and blocks of 10 racks. Each node has the pools of a GPU node.
func blocks(nodes int) []*resource.Graph {
	graphs := make([]*resource.Graph, nodes)
	for i := range graphs {
		levels := [][2]string{{"block", fmt.Sprintf("b%02d", i/340)}, {"rack", fmt.Sprintf("r%03d", i/34)}}
		graphs[i] = matchtest.Node(fmt.Sprintf("n%05d", i), levels,
			matchtest.Cores(64), matchtest.Memory(256), matchtest.Pods(110), matchtest.GPUs(8))
	}
	return graphs
}

// BenchmarkTopology matches 256 pods in graphs whose racks are partly in use. Only the last full
// rack is free.
func BenchmarkTopology(b *testing.B) {
	two := func(at *jobspec.Topology) *jobspec.Jobspec {
		js := matchtest.Jobspec(
			matchtest.Slot("worker", jobspec.Exactly(255), pod...),
			matchtest.Slot("leader", jobspec.Exactly(1), matchtest.Cores(16), matchtest.Memory(64), matchtest.Pods(1)),
		)
		for _, label := range []string{"worker", "leader"} {
			matchtest.Constrain(js, label, jobspec.SlotAttributes{Topology: at})
		}
		return js
	}
	one := func(pods int64, at jobspec.SlotAttributes) *jobspec.Jobspec {
		return matchtest.Constrain(matchtest.Slots("a", pods, pod...), "a", at)
	}
	required := &jobspec.Topology{Required: "rack"}
	preferred := &jobspec.Topology{Preferred: []string{"block", "rack"}}
	requests := map[string]*jobspec.Jobspec{
		"required":           one(256, jobspec.SlotAttributes{Topology: required}),
		"required/shapes=2":  two(required),
		"preferred":          one(256, jobspec.SlotAttributes{Topology: preferred}),
		"preferred/pods=1k":  one(1024, jobspec.SlotAttributes{Topology: preferred}),
		"preferred/shapes=2": two(preferred),
		"balanced":           one(256, jobspec.SlotAttributes{Topology: &jobspec.Topology{Balanced: "rack"}}),
		"balanced/pods=1k":   one(1024, jobspec.SlotAttributes{Topology: &jobspec.Topology{Balanced: "rack"}}),
		"limits=1/node": one(256, jobspec.SlotAttributes{
			Limits: []jobspec.Limit{{Name: "port", Level: "node", Most: 1}},
		}),
	}
	for name, js := range requests {
		for _, nodes := range []int{1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, nodes), func(b *testing.B) {
				benchmark(b, partlyUsed(b, nodes), js)
			})
		}
	}
	b.Run("refused/nodes=10000", func(b *testing.B) {
		d := partlyUsed(b, 10_000)
		d.match(b, 3, one(256, jobspec.SlotAttributes{Topology: required}))
		refuse(b, d, requests["required"], match.ErrBusy)
	})
	// Two shapes fill everything, on racks that neither shape can fill alone.
	b.Run("filled/nodes=10000", func(b *testing.B) {
		js := matchtest.Jobspec(
			matchtest.Slot("large", jobspec.Exactly(20_000), matchtest.Cores(31), matchtest.Memory(8), matchtest.GPUs(1)),
			matchtest.Slot("flat", jobspec.Exactly(10_000), matchtest.Cores(1), matchtest.Memory(200), matchtest.GPUs(2)),
		)
		d := &driver{e: newEngine(b)}
		d.load(b, blocks(10_000)...)
		benchmark(b, d, matchtest.Together(js, *preferred))
	})
	b.Run("never/nodes=10000", func(b *testing.B) {
		refuse(b, partlyUsed(b, 10_000), one(300, jobspec.SlotAttributes{Topology: required}), match.ErrUnsatisfiable)
	})
}

// BenchmarkLimitsOfHosts spreads slots by labels that are no levels: by a label with very many
// values, and by many labels at once.
func BenchmarkLimitsOfHosts(b *testing.B) {
	const nodes = 5_000
	for _, c := range []struct{ limits, lists int }{{1, 200}, {1, nodes}, {30, 200}} {
		b.Run(fmt.Sprintf("limits=%d/lists=%d", c.limits, c.lists), func(b *testing.B) {
			d := &driver{e: newEngine(b)}
			d.load(b, blocks(nodes)...)
			var limits []jobspec.Limit
			for k := range c.limits {
				names := make([][]string, c.lists)
				for i := range nodes {
					names[(i+k)%c.lists] = append(names[(i+k)%c.lists], fmt.Sprintf("n%05d", i))
				}
				l := jobspec.Limit{Name: fmt.Sprint(k), Most: 1}
				for _, n := range names {
					l.Hosts = append(l.Hosts, hostlist.Encode(n))
				}
				limits = append(limits, l)
			}
			js := matchtest.Limited(matchtest.Slots("a", int64(c.lists)+1, matchtest.Cores(1)), "a", limits...)
			refuse(b, d, js, match.ErrUnsatisfiable)
		})
	}
}

// partlyUsed loads an engine with nodes. On a third of them four GPUs are in use, except in the
// last full rack.
func partlyUsed(b *testing.B, nodes int) *driver {
	b.Helper()
	d := &driver{e: newEngine(b)}
	graphs := blocks(nodes)
	d.load(b, graphs...)
	var held []match.Job
	for i := range nodes {
		if i%3 == 0 && i/34 != nodes/34-1 {
			held = append(held, match.Job{ID: match.JobID(1000 + i/10), Slots: []match.Slot{
				matchtest.Held(fmt.Sprint(i), fmt.Sprintf("n%05d", i), matchtest.Cores(4), matchtest.Memory(8), matchtest.Pods(4), matchtest.GPUs(4)),
			}})
		}
	}
	if err := d.e.Update(b.Context(), d.epoch, held...); err != nil {
		b.Fatal(err)
	}
	return d
}
