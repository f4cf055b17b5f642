package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// awayFor is how long the API server is away. It is longer than any lease
// of Fluence, and shorter than the time after which nodes count as lost.
const awayFor = 30 * time.Second

// supervise starts Fluence's processes again when they have
// ended, as a kubelet does. It counts them in ended by name.
func (s *story) supervise(ended map[string]int) {
	s.Helper()
	for _, process := range []string{stack.Scheduler, stack.Controller, stack.Sidecar} {
		select {
		case <-s.Process(process).Done():
			ended[process]++
			// The administrator may restart only processes that failed.
			if code := s.Process(process).State().ExitCode(); code == 0 {
				s.Errorf("%s ended with success:\n%s", process, s.Process(process).Tail(5))
			}
			s.startNamed(process)
		default:
		}
	}
}

func (s *story) killAPIServer() {
	s.Helper()
	if err := s.Process(cluster.KubeAPIServer).Kill(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// restore restarts a component of the control plane.
func (s *story) restore(component string) {
	s.Helper()
	if err := s.Restart(context.WithoutCancel(s.Context()), component); err != nil {
		s.Fatal(err)
	}
}

// State 1 and Flow 17 of the lessons of earlier systems, for the API
// server: it is away while one group is half bound and others wait.
func TestTheAPIServerIsAwayForHalfAMinute(t *testing.T) {
	s := tell(t)
	s.gated(true)
	s.nodes("n", 2, "4")
	s.applyText(crew("steady", 4))
	s.running("steady-", 4)
	s.gate("PreBind held")
	s.applyText(crew("half", 4, 0, 2))
	s.stopped("PreBind", "half-", 2)
	s.eventually("half of it on nodes", func(context.Context) (bool, string) {
		n := len(s.onNodes("half-"))
		return n == 2, fmt.Sprintf("%d are", n)
	})
	s.applyText(crew("waits", 4))
	s.refused("waits", "NoRoom", "needs 4 pods", "room for 0")
	s.applyText(strings.Join(strings.SplitAfter(crew("gathers", 2), "---\n")[:1], ""))
	s.refused("gathers", "Gathering", "waits for 1 more pod")
	bound := slices.DeleteFunc(s.pods(""), onNoNode)

	s.killAPIServer()
	away := time.Now()
	s.gate("")
	ended := map[string]int{}
	s.soon("the end of the outage", time.Second, func(context.Context) (bool, string) {
		s.supervise(ended)
		return time.Since(away) >= awayFor, fmt.Sprintf("%s passed", time.Since(away))
	})
	if ended[stack.Scheduler] == 0 {
		t.Error("the scheduler outlived its lease")
	}
	if ended[stack.Sidecar] > 0 {
		t.Error("the sidecar ended, which has no part in this")
	}
	s.restore(cluster.KubeAPIServer)
	back := time.Now()
	s.soon("the half bound group on nodes", 20*time.Millisecond, func(context.Context) (bool, string) {
		s.supervise(ended)
		n := len(s.onNodes("half-"))
		return n == 4, fmt.Sprintf("%d of 4", n)
	})
	t.Logf("the group was whole %s after the API server's return; processes that ended: %v", time.Since(back).Round(time.Millisecond), ended)
	s.running("half-", 4)
	s.stayed(bound)
	s.refused("waits", "NoRoom", "needs 4 pods", "room for 0")
	s.noneOnNodes("waits-")
	s.noneOnNodes("gathers-")
	s.dropCrew("steady", 4)
	s.running("waits-", 4)
	s.noneRejected()
	s.boundOnce()
	s.allBooked()
	s.supervise(ended)
}

// unwatched stops the scheduler while the API server restarts and something
// happens. The scheduler's watches have ended before that, so that it sees
// only the result. unwatched returns the time when the scheduler continued.
func (s *story) unwatched(happens func()) time.Time {
	s.Helper()
	s.pause(stack.Scheduler)
	defer s.resume(stack.Scheduler)
	s.restore(cluster.KubeAPIServer)
	// After a failed watch a client may wait for a minute before the next one. Until
	// KWOK watches leases again, it ignores the pods of a new node, and for good.
	s.restore(cluster.Kwok)
	s.restore(cluster.FakeKubelet)
	happens()
	return time.Now()
}

// dropCrew deletes the pods of a crew at once.
func (s *story) dropCrew(name string, n int) {
	s.Helper()
	s.kubectl(append([]string{"delete", "pods", "-n", s.ns, "--force", "--grace-period=0"}, names(name, n)...)...)
}

// State 6 and 7 of the lessons of earlier systems: the scheduler
// notices what happened without its watches when it watches again.
func TestWhatHappensWhileNobodyWatchesIsNoticed(t *testing.T) {
	s := tell(t)
	s.gated(false)
	s.inOrder("n", 3)
	s.applyText(crew("stays", 8) + crew("goes", 8))
	s.running("stays-", 8)
	s.running("goes-", 8)
	resumed := s.unwatched(func() {
		// A smaller node of the same name replaces a node. Other pods
		// and another group replace the earlier ones. One node is added.
		if err := s.RemoveNodes(t.Context(), "n-2-0"); err != nil {
			t.Fatal(err)
		}
		s.nodes("n-2", 1, "3")
		s.nodes("late", 1, "8")
		s.lose("stays-0")
		s.applyText(member("stays-8", "stays", "1", sized(8)))
		s.dropCrew("goes", 8)
	})
	s.running("stays-", 8)
	// Nodes and pods have different watches. A pod that comes
	// before the news of the nodes may be bound to the old nodes.
	s.eventually("four nodes in the graph", func(ctx context.Context) (bool, string) {
		n, err := s.SidecarMetric(ctx, "fluence_sidecar_nodes")
		return err == nil && n == 4, fmt.Sprintf("%v nodes, error %v", n, err)
	})
	s.applyText(crew("comes", 16))
	s.running("comes-", 16)
	t.Logf("all was in its place %s after the watches had begun again", time.Since(resumed).Round(time.Millisecond))
	s.applyText(crew("more", 4))
	s.refused("more", "NoRoom", "needs 4 pods", "room for 3")
	s.noneRejected()
	s.allBooked()

	// kube-scheduler itself ends when a bound pod is replaced by a pod of the same
	// name without a node. It is then restarted. The stock scheduler may do the same.
	before := slices.DeleteFunc(s.pods(""), func(p corev1.Pod) bool { return onNoNode(p) || p.Name == "stays-8" })
	resumed = s.unwatched(func() {
		s.lose("stays-8")
		s.applyText(member("stays-8", "stays", "1", sized(8)))
		s.restore(cluster.KubeScheduler)
	})
	ended := map[string]int{}
	s.eventually("the namesake runs", func(context.Context) (bool, string) {
		s.supervise(ended)
		pods := s.pods("stays-8")
		return len(pods) == 1 && pods[0].Status.Phase == corev1.PodRunning, fmt.Sprintf("%d pods", len(pods))
	})
	t.Logf("the namesake ran after %s; processes that ended: %v", time.Since(resumed).Round(time.Millisecond), ended)
	s.stayed(before)
	s.noneRejected()
	s.allBooked()
}
