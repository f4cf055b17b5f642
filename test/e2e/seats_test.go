package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// unitSize is the number of pods of a unit: a leader, and followers that are made when it has a node.
const unitSize = 8

// unitGroup returns the PodGroup of a unit, as the controller writes it for a unit of a LeaderWorkerSet.
func unitGroup(name string) string {
	const pod = `{spec: {schedulerName: fluence, containers: [{name: main, resources: {requests: {cpu: "1"}}}]}}`
	return fmt.Sprintf(`apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s}
spec:
  minMember: 1
  templates:
  - {name: leader, coming: 1, pod: %s}
  - {name: worker, expected: %d, after: Bound, leader: leader, pod: %s}
---
`, name, pod, unitSize-1, pod)
}

// unitPods returns the pods of a unit from one number to before another. Number 0 is the leader.
func unitPods(name string, from, to int) string {
	var text strings.Builder
	for i := from; i < to; i++ {
		text.WriteString(member(fmt.Sprintf("%s-%d", name, i), name, "1", fmt.Sprintf(`leaderworkerset.sigs.k8s.io/worker-index: "%d"`, i)))
	}
	return text.String()
}

// The scheduler, the sidecar and the controller are killed at any moment between the leader of a unit and
// its followers, and while these take their seats. The seats are kept, no other group gets them, no room
// is booked twice, and nothing is left over. There is room for one unit and a half.
func TestSeatsOutliveKills(t *testing.T) {
	s := tell(t)
	s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = []string{"--leader-elect=false"} })
	defer s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = nil })
	s.nodes("n", 3, "4")
	for seed := range trials.Seeds(3) {
		s.seatsOutliveKills(fmt.Sprintf("unit%d", seed), rand.New(rand.NewPCG(seed, 0)))
	}
	s.boundOnce()
}

func (s *story) seatsOutliveKills(unit string, r *rand.Rand) {
	s.Helper()
	s.applyText(unitGroup(unit) + unitPods(unit, 0, 1))
	if r.IntN(2) == 0 {
		// Otherwise the processes are killed at any moment until the leader has its node.
		s.leaderBound(unit)
	}
	s.killSome(r, nil)
	s.leaderBound(unit)
	seats := s.seats(unit)
	if n := sum(seats["worker"]); n != unitSize-1 {
		s.Fatalf("%s has seats for %d workers when its leader has a node, want %d: %v", unit, n, unitSize-1, seats)
	}
	rival := "rival-" + unit
	s.applyText(crew(rival, unitSize))
	s.refused(rival, "NoRoom", fmt.Sprintf("needs %d pods", unitSize), "room for 4")
	s.slots(unitSize)
	followers := func() { s.applyText(unitPods(unit, 1, unitSize)) }
	switch r.IntN(3) {
	case 0:
		s.killSome(r, followers)
	case 1:
		s.killSome(r, nil)
		s.slots(unitSize)
		followers()
	default:
		followers()
		bound := 1 + r.IntN(unitSize)
		s.soon(fmt.Sprintf("%d pods of %s on nodes", bound, unit), 5*time.Millisecond, func(context.Context) (bool, string) {
			return len(s.onNodes(unit+"-")) >= bound, ""
		})
		s.killSome(r, nil)
	}
	s.running(unit+"-", unitSize)
	on := map[string]int{}
	for _, node := range s.nodesOf(unit + "-") {
		on[node]++
	}
	want := maps.Clone(seats["worker"])
	for node, n := range seats["leader"] {
		want[node] += n
	}
	if !maps.Equal(on, want) {
		s.Errorf("pods of %s by node: %v, want those of the seats: %v", unit, on, want)
	}
	s.noneOnNodes(rival + "-")
	s.noneRejected()
	s.slots(unitSize)
	s.eventually("the PodGroup records no seats any more", func(context.Context) (bool, string) {
		left := s.seats(unit)
		return len(left) == 0, fmt.Sprint(left)
	})
	// What the unit leaves is the rival's.
	s.dropCrew(unit, unitSize)
	s.running(rival+"-", unitSize)
	s.dropCrew(rival, unitSize)
	s.kubectl("delete", "podgroups.scheduling.x-k8s.io", unit, "-n", s.ns)
	s.eventually("no pod is left", func(context.Context) (bool, string) {
		n := len(s.pods(""))
		return n == 0, fmt.Sprint(n)
	})
	s.slots(0)
}

// killSome kills one or more of the processes, does something, and starts them again.
func (s *story) killSome(r *rand.Rand, meanwhile func()) {
	s.Helper()
	all := []string{stack.Scheduler, stack.Sidecar, stack.Controller}
	chosen := 1 + r.IntN(1<<len(all)-1)
	var killed []string
	for i, process := range all {
		if chosen>>i&1 == 1 {
			s.kill(process)
			killed = append(killed, process)
		}
	}
	s.Logf("killed %v", killed)
	if meanwhile != nil {
		meanwhile()
	}
	for _, process := range killed {
		if process == stack.Scheduler {
			s.dropLease()
		}
		s.startNamed(process)
	}
}

func (s *story) leaderBound(unit string) {
	s.Helper()
	s.soon("the leader of "+unit+" on a node", 5*time.Millisecond, func(context.Context) (bool, string) {
		return len(s.onNodes(unit+"-")) > 0, "it waits"
	})
}

// seats returns what a PodGroup records.
func (s *story) seats(name string) map[string]map[string]int {
	s.Helper()
	all := map[string]map[string]int{}
	pg := s.group(context.WithoutCancel(s.Context()), name)
	if pg == nil {
		s.Fatalf("there is no PodGroup %s", name)
	}
	for template, nodes := range pg.Status.Seats {
		all[template] = map[string]int{}
		for node, n := range nodes {
			all[template][node] = int(n)
		}
	}
	return all
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// nodesOf returns the nodes of the pods with a name prefix that run, by name.
func (s *story) nodesOf(prefix string) map[string]string {
	s.Helper()
	on := map[string]string{}
	for _, p := range s.pods(prefix) {
		if p.Status.Phase == corev1.PodRunning {
			on[p.Name] = p.Spec.NodeName
		}
	}
	return on
}

// slots waits until the sidecar holds this number of slots.
func (s *story) slots(n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d slots in the sidecar", n), func(ctx context.Context) (bool, string) {
		got, err := s.Metric(ctx, stack.Sidecar, "fluence_sidecar_slots")
		return err == nil && int(got) == n, fmt.Sprintf("%v, error %v", got, err)
	})
}
