package traverser

import (
	"fmt"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/trials"
)

// TestReplacedSlotsAreAsReleasedOnes checks that a request that replaces slots answers as if they had been released
// before, and that it leaves the same behind. If it books nothing, it leaves everything as it was.
func TestReplacedSlotsAreAsReleasedOnes(t *testing.T) {
	random := seed(t)
	booked, refused := 0, 0
	for range trials.Count(200) {
		series := random.Uint64()
		now := int64(0)
		begin := func() *rig {
			drawn := rand.New(rand.NewPCG(series, 3))
			r := load(t, drawnPolicies[drawn.IntN(len(drawnPolicies))], small())
			now = 0
			for id := range match.JobID(4) {
				now += drawn.Int64N(15)
				_, _ = r.try(draw(drawn, id+1, now))
			}
			return r
		}
		replacing, released := begin(), begin()
		q := draw(random, 99, now)
		q.Op = []match.Op{match.Allocate, match.Allocate, match.WithoutAllocating, match.WithoutAllocatingFuture}[random.IntN(4)]
		if random.IntN(3) == 0 {
			q.Expected = holding(t, 7, small(), "/cluster0/rack0/node0/core0").Slots
		}
		id, keys := match.JobID(1+random.IntN(5)), [][]string{nil, {"0"}, {"1", "9"}}[random.IntN(3)]
		replacing.advance(Instant(seconds(now)))
		before, knew := replacing.dump(), replacing.learned()
		released.Release(id, keys...)
		want, err := released.try(q)
		text := fmt.Sprint(held(want), " ", err)
		q.Replaces, q.ReplacesKeys = id, keys
		got, err := replacing.try(q)
		same(t, fmt.Sprintf("the answer to %+v", q), []string{fmt.Sprint(held(got), " ", err)}, []string{text})
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("the answer to %+v (-after a release +got):\n%s", q, diff)
		}
		if err != nil || q.Op != match.Allocate {
			refused++
			same(t, "dump", replacing.dump(), before)
			same(t, "learned", replacing.learned(), knew)
			released = begin()
			released.advance(Instant(seconds(now)))
		} else {
			booked++
			again, err := replacing.try(q)
			if diff := gocmp.Diff(want, again); diff != "" || err != nil {
				t.Fatalf("the answer to %+v again: %v (-first +got):\n%s", q, err, diff)
			}
		}
		same(t, "dump", replacing.dump(), released.dump())
		if diff := gocmp.Diff(released.Jobs(), replacing.Jobs()); diff != "" {
			t.Fatalf("Jobs (-want +got):\n%s", diff)
		}
		question, policy := random.Uint64(), drawnPolicies[random.IntN(len(drawnPolicies))]
		same(t, "answers with "+policy,
			replacing.answers(rand.New(rand.NewPCG(question, 2)), policy, now),
			released.answers(rand.New(rand.NewPCG(question, 2)), policy, now))
	}
	t.Logf("%d requests were booked, and %d were not", booked, refused)
}
