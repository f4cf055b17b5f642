package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/walltime"
	"github.com/flux-k8s/fluence/test/apiproxy"
	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// largeSize is the number of pods, and of nodes, of the gang that is promised room.
const largeSize = 3

// The steps of a promise at which processes are killed.
const (
	asks      = "while the group asks"
	unwritten = "after the booking, before the condition is written"
	stands    = "while it stands"
	movesNow  = "while it moves"
	dueNow    = "when its time has come"
	bindsNow  = "between the binds"
)

// promiseSteps are the steps in order.
var promiseSteps = []string{asks, unwritten, stands, movesNow, dueNow, bindsNow}

// A promiseTrial is the life of a promise, during which processes are killed once.
type promiseTrial struct {
	*story
	proxy *apiproxy.Proxy
	// seed names what the trial creates.
	seed uint64
	step string
	// killed are the processes in the order in which they are killed and started.
	killed []string
	// delay is how long after the step's begin they are killed.
	delay time.Duration
	// passes is how many binds pass before.
	passes int

	// bookedFor is when the room was promised from before the kill. It is zero if that is not known.
	bookedFor time.Time
	restarted time.Time
}

// draw decides what happens in the trial.
func (s *promiseTrial) draw(r *rand.Rand) {
	s.step = promiseSteps[s.seed%uint64(len(promiseSteps))]
	s.killed = [][]string{{stack.Scheduler}, {stack.Scheduler}, {stack.Sidecar}, {stack.Sidecar, stack.Scheduler}, {stack.Scheduler, stack.Sidecar}}[r.IntN(5)]
	s.passes = r.IntN(largeSize)
	within := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
	switch s.step {
	case asks:
		s.delay = within(0, 600*time.Millisecond)
	case movesNow:
		s.delay = within(0, 2500*time.Millisecond)
	case dueNow:
		s.delay = within(-500*time.Millisecond, 2500*time.Millisecond)
	}
	s.Logf("killed %s: %v, %s after its begin, %d binds pass before", s.step, s.killed, s.delay, s.passes)
}

// name returns a name of the trial's own.
func (s *promiseTrial) name(of string) string { return fmt.Sprintf("%s-%d", of, s.seed) }

// await waits until a moment that was drawn.
func (s *promiseTrial) await(at time.Time) {
	s.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}

// hold holds the requests that which takes, after some of them. The channel is closed when the first one is held.
func (s *promiseTrial) hold(passes int, which func(apiproxy.Request) bool) (reached <-chan struct{}) {
	b := &barrier{reached: make(chan struct{}), pass: passes}
	s.proxy.Disturb(func(r apiproxy.Request) apiproxy.Fault {
		b.mu.Lock()
		defer b.mu.Unlock()
		if which(r) && b.holds() {
			return apiproxy.Held
		}
		return apiproxy.None
	})
	return b.reached
}

// isPromised waits until the gang is promised room, creates a Job that would last longer than the gang waits, and waits until
// it is refused because of that.
func (s *promiseTrial) isPromised() {
	s.Helper()
	s.promised(s.name("large"), anyPromise)
	s.bookedFor = s.reserved(anyTime)
	s.applyText(lasting(s.name("late"), 1, "1h"))
	s.refused("job-"+s.name("late")+"-", "NoRoom", "room for 1 more is promised to "+s.ns+"/job-"+s.name("large")+"-")
}

// reach leads the promise to the step.
func (s *promiseTrial) reach() {
	s.Helper()
	s.applyText(lasting(s.name("running"), largeSize-1, "20m"))
	s.running(s.name("running")+"-", largeSize-1)
	large := lasting(s.name("large"), largeSize, "10m")
	switch s.step {
	case asks:
		s.applyText(large)
		s.await(time.Now().Add(s.delay))
		return
	case unwritten:
		reached := s.hold(0, func(r apiproxy.Request) bool {
			return r.Resource == "podgroups" && r.FieldManager == report.FieldManager && strings.HasPrefix(r.Name, "job-"+s.name("large")+"-")
		})
		s.applyText(large)
		s.arrives(reached)
		s.bookedFor = s.reserved(anyTime)
		return
	}
	s.applyText(large)
	s.isPromised()
	switch s.step {
	case movesNow:
		s.bookedFor = time.Time{} // it is to be later
		s.setDuration(s.name("running"), "40m")
		s.await(time.Now().Add(s.delay))
	case dueNow:
		// Otherwise a slow machine could come to this only after the end.
		end, pod := time.Now().Add(4*time.Second), s.pods(s.name("running") + "-")[0]
		s.setDuration(s.name("running"), fmt.Sprintf("%.0fs", end.Sub(walltime.BoundAt(&pod)).Seconds()))
		s.await(end.Add(s.delay))
	case bindsNow:
		reached := s.hold(s.passes, func(r apiproxy.Request) bool { return binds(r.RequestInfo) })
		s.kubectl("delete", "job", s.name("running"), "-n", s.ns, "--wait=false")
		s.arrives(reached)
	}
}

