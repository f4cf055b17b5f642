package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/stack"
)

// unanswered returns the number of scheduling cycles
// that failed because the matcher did not answer.
func (s *story) unanswered() int {
	s.Helper()
	var n float64
	// A scheduler that was just started does not serve at once.
	s.eventually("the scheduler tells its metrics", func(ctx context.Context) (ok bool, seen string) {
		var err error
		n, err = s.SchedulerMetric(ctx, `fluence_refusals_total{reason="MatcherUnavailable"}`)
		return err == nil, fmt.Sprint(err)
	})
	return int(n)
}

// outages returns how often the scheduler reported that the matcher does not answer.
func (s *story) outages() int {
	s.Helper()
	return strings.Count(s.schedulerLog(), "The matcher does not answer; groups wait")
}

// stopSidecar stops the sidecar. It lives, and its connections
// remain open. It continues at the end of the story, if not before.
func (s *story) stopSidecar() {
	s.Helper()
	s.Cleanup(func() { s.resume(stack.Sidecar) })
	s.pause(stack.Sidecar)
}

// contSidecar continues the sidecar, and logs how long it takes until a pod is bound.
func (s *story) contSidecar() {
	s.Helper()
	before := len(s.onNodes(""))
	s.resume(stack.Sidecar)
	start := time.Now()
	s.soon("a bind", 5*time.Millisecond, func(context.Context) (bool, string) { return len(s.onNodes("")) > before, "none" })
	s.Logf("the first bind came %s after the sidecar went on", time.Since(start).Round(time.Millisecond))
}

// noticed waits until the scheduler has reported once more that the matcher does not answer.
func (s *story) noticed(before int) {
	s.Helper()
	s.eventually("one more outage is told", func(context.Context) (bool, string) {
		n := s.outages()
		return n == before+1, fmt.Sprintf("%d after %d", n, before)
	})
}

// Flow 18 of the lessons of earlier systems: the sidecar is stopped, and does not refuse
// the calls that it does not answer. At most one scheduling cycle waits for it. Everything
// that needs no match continues. A call that is answered late books nothing twice.
func TestASidecarThatIsStoppedStopsNobodyElse(t *testing.T) {
	s := tell(t)
	s.gated(false)
	s.nodes("n", 3, "4")
	moments := map[string]func(*story){
		"while a group asks":      (*story).stoppedWhileAGroupAsks,
		"while one is half bound": (*story).stoppedWhileOneIsHalfBound,
		"at rest":                 (*story).stoppedAtRest,
	}
	for name, moment := range moments {
		t.Run(name, func(t *testing.T) {
			s := &story{T: t, Stack: s.Stack, ns: s.ns}
			moment(s)
			s.noneRejected()
			s.allBooked()
			s.boundOnce()
			s.kubectl("delete", "pods", "--all", "-n", s.ns, "--force", "--grace-period=0")
			s.allBooked()
		})
	}
}

func (s *story) stoppedWhileAGroupAsks() {
	s.Helper()
	waited, outages := s.unanswered(), s.outages()
	s.gate("PreFilter")
	s.applyText(crew("asks", 4))
	s.stopped("PreFilter", "asks-", 1)
	s.stopSidecar()
	s.gate("")
	s.refused("asks", "MatcherUnavailable", "the matcher does not answer")
	s.applyText(crew("second", 4) + crew("third", 4))
	s.applyText(lonePod("other", "default-scheduler"))
	s.refused("second", "MatcherUnavailable", "the matcher does not answer")
	s.refused("third", "MatcherUnavailable", "the matcher does not answer")
	s.running("other", 1)
	s.noneOnNodes("asks-")
	if n := s.unanswered() - waited; n != 1 {
		s.Errorf("%d scheduling cycles waited for the matcher, want 1", n)
	}
	if n := s.outages() - outages; n != 1 {
		s.Errorf("the outage was told %d times", n)
	}
	s.contSidecar()
	// With the other pod there is room for two of three groups.
	s.running("asks-", 4)
	s.eventually("another group runs, and one has no room", func(context.Context) (bool, string) {
		second, third := len(s.onNodes("second-")), len(s.onNodes("third-"))
		return second+third == 4 && (second == 0 || third == 0), fmt.Sprintf("%d and %d", second, third)
	})
}

func (s *story) stoppedWhileOneIsHalfBound() {
	s.Helper()
	outages := s.outages()
	s.gate("PreBind held")
	s.applyText(crew("half", 4, 1, 3))
	s.stopped("PreBind", "half-", 2)
	s.stopSidecar()
	s.noticed(outages)
	s.gate("")
	// A group that was matched needs no matcher any more.
	s.running("half-", 4)
	s.applyText(crew("next", 8))
	s.refused("next", "MatcherUnavailable", "the matcher does not answer")
	s.noneOnNodes("next-")
	s.contSidecar()
	s.running("next-", 8)
}

func (s *story) stoppedAtRest() {
	s.Helper()
	s.applyText(crew("rests", 4))
	s.running("rests-", 4)
	waited, outages := s.unanswered(), s.outages()
	s.stopSidecar()
	s.noticed(outages)
	s.applyText(lonePod("beside", "default-scheduler") + "---\n" + crew("comes", 7))
	s.running("beside", 1)
	s.refused("comes", "MatcherUnavailable", "the matcher does not answer")
	s.kubectl("delete", "pod", "rests-0", "-n", s.ns, "--force", "--grace-period=0")
	s.contSidecar()
	s.running("comes-", 7)
	if n := s.unanswered() - waited; n != 0 {
		s.Errorf("%d scheduling cycles waited for a matcher that was known not to answer", n)
	}
}

// A starved sidecar answers late, but groups are placed.
func TestASlowSidecarStillPlacesGroups(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	const groups, turn = 6, 300 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		turns := time.NewTicker(turn)
		defer turns.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				_ = s.Process(stack.Sidecar).Signal(syscall.SIGCONT)
				return
			case <-turns.C:
				_ = s.Process(stack.Sidecar).Signal([]syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT}[n%2])
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	start := time.Now()
	for i := range groups {
		s.applyText(job(fmt.Sprintf("slow-%d", i), 4, "1"))
	}
	s.running("slow-", 4*groups)
	t.Logf("%d groups ran after %s", groups, time.Since(start).Round(time.Millisecond))
	for i := range groups {
		if got := s.matches(fmt.Sprintf("job-slow-%d-", i)); len(got) != 1 || got[0] != 4 {
			t.Errorf("pods by match of group %d: %v, want all in one", i, got)
		}
	}
	stop()
	<-ended
	s.noneRejected()
	s.allBooked()
}
