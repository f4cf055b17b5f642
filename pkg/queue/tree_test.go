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
		open, never := &lane{class: &class{queue: q, verdict: Granted}}, &lane{class: &class{queue: q, verdict: Never}}
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
				j := &job{queue: q, lane: []*lane{open, open, never, nil}[rng.IntN(4)], Job: Job{
					Key: types.NamespacedName{Name: fmt.Sprint(i)}, Priority: int32(rng.IntN(3)), Created: time.UnixMicro(rng.Int64N(50)), Duration: time.Duration(rng.IntN(30)),
				}}
				for _, tr := range trees {
					tr.insert(j, rng.Uint32())
				}
				at, _ := slices.BinarySearchFunc(list, j, func(a, b *job) int {
					if a.before(b) {
						return -1
					}
					return 1
				})
				list = slices.Insert(list, at, j)
			}
			if rng.IntN(20) == 0 { // a class gets its places, or loses them
				never.class.verdict, trees[byQueue].stale = []Verdict{Never, Granted}[rng.IntN(2)], true
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
	place, of := 0, 0
	for _, j := range list {
		if want == nil && j.length() < limit {
			want = j
		}
		if j.Created.Before(oldest) {
			oldest = j.Created
		}
		if j.hasPlace() {
			of++
		}
	}
	if got := trees[byLane].firstBelow(limit); got != want {
		t.Fatalf("seed %d: firstBelow(%d) = %v, want %v", seed, limit, got, want)
	}
	for _, j := range list {
		if j.hasPlace() {
			place++
			if got, n := trees[byQueue].position(j); got != place || n != of {
				t.Fatalf("seed %d: position() = %d, %d, want %d, %d", seed, got, n, place, of)
			}
		}
	}
	if tr := trees[byQueue]; tr.root != nil && tr.least(tr.root) != oldest.UnixMicro() {
		t.Fatalf("seed %d: the oldest is of %d, want %d", seed, tr.least(tr.root), oldest.UnixMicro())
	}
}
