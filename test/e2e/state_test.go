package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// State 1 of the lessons of earlier systems: scheduler and sidecar are killed
// together while one group runs and another is half placed. No room is
// assigned twice, the end of another group cancels nothing, and nothing leaks.
// (Jobs were numbered from 1 again, and known only in one process's memory.)
func TestSchedulerAndSidecarKilledTogether(t *testing.T) {
	s := tell(t)
	s.nodes("n", 10, "8")
	s.applyText(job("first", 2, "8"))
	s.running("first-", 2)
	s.applyText(job("large", 64, "1"))
	s.soon("a pod of the large Job on a node", 5*time.Millisecond, func(context.Context) (bool, string) { return len(s.onNodes("large-")) > 0, "none" })
	s.kill(stack.Scheduler)
	s.kill(stack.Sidecar)
	t.Logf("%d of 64 pods were bound when both were killed", len(s.onNodes("large-")))
	s.start(stack.Sidecar)
	s.start(stack.Scheduler)
	s.running("large-", 64)
	s.placed("job-large-")

	// All 80 CPUs are in use.
	s.applyText(job("more", 1, "1"))
	s.refused("job-more-", "NoRoom", "needs 1 pod", "room for 0")
	s.kubectl("delete", "job", "more", "-n", s.ns)

	// The end of a group placed across the restart releases its own room and no more.
	s.kubectl("delete", "job", "large", "-n", s.ns)
	s.applyText(job("next", 9, "8"))
	s.refused("job-next-", "NoRoom", "needs 9 pods", "room for 8")
	s.noneOnNodes("next-")
	s.kubectl("delete", "job", "first", "-n", s.ns)
	s.running("next-", 9)
	s.noneRejected()
}

// State 1 of the lessons of earlier systems, at any moment: groups come
// and go while scheduler and sidecar are killed in turn, each time at
// another moment. With -trials the moments after the sixth are random.
func TestKillsAtAnyMomentLoseAndLeakNothing(t *testing.T) {
	s := tell(t)
	s.nodes("n", 8, "8")
	moments, last := []int{0, 1, 8, 16, 24, 32}, ""
	for seed := range trials.Seeds(6) {
		name := fmt.Sprintf("round-%d", seed)
		s.applyText(job(name, 32, "1"))
		// From the first created pod to the last one with a node.
		bound := rand.New(rand.NewPCG(seed, 0)).IntN(33)
		if len(moments) > 0 {
			bound, moments = moments[0], moments[1:]
		}
		s.soon(fmt.Sprintf("%d pods of %s on nodes", bound, name), 5*time.Millisecond, func(context.Context) (bool, string) {
			return len(s.pods(name)) > 0 && len(s.onNodes(name)) >= bound, ""
		})
		if seed%2 == 0 {
			s.kill(stack.Scheduler)
			s.dropLease()
			s.start(stack.Scheduler)
		} else {
			s.kill(stack.Sidecar)
			s.start(stack.Sidecar)
		}
		if last != "" {
			s.kubectl("delete", "job", last, "-n", s.ns)
		}
		s.running(name+"-", 32)
		last = name
	}
	// What the last one holds is charged, and what the others held is free.
	s.applyText(job("rest", 32, "1"))
	s.running("rest-", 32)
	s.applyText(job("more", 1, "1"))
	s.refused("job-more-", "NoRoom", "needs 1 pod", "room for 0")
	s.noneRejected()
}
