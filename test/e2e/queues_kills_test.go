package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/controller/fluxjob"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/apiproxy"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

// The parts of a trial. Each begins with something that a user or a pod does.
const (
	submitted = iota
	roomComes
	jobEnds
)

// A queueMoment is between two steps on the way of a job of a queue, from its creation to its end.
type queueMoment struct {
	name string
	part int
	// holds are the requests at which the job is stopped. some of them pass before. Without holds it goes on.
	holds func(*queueTrial, apiproxy.Request) bool
	some  bool
	// then leads from there to the moment.
	then func(*queueTrial)
}

// byController and byScheduler are requests that write an object about the job of the trial.
func byController(resource string) func(*queueTrial, apiproxy.Request) bool {
	return func(s *queueTrial, r apiproxy.Request) bool {
		return r.FieldManager == fluxjob.FieldManager && r.Resource == resource && r.Verb == "patch" && s.isOfJob(r.Name)
	}
}

func byScheduler(s *queueTrial, r apiproxy.Request) bool {
	return r.FieldManager == report.FieldManager && r.Resource == v1alpha1.FluxJobs.Resource && s.isOfJob(r.Name)
}

// creates are requests that create an object. They do not say its name: in each part only the job of the trial has any.
func creates(resource string) func(*queueTrial, apiproxy.Request) bool {
	return func(_ *queueTrial, r apiproxy.Request) bool { return r.Resource == resource && r.Verb == "create" }
}

// bindsOne are requests that bind a pod of the job.
func bindsOne(s *queueTrial, r apiproxy.Request) bool {
	return binds(r.RequestInfo) && s.isOfJob(r.Name)
}

// queueMoments returns the moments in order.
func queueMoments() []queueMoment {
	const jobs, groups = "jobs", "podgroups"
	all := v1alpha1.FluxJobs.Resource
	return []queueMoment{
		{name: "before its FluxJob is made", part: submitted, holds: creates(all)},
		{name: "before its FluxJob is said to be valid", part: submitted, holds: byController(all)},
		{name: "before its promise is written", part: submitted, holds: byScheduler},
		{name: "while it is promised room", part: submitted, then: (*queueTrial).isPromised},
		{name: "before its allocation is written", part: roomComes, holds: byScheduler},
		{name: "before its Job is let go", part: roomComes, holds: byController(jobs)},
		{name: "before it has pods", part: roomComes, holds: byController(jobs), then: func(s *queueTrial) {
			s.stop(cluster.KubeControllerManager)
			s.proxy.Disturb(nil)
			s.until(s.job(), "it is let go", func(t *turn) bool { return t.resumed == 1 })
		}},
		{name: "before its FluxJob is said to run", part: roomComes, holds: byController(all)},
		{name: "before it has a PodGroup", part: roomComes, holds: creates(groups), then: func(s *queueTrial) {
			s.until(s.job(), "it has its pods", func(t *turn) bool { return len(t.made) == largeSize })
		}},
		{name: "before the match that takes its room over", part: roomComes, holds: creates(groups), then: func(s *queueTrial) {
			s.stop(stack.Sidecar)
			s.proxy.Disturb(nil)
			s.eventually("it has a PodGroup", func(ctx context.Context) (bool, string) { return s.group(ctx, "job-"+s.job()+"-") != nil, "none" })
		}},
		{name: "after the match, before the binds", part: roomComes, holds: bindsOne},
		{name: "between the binds", part: roomComes, holds: bindsOne, some: true},
		{name: "at any time while it starts", part: roomComes, then: (*queueTrial).whenever},
		{name: "when all its pods are bound", part: roomComes, then: (*queueTrial).hasStarted},
		{name: "before its Job has ended, after its pods", part: jobEnds, then: func(s *queueTrial) {
			s.stop(cluster.KubeControllerManager)
			s.until(s.job(), "its pods have ended", func(t *turn) bool { return len(t.holds) == 0 })
		}},
		{name: "before its FluxJob is said to be finished", part: jobEnds, holds: byController(all)},
		{name: "when it has ended", part: jobEnds, then: (*queueTrial).hasEnded},
	}
}

