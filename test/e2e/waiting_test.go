package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-k8s/fluence/test/stack"
)

// passableFor runs the scheduler so that groups may be passed only for a while.
func (s *story) passableFor(maxBypass string) {
	s.Helper()
	s.restarted(
		func(c *stack.Config) {
			c.Args = maps.Clone(c.Args)
			c.Args["maxBypass"] = maxBypass
		},
		func(c *stack.Config) { delete(c.Args, "maxBypass") })
}

// Flow 17 of the lessons of earlier systems: small groups pass a large one, but not for ever.
func TestNodesAreReservedForAGroupThatHasWaitedForLong(t *testing.T) {
	s := tell(t)
	s.passableFor("2s")
	s.nodes("n", 2, "8")
	for _, small := range []string{"small-a", "small-b"} {
		s.applyText(job(small, 1, "5"))
		s.running(small+"-", 1)
	}
	s.applyText(job("large", 2, "8"))
	s.refused("job-large-", "NoRoom", "needs 2 pods with cpu 8", "room for 0")
	s.refused("job-large-", "NoRoom", "; 2 nodes are reserved for it")
	large := s.group(t.Context(), "job-large-").Name
	s.applyText(job("late", 1, "1"))
	s.refused("job-late-", "NoRoom", "2 nodes are reserved for "+s.ns+"/"+large+", which has waited")
	s.noneOnNodes("late-")
	// Autoscalers count the pods with this condition.
	s.eventually("both pods of the group say that there is no room", func(context.Context) (bool, string) {
		say := 0
		for _, p := range s.pods("large-") {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "needs 2 pods with cpu 8; room for 0") {
					say++
				}
			}
		}
		return say == 2, fmt.Sprintf("%d say so", say)
	})
	// A node that the group cannot use is not reserved.
	s.nodes("m", 1, "4")
	s.running("late-", 1)
	if got := s.onNodes("late-"); len(got) != 1 || got[s.pods("late-")[0].Name] != "m-0" {
		t.Errorf("the small group is on %v, want m-0", got)
	}
	s.applyText(job("later", 1, "4"))
	s.refused("job-later-", "NoRoom", "2 nodes are reserved for "+s.ns+"/"+large)
	s.kubectl("delete", "job", "small-a", "small-b", "-n", s.ns)
	s.running("large-", 2)
	s.noneOnNodes("later-")
	s.kubectl("delete", "job", "large", "-n", s.ns)
	s.running("later-", 1)
}

// A group that needs all nodes starts when the last of others' Jobs has ended. These end one
// after another, and the last runs three times as long as nodes stay reserved while nothing ends
// there. Small groups come all the while, and one of them would be on some node at any time.
func TestAGroupStartsThoughOthersRunForLong(t *testing.T) {
	const nodes, maxReserve, lasts = 4, time.Minute, 3 * time.Second
	s := tell(t)
	s.restarted(
		func(c *stack.Config) {
			c.Args = maps.Clone(c.Args)
			c.Args["maxBypass"], c.Args["maxReserve"] = "2s", maxReserve.String()
		},
		func(c *stack.Config) { delete(c.Args, "maxBypass"); delete(c.Args, "maxReserve") })
	others := s.neighbour()
	ends := func(after time.Duration) string {
		return fmt.Sprintf("annotations: {kwok.fluence.flux-framework.org/run-for: %s}", after)
	}
	s.nodes("n", nodes, "8")
	begin := time.Now()
	for i := range nodes {
		others.applyText(job(fmt.Sprintf("long-%d", i), 1, "7", ends(time.Duration(i+1)*3*maxReserve/nodes)))
	}
	others.running("long-", nodes)
	s.applyText(job("large", nodes, "8"))
	small := 0
	run := func() int {
		return len(slices.DeleteFunc(s.pods("large-"), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning }))
	}
	stream := func(context.Context) (bool, string) {
		n := run()
		if n == 0 {
			others.applyText(job(fmt.Sprintf("small-%d", small), 1, "1", ends(lasts)))
			small++
		}
		return n == nodes, fmt.Sprintf("%d of its pods run, %d small groups have come; %s", n, small, s.columns("job-large-"))
	}
	s.within(patience, "all nodes are reserved for the large group", lasts/2, func(ctx context.Context) (bool, string) {
		_, text := stream(ctx)
		g := s.group(ctx, "job-large-")
		if g == nil {
			return false, text
		}
		c := meta.FindStatusCondition(g.Status.Conditions, "Scheduled")
		return c != nil && strings.Contains(c.Message, fmt.Sprintf("%d nodes are reserved for it", nodes)), fmt.Sprint(text, "; told ", c)
	})
	s.within(3*maxReserve+patience, "the large group runs", lasts/2, stream)
	if took := time.Since(begin); took < 3*maxReserve {
		t.Errorf("it started after %s, before the last of the others ended", took)
	}
	for line := range strings.Lines(s.schedulerLog()) {
		if strings.Contains(line, "Group reserves no nodes for a while") && strings.Contains(line, s.ns+"/") {
			t.Errorf("its reservation paused, though others ended: %s", line)
		}
	}
	last := fmt.Sprintf("small-%d-", small-1)
	others.noneOnNodes(last)
	s.kubectl("delete", "job", "large", "-n", s.ns)
	others.soon("the last small group starts", time.Second, func(context.Context) (bool, string) {
		return len(others.onNodes(last)) == 1, others.columns(last)
	})
}

// "Never" assumes that only DaemonSets stay: a group that would fit
// only without their pods gets this reason, and starts when they go.
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
