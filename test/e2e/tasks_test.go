package e2e

import (
	"maps"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/stack"
)

func TestRanksOfAnIndexedJobStartTogether(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "3")
	s.apply("indexed-job.yaml")
	s.refused("job-ranks-", "NeverFits", "needs 4 pods", "could hold 3")
	s.nodes("late", 1, "1")
	s.running("ranks-", 4)
}

func TestTwoJobsAreOneGroup(t *testing.T) {
	s := tell(t)
	// The leader alone would fit.
	s.nodes("n", 1, "7")
	s.apply("leader-and-workers-jobs.yaml")
	s.refused("simulation", "NeverFits", "needs 5 pods")
	s.noneOnNodes("simulation-")
	s.nodes("late", 1, "1")
	s.running("simulation-", 5)
}

func TestPodsWithATimeLimitStartTogether(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "4")
	s.apply("time-limit.yaml")
	s.running("limited-", 4)
}

func TestTwoRacksHaveEqualShares(t *testing.T) {
	s := tell(t)
	const rack = "example.com/rack"
	s.restart(stack.Scheduler, func(c *stack.Config) { c.Args = map[string]any{"topologyLevels": []string{rack}} })
	s.Cleanup(func() {
		s.restart(stack.Scheduler, func(c *stack.Config) {
			c.Args = map[string]any{"topologyLevels": []string{"topology.kubernetes.io/zone"}}
		})
	})
	s.nodes("a", 4, "8", label(rack, "a"))
	s.nodes("b", 4, "8", label(rack, "b"))
	s.apply("equal-shares.yaml")
	s.running("equal-", 6)
	got := map[string]int{}
	for _, node := range s.onNodes("equal-") {
		got[node[:1]]++
	}
	if shares := slices.Sorted(maps.Values(got)); !slices.Equal(shares, []int{3, 3}) {
		t.Errorf("pods by rack: %v, want 3 in each", got)
	}
}

// The first rack has room for twelve pods of the Job, and the third is not one that it names.
func TestEightPodsInEachOfTwoRacks(t *testing.T) {
	s := tell(t)
	const rackLabel = "topology.fluence.flux-framework.org/rack"
	s.nodes("a", 3, "4", label(rackLabel, "rack1"))
	s.nodes("b", 2, "4", label(rackLabel, "rack2"))
	s.nodes("c", 4, "4", label(rackLabel, "rack3"))
	s.apply("eight-in-each-of-two-racks.yaml")
	s.running("two-racks-", 16)
	if got := s.counts("two-racks-"); got["a"] != 8 || got["b"] != 8 {
		t.Errorf("pods by rack: %v, want 8 in each of the first two", got)
	}
}
