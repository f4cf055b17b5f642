package client_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/client"
)

// cluster returns nodes in racks of 40, and what they hold: perNode pods each, in jobs of 10.
func cluster(nodes, perNode int) ([]*resource.Graph, []match.Job) {
	var (
		graphs []*resource.Graph
		jobs   []match.Job
	)
	for n := range nodes {
		name := fmt.Sprintf("ip-10-0-%d-%d.example.internal", n/250, n%250)
		graphs = append(graphs, matchtest.WithProperties(
			matchtest.Node(name, [][2]string{{"zone", "zone-a"}, {"rack", fmt.Sprintf("rack-%d", n/40)}},
				matchtest.Cores(96), matchtest.Memory(512), matchtest.GPUs(8), matchtest.Pods(110)),
			"kubernetes.io/arch", "amd64", "node.kubernetes.io/instance-type", "p5.48xlarge", "topology.kubernetes.io/zone", "zone-a"))
	}
	for p := range nodes * perNode {
		if p%10 == 0 {
			jobs = append(jobs, match.Job{ID: match.JobID(p + 1)})
		}
		j := &jobs[len(jobs)-1]
		node := p % nodes
		j.Slots = append(j.Slots, matchtest.Held(
			fmt.Sprintf("6b2f4d52-91f0-4b1c-8e1d-%012d", p), fmt.Sprintf("ip-10-0-%d-%d.example.internal", node/250, node%250),
			matchtest.MilliCores(500), matchtest.Memory(1), matchtest.Pods(1)))
	}
	return graphs, jobs
}

// BenchmarkLoad fills an engine over a socket, as a scheduler does at its start.
func BenchmarkLoad(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", nodes, 10*nodes), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "s")
			serve(b, path, newEngine(b))
			c := dial(b, path, client.Options{LoadTimeout: 5 * time.Minute})
			graphs, jobs := cluster(nodes, 10)
			for b.Loop() {
				load(b, c, graphs, jobs)
			}
		})
	}
}

// BenchmarkAuditPage lists a page of a cluster over a socket, as the drift audit
// does once a second.
func BenchmarkAuditPage(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	serve(b, path, newEngine(b))
	c := dial(b, path, client.Options{LoadTimeout: 5 * time.Minute})
	graphs, jobs := cluster(5000, 10)
	e := load(b, c, graphs, jobs)
	const limit = 167
	b.ReportAllocs()
	for b.Loop() {
		got, err := c.Nodes(b.Context(), e, "ip-10-0-11", limit)
		if err != nil || len(got) != limit {
			b.Fatal(len(got), err)
		}
	}
}

// BenchmarkJobs lists what a cluster holds over a socket.
func BenchmarkJobs(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	serve(b, path, newEngine(b))
	c := dial(b, path, client.Options{LoadTimeout: 5 * time.Minute})
	graphs, jobs := cluster(5000, 10)
	ctx := b.Context()
	e := load(b, c, graphs, jobs)
	for b.Loop() {
		got, err := c.Jobs(ctx, e)
		if err != nil || len(got) != len(jobs) {
			b.Fatal(len(got), err)
		}
	}
}

// BenchmarkMatch matches a group over a socket and releases it.
func BenchmarkMatch(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	serve(b, path, newEngine(b))
	c := dial(b, path, client.Options{Timeout: time.Minute})
	graphs, _ := cluster(5000, 0)
	ctx := b.Context()
	e := load(b, c, graphs, nil)
	for _, size := range []int64{1, 64, 512} {
		b.Run(fmt.Sprintf("nodes=5000/slots=%d", size), func(b *testing.B) {
			r := match.Request{Epoch: e, ID: 1, Jobspec: matchtest.Slots("w", size, matchtest.Cores(4), matchtest.Memory(8), matchtest.Pods(1))}
			for b.Loop() {
				if _, err := c.Match(ctx, r); err != nil {
					b.Fatal(err)
				}
				if err := c.Release(ctx, e, r.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func load(b *testing.B, c *client.Client, graphs []*resource.Graph, jobs []match.Job) match.Epoch {
	b.Helper()
	e, err := c.Reset(b.Context())
	if err == nil {
		err = c.PutNode(b.Context(), e, graphs...)
	}
	if err == nil {
		err = c.Update(b.Context(), e, jobs...)
	}
	if err == nil {
		err = c.Ready(b.Context(), e)
	}
	if err != nil {
		b.Fatal(err)
	}
	return e
}