// A queueKill is a moment at which processes are killed.
type queueKill struct {
	queueMoment
	// passes is the number of requests that pass before one is held.
	passes int
	// processes are killed and started in this order.
	processes []string
	// reached is closed when the first request is held.
	reached <-chan struct{}
}

// A queueTrial is the way of a job that is promised room, starts there and ends, during which processes are killed twice.
// Another job runs before it. A third one would fit at once, but would last longer than the job waits: it runs afterwards.
type queueTrial struct {
	*story
	proxy *apiproxy.Proxy
	diary *diary
	// seed names what the trial creates, and earlier is the number of trials before it.
	seed    uint64
	earlier int
	// before is the Job that runs. It may be that of an earlier trial.
	before string
	kills  []*queueKill
	// delay is how long after the room has come "at any time" is.
	delay time.Duration
	// stopped are processes that do not run on.
	stopped []string
}

// job and next return the names of the Jobs that the trial creates.
func (s *queueTrial) job() string  { return fmt.Sprintf("large-%d", s.seed) }
func (s *queueTrial) next() string { return fmt.Sprintf("next-%d", s.seed) }

// isOfJob reports whether an object is the Job of the trial, its FluxJob or one of its pods.
func (s *queueTrial) isOfJob(name string) bool {
	return name == s.job() || strings.HasPrefix(name, s.job()+"-") || strings.HasPrefix(name, "job-"+s.job()+"-")
}

// draw decides when what is killed. Ten trials in a row kill at every moment.
func (s *queueTrial) draw(r *rand.Rand) {
	moments := queueMoments()
	first := (len(moments) + 1) / 2
	for _, of := range [][]queueMoment{moments[:first], moments[first:]} {
		k := &queueKill{queueMoment: of[s.seed%uint64(len(of))], processes: []string{stack.Scheduler, stack.Controller, stack.Sidecar}}
		r.Shuffle(len(k.processes), func(i, j int) { k.processes[i], k.processes[j] = k.processes[j], k.processes[i] })
		k.processes = k.processes[:1+r.IntN(len(k.processes))]
		if k.some {
			k.passes = 1 + r.IntN(largeSize-1)
		}
		s.kills = append(s.kills, k)
		s.Logf("killed %s: %v, %d requests pass before", k.name, k.processes, k.passes)
	}
	s.delay = time.Duration(r.Int64N(int64(2 * time.Second)))
}

// arm holds what leads to a moment.
func (s *queueTrial) arm(k *queueKill) {
	if k.holds == nil {
		s.proxy.Disturb(nil)
		return
	}
	b := &barrier{reached: make(chan struct{}), pass: k.passes}
	k.reached = b.reached
	s.proxy.Disturb(func(r apiproxy.Request) apiproxy.Fault {
		b.mu.Lock()
		defer b.mu.Unlock()
		if k.holds(s, r) && b.holds() {
			return apiproxy.Held
		}
		return apiproxy.None
	})
}

// reach waits until the moment has come. The second moment of a part may be over by then: while the first was waited for,
// what is not held has gone on. Then processes are killed when the job has started.
func (s *queueTrial) reach(k *queueKill) {
	s.Helper()
	over := false
	if k.reached != nil {
		s.soon("the moment "+k.name, 5*time.Millisecond, func(context.Context) (is bool, text string) {
			select {
			case <-k.reached:
				is = true
			default:
			}
			s.diary.of(s.job(), func(t *turn) {
				over, text = !is && k.part == roomComes && len(t.on) == t.pods, t.String()
			})
			return is || over, text
		})
	}
	if over {
		s.Logf("the moment %s was over", k.name)
	} else if k.then != nil {
		k.then(s)
	}
}

// whenever waits for the time that was drawn.
func (s *queueTrial) whenever() {
	s.Helper()
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}

// stop stops a process until the next kill.
func (s *queueTrial) stop(process string) {
	s.Helper()
	s.stopped = append(s.stopped, process)
	s.pause(process)
}

// goOn lets all processes run on that were stopped, but for those that were killed.
func (s *queueTrial) goOn(killed []string) {
	s.Helper()
	for _, process := range s.stopped {
		if !slices.Contains(killed, process) {
			s.resume(process)
		}
	}
	s.stopped = nil
}

