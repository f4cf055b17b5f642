package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// standby starts a second scheduler with its own sidecar for the rest of the story, and
// waits until its graph is loaded. After the story the first scheduler leads again.
func (s *story) standby() {
	s.Helper()
	loaded := s.loads(stack.StandbyScheduler)
	s.startNamed(stack.StandbySidecar)
	s.startNamed(stack.StandbyScheduler)
	s.Cleanup(func() {
		s.kill(stack.StandbyScheduler)
		s.kill(stack.StandbySidecar)
		select {
		case <-s.Process(stack.Scheduler).Done():
			s.dropLease()
			s.start(stack.Scheduler)
		default:
		}
	})
	s.eventually("the standby's graph is loaded", func(context.Context) (bool, string) {
		return s.loads(stack.StandbyScheduler) > loaded, "not yet"
	})
}

func (s *story) startNamed(process string) {
	s.Helper()
	if err := s.StartNamed(context.WithoutCancel(s.Context()), process); err != nil {
		s.Fatal(err)
	}
}

// dropLease releases a lease that nobody will renew. There is none if the scheduler was killed before it led.
func (s *story) dropLease() {
	s.Helper()
	err := s.Client().CoordinationV1().Leases(stack.Namespace).Delete(context.WithoutCancel(s.Context()), stack.Scheduler, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Errorf("delete the lease: %v", err)
	}
}

// loads returns how often schedulers of a name have filled their graph.
func (s *story) loads(scheduler string) int {
	s.Helper()
	if s.Process(scheduler) == nil {
		return 0
	}
	return strings.Count(s.logOf(scheduler), `"Loaded the graph"`)
}

// leads waits until a scheduler leads.
func (s *story) leads(scheduler string) {
	s.Helper()
	s.eventually(scheduler+" leads", func(ctx context.Context) (bool, string) {
		leader, err := s.Leader(ctx)
		return leader == scheduler, fmt.Sprintf("%q does, error %v", leader, err)
	})
}

// graphs returns the numbers of jobs and nodes of each sidecar.
func (s *story) graphs(ctx context.Context) (graphs [2]string) {
	for i, sidecar := range []string{stack.Sidecar, stack.StandbySidecar} {
		jobs, err1 := s.Metric(ctx, sidecar, "fluence_sidecar_jobs")
		nodes, err2 := s.Metric(ctx, sidecar, "fluence_sidecar_nodes")
		if err1 != nil || err2 != nil {
			graphs[i] = fmt.Sprintf("%v, %v", err1, err2)
			continue
		}
		graphs[i] = fmt.Sprintf("%v jobs on %v nodes", jobs, nodes)
	}
	return graphs
}

// State 1 of the lessons of earlier systems, with a second scheduler: the leader is lost while
// a group is half bound. Its successor has the graph already. The pods that the group lacks go
// first, even before a group of higher priority that is older and would fill the same room.
func TestTheStandbyCompletesAHalfBoundGroupFirst(t *testing.T) {
	cases := map[string]struct {
		group string
		// held are the members that the leader does not bind before its end.
		held []int
		lose func(*story, string)
	}{
		"the leader is killed with the asking member unbound":          {group: "one", held: []int{0}, lose: (*story).kill},
		"the leader is stopped for a while with that and more unbound": {group: "two", held: []int{0, 1, 2, 3}, lose: (*story).pause},
	}
	s := tell(t)
	s.gated(true)
	s.nodes("n", 2, "5")
	s.applyText(lonePod("early-0", "fluence") + "---\n" + lonePod("early-1", "fluence"))
	s.running("early-", 2)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &story{T: t, Stack: s.Stack, ns: s.ns}
			s.loseTheLeader(tc.group, tc.held, tc.lose)
		})
	}
}

func (s *story) loseTheLeader(half string, held []int, lose func(*story, string)) {
	s.Helper()
	const size = 8
	opponent := "against-" + half
	s.leads(stack.Scheduler)
	s.standby()
	s.eventually("both graphs are the same", func(ctx context.Context) (bool, string) {
		g := s.graphs(ctx)
		const want = "2 jobs on 2 nodes"
		return g == [2]string{want, want}, fmt.Sprint(g)
	})

	// The rival lacks a member while the half is placed, and later has no room.
	rival := strings.SplitAfter(strings.ReplaceAll(crew(opponent, len(held)), "spec:\n", "spec:\n  priorityClassName: "+s.patient(1000)(1000)+"\n"), "---\n")
	last := len(held) - 1
	if last > 0 {
		s.applyText(strings.Join(rival[:last], ""))
		s.refused(opponent, "Gathering", "waits for 1 more pod")
	}
	s.gate("PreBind held")
	s.applyText(crew(half, size, held...))
	s.stopped("PreBind", half+"-", len(held))
	s.eventually("the others on nodes", func(context.Context) (bool, string) {
		n := len(s.onNodes(half + "-"))
		return n == size-len(held), fmt.Sprintf("%d are", n)
	})
	s.applyText(rival[last])
	s.refused(opponent, "NoRoom", fmt.Sprintf("needs %d pod", len(held)), "room for 0")
	bound := slices.DeleteFunc(s.pods(""), onNoNode)
	s.eventually("the standby has booked them", func(ctx context.Context) (bool, string) {
		g := s.graphs(ctx)[1]
		return g == fmt.Sprintf("%d jobs on 2 nodes", 2+size-len(held)), g
	})
	loads := s.loads(stack.StandbyScheduler)

	lose(s, stack.Scheduler)
	lost := s.Process(stack.Scheduler)
	lease, err := s.SchedulerLease(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.gate("")
	s.soon("another bind", 5*time.Millisecond, func(context.Context) (bool, string) {
		return len(s.onNodes("")) > len(bound), "none"
	})
	s.Logf("the next bind came %s after the lease had run out", time.Since(lease.Expires).Round(time.Millisecond))
	s.running(half+"-", size)
	s.leads(stack.StandbyScheduler)
	s.noneOnNodes(opponent + "-")
	s.refused(opponent, "NoRoom", "room for 0")
	if n := s.loads(stack.StandbyScheduler); n != loads {
		s.Errorf("the standby filled its graph %d times for the takeover", n-loads)
	}
	s.resume(stack.Scheduler)
	if err := lost.Wait(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.untouched(bound)
	s.noneRejected()
	s.boundOnce()
	_, refused := s.bindings()
	s.Logf("%d binds were refused", refused)

	// The new leader has everything it needs.
	s.dropCrew(half, size)
	s.running(opponent+"-", len(held))
	s.dropCrew(opponent, len(held))
	s.noneRejected()
}

// names returns the names of a crew's pods.
func names(crew string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", crew, i)
	}
	return out
}
