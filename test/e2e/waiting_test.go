package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-k8s/fluence/test/stack"
)

// passableFor runs the scheduler so that groups may be passed for a while only.
func (s *story) passableFor(maxBypass string) {
	s.Helper()
	s.restarted(
		func(c *stack.Config) {
			c.Args = maps.Clone(c.Args)
			c.Args["maxBypass"] = maxBypass
		},
		func(c *stack.Config) { delete(c.Args, "maxBypass") })
}

// Flow 17 of the lessons of earlier systems: small groups pass a large one, and not
// for ever.
func TestRoomIsKeptForAGroupThatHasWaitedForLong(t *testing.T) {
	s := tell(t)
	s.passableFor("2s")
	s.nodes("n", 2, "8")
	for _, small := range []string{"small-a", "small-b"} {
		s.applyText(job(small, 1, "5"))
		s.running(small+"-", 1)
	}
	s.applyText(job("large", 2, "8"))
	s.refused("job-large-", "NoRoom", "needs 2 pods with cpu 8", "room for 0")
	s.eventually("the group has waited for 3 s", func(ctx context.Context) (bool, string) {
		c := meta.FindStatusCondition(s.group(ctx, "job-large-").Status.Conditions, "Scheduled")
		return c != nil && time.Since(c.LastTransitionTime.Time) > 3*time.Second, fmt.Sprint(c)
	})
	large := s.group(t.Context(), "job-large-").Name
	s.applyText(job("late", 1, "1"))
	s.refused("job-late-", "NoRoom", "2 nodes are kept for "+s.ns+"/"+large+", which has waited")
	s.noneOnNodes("late-")
	// A node that it could not use is no part of it.
	s.nodes("m", 1, "4")
	s.running("late-", 1)
	if got := s.onNodes("late-"); len(got) != 1 || got[s.pods("late-")[0].Name] != "m-0" {
		t.Errorf("the small group is on %v, want m-0", got)
	}
	s.applyText(job("later", 1, "4"))
	s.refused("job-later-", "NoRoom", "2 nodes are kept for "+s.ns+"/"+large)
	s.kubectl("delete", "job", "small-a", "small-b", "-n", s.ns)
	s.running("large-", 2)
	s.noneOnNodes("later-")
	s.kubectl("delete", "job", "large", "-n", s.ns)
	s.running("later-", 1)
}

// "Never" counts on nothing but DaemonSets: what would fit only without their pods is
// told so, and starts when they go.
func TestWhatFitsOnlyWithoutADaemonSetNeverFits(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(onEveryNode)
	s.running("agent-", 2)
	s.applyText(job("whole", 1, "8"))
	s.refused("job-whole-", "NeverFits", "no node is large enough", "cpu 8 wanted", "largest node has 7900m")
	s.applyText(lonePod("other", "fluence"))
	s.running("other", 1)
	s.applyText(job("nearly", 2, "7900m"))
	s.refused("job-nearly-", "NoRoom", "needs 2 pods with cpu 7900m", "room for 1")
	s.kubectl("delete", "pod", "other", "-n", s.ns)
	s.running("nearly-", 2)
	s.kubectl("delete", "job", "nearly", "-n", s.ns)
	s.kubectl("delete", "daemonset", "agent", "-n", s.ns)
	s.running("whole-", 1)
}