// killAndStart kills processes, and starts them again. next is stopped for already.
func (s *queueTrial) killAndStart(k, next *queueKill) {
	s.Helper()
	for _, process := range k.processes {
		s.kill(process)
	}
	if next != nil {
		s.arm(next)
	} else {
		s.proxy.Disturb(nil)
	}
	s.goOn(k.processes)
	for _, process := range k.processes {
		if process == stack.Scheduler {
			s.dropLease()
		}
		s.start(process)
	}
}

// until waits until a Job has come so far.
func (s *queueTrial) until(job, what string, done func(*turn) bool) {
	s.Helper()
	s.soon(job+": "+what, 10*time.Millisecond, func(context.Context) (is bool, text string) {
		s.diary.of(job, func(t *turn) { is, text = done(t), t.String() })
		return is, text
	})
}

// submit creates a Job of n pods that is to start after the others.
func (s *queueTrial) submit(job string, n int, duration string) {
	s.Helper()
	s.diary.expect(job, n)
	s.applyText(queued("kills", job, n, duration))
}

// isPromised waits until the job is promised room.
func (s *queueTrial) isPromised() {
	s.Helper()
	s.until(s.job(), "it is promised room", func(t *turn) bool { return t.promise != nil })
}

// hasStarted waits until all pods of the job have nodes.
func (s *queueTrial) hasStarted() {
	s.Helper()
	s.until(s.job(), "all its pods have nodes", func(t *turn) bool { return len(t.on) == t.pods })
}

// hasEnded waits until it is said of the job that it has ended.
func (s *queueTrial) hasEnded() { s.Helper(); s.finished(s.job()) }

// finished waits until it is said of a job that it has succeeded.
func (s *queueTrial) finished(job string) {
	s.Helper()
	s.until(job, "it has succeeded", func(t *turn) bool {
		return t.fluxJob != nil && t.fluxJob.Status.Phase == v1alpha1.Finished && t.fluxJob.Status.Result == v1alpha1.Succeeded
	})
}

// endPods lets all pods of a Job end by themselves.
func (s *queueTrial) endPods(job string) {
	s.Helper()
	for _, p := range s.pods(job + "-") {
		if _, err := s.Client().CoreV1().Pods(s.ns).Patch(s.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+kubelet.RunFor+`":"0s"}}}`), metav1.PatchOptions{}); err != nil {
			s.Fatal(err)
		}
	}
}

// during does something, and kills at the moments that come after it.
func (s *queueTrial) during(part int, do func()) {
	s.Helper()
	var kills []*queueKill
	for _, k := range s.kills {
		if k.part == part {
			kills = append(kills, k)
		}
	}
	if len(kills) > 0 {
		s.arm(kills[0])
	}
	do()
	for i, k := range kills {
		var next *queueKill
		if i+1 < len(kills) {
			next = kills[i+1]
		}
		s.reach(k)
		s.killAndStart(k, next)
	}
}

// play plays the trial. It returns the Job that runs afterwards.
func (s *queueTrial) play() (runs string) {
	s.Helper()
	if s.before == "" {
		s.before = fmt.Sprintf("first-%d", s.seed)
		s.submit(s.before, 1, "30m")
		s.until(s.before, "it has a node", func(t *turn) bool { return len(t.on) == 1 })
	}
	s.during(submitted, func() { s.submit(s.job(), largeSize, "10m") })
	s.isPromised()
	if err := s.WaitWebhook(s.Context()); err != nil {
		s.Fatal(err)
	}
	// It ends after the one that runs.
	s.submit(s.next(), 1, fmt.Sprintf("%dm", 60+s.earlier))
	s.until(s.next(), "there is no room for it", func(t *turn) bool {
		return strings.HasPrefix(t.condition(v1alpha1.ConditionAdmitted), v1alpha1.ReasonNoRoom+": ")
	})
	s.during(roomComes, func() { s.endPods(s.before) })
	s.hasStarted()
	s.running(s.job()+"-", largeSize)
	s.during(jobEnds, func() { s.endPods(s.job()) })
	s.hasEnded()
	s.until(s.next(), "it has a node", func(t *turn) bool { return len(t.on) == 1 })
	s.finished(s.before)
	for _, job := range []string{s.before, s.job()} {
		s.ranOnce(job)
	}
	s.atRest()
	return s.next()
}

