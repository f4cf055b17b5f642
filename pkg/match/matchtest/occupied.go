package matchtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Occupied returns a cluster for benchmarks of Displace: this many nodes of 64 cores, 40 in a rack, the jobs of
// at most this many pods on them, and the pods as units of 1 to 64 in five classes. If there are enough pods, no
// node has room for a pod of 16 cores. The same numbers give the same cluster.
func Occupied(nodes, most int) ([]*resource.Graph, []match.Job, []match.Unit) {
	r := rand.New(rand.NewPCG(1, 2))
	var graphs []*resource.Graph
	free := make([]int64, nodes)
	for i := range nodes {
		free[i] = 64
		graphs = append(graphs, Node(fmt.Sprintf("n%05d", i), [][2]string{{"rack", fmt.Sprintf("r%03d", i/40)}},
			Cores(64), Memory(256), Pods(110)))
	}
	var jobs []match.Job
	var units []match.Unit
	pods, sizes := 0, []int{1, 1, 1, 1, 2, 4, 8, 16, 32, 64}
	at := 0
	for misses := 0; pods < most && misses < 4*nodes; {
		job := match.Job{ID: match.JobID(len(jobs) + 10)}
		ref := match.SlotRef{Job: job.ID}
		each := 3 + r.Int64N(8)
		for range sizes[r.IntN(len(sizes))] {
			at = (at + 1) % nodes
			if free[at] < each {
				misses++
				continue
			}
			free[at] -= each
			misses = 0
			key := fmt.Sprintf("6b2f4d52-91f0-4b1c-8e1d-%012d", pods) // as long as a pod's UID
			job.Slots = append(job.Slots, Held(key, fmt.Sprintf("n%05d", at), Cores(each), Memory(each), Pods(1)))
			ref.Keys = append(ref.Keys, key)
			pods++
		}
		if len(job.Slots) == 0 {
			continue
		}
		jobs = append(jobs, job)
		units = append(units, match.Unit{Slots: []match.SlotRef{ref}, Class: r.Int32N(5), Cost: r.Int64N(1000)})
	}
	return graphs, jobs, units
}
