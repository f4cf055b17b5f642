package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/trials"
)

// A tree answers as a sorted list does.
func TestATreeIsASortedList(t *testing.T) {
	for seed := range trials.Seeds(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		q := &queue{}
		trees := []*tree{{kind: byQueue}, {kind: byLane}}
		var list []*job
		for i := range 400 {
			if n := len(list); n > 0 && rng.IntN(3) == 0 {
				at := rng.IntN(n)
				for _, tr := range trees {
					tr.remove(list[at])
				}
				list = slices.Delete(list, at, at+1)
			} else {
				j := &job{queue: q, Job: Job{
					Key: types.NamespacedName{Name: fmt.Sprint(i)}, Priority: int32(rng.IntN(3)), Created: time.UnixMicro(rng.Int64N(50)), Duration: time.Duration(rng.IntN(30)),
				}}
				for _, tr := range trees {
					tr.insert(j, rng.Uint32())
				}
				at, _ := slices.BinarySearchFunc(list, j, compareJobs)
				list = slices.Insert(list, at, j)
			}
			checkTree(t, seed, trees, list, rng)
		}
	}
}

func checkTree(t *testing.T, seed uint64, trees []*tree, list []*job, rng *rand.Rand) {
	t.Helper()
	if n := trees[byQueue].size; n != len(list) {
		t.Fatalf("seed %d: %d jobs, want %d", seed, n, len(list))
	}
	var want *job
	limit := rng.Int64N(40)
	oldest := time.UnixMicro(1 << 50)
	for _, j := range list {
		if want == nil && j.length() < limit {
			want = j
		}
		if j.Created.Before(oldest) {
			oldest = j.Created
		}
	}
	if got := trees[byLane].firstBelow(limit); got != want {
		t.Fatalf("seed %d: firstBelow(%d) = %v, want %v", seed, limit, got, want)
	}
	if tr := trees[byQueue]; tr.root != nil && tr.least(tr.root) != oldest.UnixMicro() {
		t.Fatalf("seed %d: the oldest is of %d, want %d", seed, tr.least(tr.root), oldest.UnixMicro())
	}
}