// ranOnce fails if a Job that has ended has not run once, on the nodes of its allocation.
func (s *queueTrial) ranOnce(job string) {
	s.Helper()
	s.diary.of(job, func(t *turn) {
		got := map[string]int{}
		for _, node := range t.on {
			got[node]++
		}
		want, err := allocated(t.fluxJob)
		switch {
		case err != nil || !maps.Equal(got, want):
			s.Errorf("the pods of %s were on %v, its allocation is %v, %v", job, got, want, err)
		case t.resumed != 1 || t.suspend || len(t.on) != t.pods || len(t.allocations) != 1 || t.fluxJob.Status.Requeues > 0:
			s.Errorf("%s has not run once: %s", job, t)
		}
	})
}

// atRest deletes the Jobs that have ended, and fails if more is left than the one that runs.
func (s *queueTrial) atRest() {
	s.Helper()
	s.kubectl("delete", "jobs", s.before, s.job(), "-n", s.ns, "--cascade=foreground")
	s.diary.forget(s.before)
	s.diary.forget(s.job())
	s.eventually("one slot and nothing else is left", func(ctx context.Context) (bool, string) {
		slots, err1 := s.SidecarMetric(ctx, "fluence_sidecar_slots")
		jobs, err2 := s.SidecarMetric(ctx, "fluence_sidecar_jobs")
		reserved, err3 := s.reservations(ctx)
		fluxJobs, _, err4 := s.Kubectl(ctx, "get", fluxJobs, "-n", s.ns, "-o", "name")
		ok := err1 == nil && err2 == nil && err3 == nil && err4 == nil && slots == 1 && jobs == 1 && len(reserved) == 0 && strings.Count(fluxJobs, "\n") == 1
		return ok, fmt.Sprintf("%v slots, %v jobs, reserved %v, FluxJobs %q, errors %v %v %v %v", slots, jobs, reserved, fluxJobs, err1, err2, err3, err4)
	})
	s.noDrift()
	for _, wrong := range s.diary.takeWrong() {
		s.Error(wrong)
	}
}

// clearTrial ends the trial, whatever has become of it.
func (s *queueTrial) clearTrial() {
	s.proxy.Disturb(nil)
	s.goOn(nil)
	s.survivors()
	if !s.Failed() {
		return
	}
	for _, wrong := range s.diary.takeWrong() {
		s.Error(wrong)
	}
	for _, job := range []string{s.before, s.job(), s.next()} {
		s.diary.forget(job)
	}
	s.dump(context.WithoutCancel(s.Context()))
	s.clear(context.WithoutCancel(s.Context()))
}

// A job of a queue is promised room, starts and ends, and between any two steps of that processes of Fluence are killed, twice
// each time. It runs once, in its turn, on the nodes of its only allocation, and nothing is left of it.
func TestKillsOnTheWayOfAQueuedJobLoseAndLeakNothing(t *testing.T) {
	s := tell(t)
	s.Reconfigure(func(c *stack.Config) { c.ControllerArgs = []string{"--leader-elect=false"} })
	proxy := s.proxied()
	s.Cleanup(func() { s.Reconfigure(func(c *stack.Config) { c.ControllerArgs = nil }) })
	s.queue("kills", "policy: easy, grace: 0s")
	s.nodes("n", largeSize, "8")
	d, runs, earlier := s.write(), "", 0
	for seed := range trials.Seeds(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			trial := &queueTrial{story: &story{T: t, Stack: s.Stack, ns: s.ns}, proxy: proxy, diary: d, seed: seed, earlier: earlier, before: runs}
			runs = ""
			trial.draw(rand.New(rand.NewPCG(seed, 0)))
			t.Cleanup(trial.clearTrial)
			if next := trial.play(); !t.Failed() {
				runs = next
			}
		})
		earlier++
	}
	s.boundOnce()
}
