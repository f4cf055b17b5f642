package e2e

import (
	"context"
	"testing"

	"github.com/flux-k8s/fluence/test/stack"
)

// holdingBack runs the scheduler with a plugin that keeps the pod
// of a name out of the queue until it has the label released.
func (s *story) holdingBack(pod string) {
	s.Helper()
	binary, err := faultyScheduler()
	if err != nil {
		s.Fatal(err)
	}
	s.restart(stack.Scheduler, func(c *stack.Config) {
		c.SchedulerBinary = binary
		c.Profile = func(config map[string]any) {
			profile := config["profiles"].([]any)[0].(map[string]any)
			profile["plugins"].(map[string]any)["preEnqueue"] = map[string]any{"enabled": []any{map[string]any{"name": "Holding"}}}
			profile["pluginConfig"] = append(profile["pluginConfig"].([]any), map[string]any{"name": "Holding", "args": map[string]any{"pod": pod}})
		}
	})
	s.Cleanup(func() {
		s.restart(stack.Scheduler, func(c *stack.Config) { c.SchedulerBinary, c.Profile = "", nil })
	})
}

// Assigned nodes are not kept from others for ever because one member of the group is held up.
func TestAssignmentsThatAreNotTakenUpInTimeAreGivenBack(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.holdingBack("punctual-1")
	s.apply("schedule-timeout.yaml")
	s.eventually("a match", func(context.Context) (bool, string) {
		return len(s.matches("punctual")) == 1, s.columns("")
	})
	s.applyText(job("next", 2, "8"))
	s.refused("job-next-", "NoRoom", "needs 2 pods", "room for 0")
	s.running("next-", 2)
	s.noneOnNodes("punctual-")
	s.event("NotReserved", "could be reserved in time")
	s.kubectl("label", "pod", "punctual-1", "-n", s.ns, "released=yes")
	s.kubectl("delete", "job", "next", "-n", s.ns)
	s.running("punctual-", 2)
	s.placed("punctual")
}