// killAndStart kills the processes of the trial, and starts them again.
func (s *promiseTrial) killAndStart() {
	s.Helper()
	loads := s.loads(stack.Scheduler)
	for _, process := range s.killed {
		s.kill(process)
	}
	s.proxy.Disturb(nil)
	for _, process := range s.killed {
		if process == stack.Scheduler {
			s.dropLease()
		}
		s.start(process)
	}
	s.restarted = time.Now()
	if !s.bookedFor.IsZero() && (s.step == unwritten || s.step == stands) {
		s.promisedAgain(loads, s.bookedFor)
	}
}

// starts waits until the gang runs. It fails if the gang is in halves for too long, or if the Job runs before it that would
// last longer.
func (s *promiseTrial) starts() {
	s.Helper()
	var halves time.Time
	s.soon("the gang runs", 50*time.Millisecond, func(context.Context) (bool, string) {
		n, late := len(s.onNodes(s.name("large")+"-")), len(s.onNodes(s.name("late")+"-"))
		switch now := time.Now(); {
		case late > 0:
			s.Fatalf("a Job that lasts longer has a node, while %d of %d pods of the gang do that is promised it", n, largeSize)
		case n == 0 || n == largeSize:
			halves = time.Time{}
		case halves.IsZero():
			halves = now
		case now.Sub(halves) > halvesFor && now.Sub(s.restarted) > halvesFor:
			s.Fatalf("%d of %d pods have nodes, since %s; processes were started again at %s", n, largeSize, halves, s.restarted)
		}
		return n == largeSize, fmt.Sprintf("%d pods have nodes", n)
	})
	s.Logf("the gang has its nodes %s after the restart", time.Since(s.restarted).Round(10*time.Millisecond))
	s.running(s.name("large")+"-", largeSize)
	s.placed("job-" + s.name("large") + "-")
}

// play plays the trial.
func (s *promiseTrial) play() {
	s.Helper()
	s.reach()
	s.killAndStart()
	switch s.step {
	case asks, unwritten:
		s.isPromised()
	case movesNow:
		s.promised(s.name("large"), from(time.Now().Add(40*time.Minute)))
	}
	switch s.step {
	case asks, unwritten, stands, movesNow:
		s.refused("job-"+s.name("late")+"-", "NoRoom", "room for 1 more is promised to "+s.ns+"/job-"+s.name("large")+"-")
		s.kubectl("delete", "job", s.name("running"), "-n", s.ns, "--wait=false")
	}
	s.starts()
	s.none(s.name("running") + "-")
	s.noneRejected()
	s.allBooked()
	// The other Job is promised room by now.
	s.kubectl("delete", "job", s.name("late"), "-n", s.ns)
	s.eventually("no reservation is left", func(ctx context.Context) (bool, string) {
		jobs, err := s.reservations(ctx)
		return err == nil && len(jobs) == 0, fmt.Sprintf("%d, error %v", len(jobs), err)
	})
	s.allBooked()
	s.noDrift()
}

// noDrift fails if the scheduler has repaired the graph.
func (s *story) noDrift() {
	s.Helper()
	if n, err := s.SchedulerMetric(context.WithoutCancel(s.Context()), "fluence_drift_total"); n > 0 || err != nil {
		s.Errorf("%v drifts of the graph were repaired, error %v", n, err)
	}
}

// clearTrial ends the trial, whatever has become of it.
func (s *promiseTrial) clearTrial() {
	s.Helper()
	if s.Failed() {
		s.dump(context.WithoutCancel(s.Context()))
	}
	s.proxy.Disturb(nil)
	s.survivors()
	s.clear(context.WithoutCancel(s.Context()))
}

// A gang is promised room, and at a step of that scheduler or matcher are killed, or both. The promise is there again,
// nobody runs before it who would last longer, the gang starts as a whole, and no reservation is left.
func TestKillsDuringAPromiseLoseAndLeakNothing(t *testing.T) {
	s := tell(t)
	proxy := s.proxied()
	s.promises(1, true)
	s.nodes("n", largeSize, "8")
	for seed := range trials.Seeds(len(promiseSteps)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			trial := &promiseTrial{story: &story{T: t, Stack: s.Stack, ns: s.ns}, proxy: proxy, seed: seed}
			trial.draw(rand.New(rand.NewPCG(seed, 0)))
			t.Cleanup(trial.clearTrial)
			trial.play()
		})
	}
	s.boundOnce()
	before, err := s.SchedulerMetric(t.Context(), "fluence_audits_total")
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("a whole audit", func(ctx context.Context) (bool, string) {
		n, err := s.SchedulerMetric(ctx, "fluence_audits_total")
		return n >= before+2, fmt.Sprintf("%v after %v, error %v", n, before, err)
	})
	s.noDrift()
}
