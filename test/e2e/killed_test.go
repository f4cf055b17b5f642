package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/stack"
)

// A moment is a step on a group's way to its nodes, at which the group is stopped.
type moment struct {
	name string
	// gate stops the group's pods, see story.gate. held
	// are the pods with the label that gate may name.
	gate string
	held []int
	// ahead is killed before the group is created, so that the group gets no further.
	ahead string
	// reached waits until the group is at the step.
	reached func(s *story, group string)
}

// crewSize is the number of pods in the groups that are stopped on their way.
const crewSize = 4

// moments returns the steps, in order.
func moments() []moment {
	onNodes := func(n int) func(*story, string) {
		return func(s *story, group string) {
			s.soon(fmt.Sprintf("%d pods of %s on nodes", n, group), 5*time.Millisecond, func(context.Context) (bool, string) {
				got := len(s.onNodes(group + "-"))
				return got == n, fmt.Sprintf("%d are", got)
			})
		}
	}
	at := func(step string, n int) func(*story, string) {
		return func(s *story, group string) { s.stopped(step, group+"-", n) }
	}
	return []moment{
		{name: "no-podgroup", ahead: stack.Controller, reached: func(s *story, group string) {
			if got := len(s.pods(group + "-")); got != crewSize {
				s.Fatalf("%d pods of %s", got, group)
			}
		}},
		{name: "no-match", gate: "PreFilter", reached: at("PreFilter", 1)},
		{name: "no-bind", gate: "PreBind", reached: at("PreBind", crewSize)},
		{name: "some-binds", gate: "PreBind held", held: []int{0, 2}, reached: func(s *story, group string) {
			at("PreBind", 2)(s, group)
			onNodes(2)(s, group)
		}},
		{name: "all-binds", reached: onNodes(crewSize)},
	}
}

// State 1 and Flow 17 of the lessons of earlier systems: every process of Fluence,
// and every two of them, are killed at every step of a group's way. Each time the
// group is complete in the end, no room is assigned twice, and bound pods stay.
func TestWhoeverIsKilledAtAnyStepTheGroupIsWholeInTheEnd(t *testing.T) {
	s := tell(t)
	s.gated(false)
	s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = []string{"--leader-elect=false"} })
	defer s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = nil })
	// There is room for the running group and the coming one, and no more.
	s.nodes("n", 2, "4")
	victims := map[string][]string{
		"scheduler":            {stack.Scheduler},
		"sidecar":              {stack.Sidecar},
		"controller":           {stack.Controller},
		"scheduler-sidecar":    {stack.Scheduler, stack.Sidecar},
		"scheduler-controller": {stack.Scheduler, stack.Controller},
		"sidecar-controller":   {stack.Sidecar, stack.Controller},
	}
	s.applyText(crew("steady", crewSize))
	s.running("steady-", crewSize)
	n := 0
	for _, m := range moments() {
		for name, killed := range victims {
			t.Run(m.name+"/"+name, func(t *testing.T) {
				s := &story{T: t, Stack: s.Stack, ns: s.ns}
				n++
				s.killedAt(m, fmt.Sprintf("crew%d", n), killed)
			})
		}
	}
	s.boundOnce()
}

// killedAt kills processes at a moment of a group's way, lets
// the group continue without them, and starts them again.
func (s *story) killedAt(m moment, group string, killed []string) {
	s.Helper()
	s.gate(m.gate)
	down := killed
	if m.ahead != "" {
		s.kill(m.ahead)
		if !slices.Contains(killed, m.ahead) {
			down = append([]string{m.ahead}, killed...)
		}
	}
	s.applyText(crew(group, crewSize, m.held...))
	m.reached(s, group)
	for _, process := range killed {
		s.kill(process)
	}
	bound := slices.DeleteFunc(s.pods(""), onNoNode)
	s.gate("")
	for _, process := range down {
		s.startNamed(process)
	}
	s.running(group+"-", crewSize)
	s.stayed(bound)
	s.noneRejected()
	s.allBooked()
	s.dropCrew(group, crewSize)
}

// State 1 of the lessons of earlier systems: a sidecar has forgotten everything.
// It gets the unbound matches again, and assigns their room to nobody else.
func TestWhatIsNotBoundYetIsStillChargedAfterASidecarsEnd(t *testing.T) {
	s := tell(t)
	s.gated(false)
	s.nodes("n", 2, "4")
	s.gate("PreBind held")
	s.applyText(crew("half", 8, 4, 5, 6, 7))
	s.stopped("PreBind", "half-", 4)
	s.applyText(crew("rival", 4))
	s.refused("rival", "NoRoom", "needs 4 pods", "room for 0")
	loads := s.loads(stack.Scheduler)
	s.kill(stack.Sidecar)
	s.startNamed(stack.Sidecar)
	s.eventually("the graph is loaded again", func(context.Context) (bool, string) {
		n := s.loads(stack.Scheduler)
		return n == loads+1, fmt.Sprintf("%d times", n-loads)
	})
	s.eventually("the rival has asked again", func(ctx context.Context) (bool, string) {
		n, err := s.SidecarMetric(ctx, "fluence_sidecar_match_duration_seconds_count")
		return err == nil && n > 0, fmt.Sprintf("%v matches, error %v", n, err)
	})
	s.refused("rival", "NoRoom", "needs 4 pods", "room for 0")
	s.gate("")
	s.running("half-", 8)
	if got := s.matches("rival"); len(got) > 0 {
		t.Errorf("pods by match of the rival: %v, want none: the room was another's", got)
	}
	s.noneRejected()
	s.allBooked()
}
