package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/apiproxy"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/stack"
	"github.com/flux-k8s/fluence/test/trials"
)

const (
	// halvesFor is how long a victim may be in halves after a restart while none of its pods is ending.
	halvesFor = 10 * time.Second
	// gangSize is the number of pods of each victim. They fill two nodes.
	gangSize = 4
)

// A request of an eviction, or of the start that follows.
const (
	marks    = "marks"
	suspends = "suspends"
	deletes  = "deletes"
	bindsPod = "binds"
)

// kindOf returns what a request is for an eviction. It is empty if it is nothing of that.
func kindOf(r apiproxy.Request) string {
	switch own := r.FieldManager == eviction.FieldManager; {
	case own && r.Resource == "podgroups":
		return marks
	case own && r.Resource == "jobs":
		return suspends
	case r.Resource == "pods" && r.Verb == "delete":
		return deletes
	case binds(r.RequestInfo):
		return bindsPod
	default:
		return ""
	}
}

// A barrier stops the requests of an eviction at a step, and disturbs some of them.
type barrier struct {
	mu sync.Mutex
	// stops are the kinds of requests that are held. pass is how many of these pass before.
	stops []string
	pass  int
	// faults are what the next requests meet that mark and end victims.
	faults []apiproxy.Fault
	// reached is closed when the first request is held.
	reached chan struct{}
	isOpen  bool
}

// faultOf returns the fault of a request.
func (b *barrier) faultOf(r apiproxy.Request) apiproxy.Fault {
	kind := kindOf(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOpen && slices.Contains(b.stops, kind) && b.holds() {
		return apiproxy.Held
	}
	if kind != "" && kind != bindsPod && len(b.faults) > 0 {
		fault := b.faults[0]
		b.faults = b.faults[1:]
		return fault
	}
	return apiproxy.None
}

// holds counts a request at the step, and reports whether it is held. The caller holds the lock.
func (b *barrier) holds() bool {
	if b.pass--; b.pass == -1 {
		close(b.reached)
	}
	return b.pass < 0
}

// open lets all requests pass that were stopped. Faults go on.
func (b *barrier) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isOpen = true
}

// A killTrial is an eviction of several victims, during which processes are killed or requests fail.
type killTrial struct {
	*scene
	proxy   *apiproxy.Proxy
	barrier *barrier
	// step is where processes are killed, and killed which ones.
	step   string
	killed []string
	// kinds are the kinds of the victims, by their names.
	kinds map[string]string
	// wants is the number of pods of the preemptor.
	wants int
	// lingers is true if the victims end only after the restart.
	lingers bool

	// restarted is when all processes ran again. halvesSince is since when a victim is in halves.
	restarted   time.Time
	halvesSince map[string]time.Time
}

// The kinds of victims.
const (
	bare     = "bare"
	aJob     = "job"
	replicas = "set"
)

// The steps.
const (
	unmarked    = "before the first mark"
	marked      = "after the marks"
	someEnd     = "after some requests that end victims"
	whileEnding = "while all victims are ending"
	someBinds   = "before the last bind"
	anyMoment   = "at any moment"
)

// draw decides what happens in the trial.
func (s *killTrial) draw(r *rand.Rand) {
	victims := 2 + r.IntN(2)
	s.wants = 2*victims - r.IntN(2)
	sets := 0
	for i := range victims {
		kind := []string{bare, aJob, aJob, replicas}[r.IntN(4)]
		if kind == replicas {
			if sets++; sets > 1 { // the selectors of two would be the same
				kind = aJob
			}
		}
		s.kinds[fmt.Sprintf("v%d", i)] = kind
	}
	s.killed = [][]string{{stack.Scheduler}, {stack.Scheduler}, {stack.Scheduler}, {stack.Sidecar}, {stack.Sidecar, stack.Scheduler}, {stack.Scheduler, stack.Sidecar}, nil}[r.IntN(7)]
	s.barrier = &barrier{reached: make(chan struct{})}
	if s.killed != nil {
		s.step = []string{unmarked, marked, someEnd, someEnd, whileEnding, someBinds, anyMoment}[r.IntN(7)]
	}
	ends := []string{suspends, deletes}
	switch b := s.barrier; s.step {
	case unmarked:
		b.stops = []string{marks}
	case marked:
		b.stops = ends
	case someEnd:
		b.stops, b.pass = ends, 1+r.IntN(s.endings()-1)
	case someBinds:
		b.stops, b.pass = []string{bindsPod}, r.IntN(s.wants)
	case anyMoment:
		b.stops, b.pass = []string{suspends, deletes, marks, bindsPod}, r.IntN(victims+s.endings()+s.wants)
	}
	s.lingers = s.step == whileEnding || slices.Contains([]string{marked, someEnd}, s.step) && r.IntN(2) == 0
	if s.killed == nil || r.IntN(3) == 0 {
		for range 1 + r.IntN(4) {
			s.barrier.faults = append(s.barrier.faults, []apiproxy.Fault{
				apiproxy.None, apiproxy.TooMany, apiproxy.Conflict, apiproxy.Failed, apiproxy.TimedOut, apiproxy.BrokenOff,
			}[r.IntN(6)])
		}
	}
	s.Logf("%d pods evict %v; killed %s: %v; %d requests pass before; faults %v; victims linger: %t", s.wants, s.kinds, s.step, s.killed, s.barrier.pass, s.barrier.faults, s.lingers)
}

// endings returns the number of requests that end the victims.
func (s *killTrial) endings() (n int) {
	for _, kind := range s.kinds {
		if n++; kind != aJob {
			n += gangSize - 1
		}
	}
	return n
}

// stays returns the number of pods of the gang that could be evicted in place of all victims, with more harm.
func (s *killTrial) stays() int { return 2 * len(s.kinds) }

// plantVictims creates the nodes, the victims, and the gang that stays.
func (s *killTrial) plantVictims() {
	s.Helper()
	s.add(part{name: "stay", nodes: s.stays(), cpu: "2"})
	text := s.text(crowd{name: "stay", pods: s.stays(), cpu: "2", priority: 20, part: "stay"})
	for name, kind := range s.kinds {
		s.add(part{name: name, nodes: 2, cpu: "2"})
		where := "priorityClassName: " + s.class(10) + "\n      nodeSelector: {case: " + s.pool + ", part: " + name + "}"
		switch kind {
		case bare:
			text += s.text(crowd{name: name, pods: gangSize, cpu: "1", priority: 10, part: name})
		case aJob:
			text += strings.Replace(jobOn(s.name(name), s.pool, gangSize, asking(`cpu: "1"`)), "nodeSelector: {case: "+s.pool+"}", where, 1)
		case replicas:
			text += strings.Replace(statefulSet(s.name(name), gangSize, "1"), "schedulerName: fluence", "schedulerName: fluence\n      "+where, 1)
		}
	}
	s.applyText(text)
	s.running(s.pool+"-", gangSize*len(s.kinds)+s.stays())
	if s.lingers {
		s.annotate(s.victimPods(), kubelet.Lingers+"=yes")
	}
}

// victimPods returns the pods of the victims.
func (s *killTrial) victimPods() []corev1.Pod {
	s.Helper()
	return s.pods(s.name("v"))
}

// annotate changes an annotation of pods.
func (s *killTrial) annotate(pods []corev1.Pod, change string) {
	s.Helper()
	s.kubectl(append(append([]string{"annotate", "pods", "-n", s.ns}, namesOf(pods)...), change)...)
}

// namesOf returns the names of pods, in order.
func namesOf(pods []corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// awaitStep waits until the eviction is at the step where processes are killed.
func (s *killTrial) awaitStep() {
	s.Helper()
	switch s.step {
	case "":
	case whileEnding:
		s.soon("all victims are ending", 5*time.Millisecond, func(context.Context) (bool, string) {
			stay := slices.DeleteFunc(s.victimPods(), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
			return len(stay) == 0, fmt.Sprintf("%d are not", len(stay))
		})
	default:
		s.arrives(s.barrier.reached)
	}
}

// killAndStart kills the processes of the trial, and starts them again.
func (s *killTrial) killAndStart() {
	s.Helper()
	for _, process := range s.killed {
		s.kill(process)
	}
	s.barrier.open()
	s.proxy.Disturb(s.barrier.faultOf)
	for _, process := range s.killed {
		if process == stack.Scheduler {
			s.dropLease()
		}
		s.start(process)
	}
	s.restarted = time.Now()
}

// observe fails if a gang has been in halves for too long.
func (s *killTrial) observe(pods []corev1.Pod) {
	s.Helper()
	for name := range s.kinds {
		serving, ending := 0, 0
		for _, p := range pods {
			switch {
			case !strings.HasPrefix(p.Name, s.name(name)+"-"), p.Spec.NodeName == "", p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
			case p.DeletionTimestamp != nil:
				ending++
			default:
				serving++
			}
		}
		since, is := s.halvesSince[name]
		switch now := time.Now(); {
		case serving == 0 || serving == gangSize || ending > 0:
			delete(s.halvesSince, name)
		case !is:
			s.halvesSince[name] = now
		case now.Sub(since) > halvesFor && now.Sub(s.restarted) > halvesFor:
			s.Fatalf("%s has %d of %d pods on nodes, and none is ending, since %s; processes were started again at %s", name, serving, gangSize, since, s.restarted)
		}
	}
}

// runs waits until pods of the trial run, of the given numbers by their names' prefixes.
func (s *killTrial) runs(want map[string]int) {
	s.Helper()
	s.soon(fmt.Sprintf("pods %v running", want), 50*time.Millisecond, func(context.Context) (bool, string) {
		pods := s.pods(s.pool + "-")
		s.observe(pods)
		got := map[string]int{}
		for name := range want {
			got[name] = 0
		}
		for _, p := range pods {
			name, _, _ := strings.Cut(strings.TrimPrefix(p.Name, s.pool+"-"), "-")
			if _, counts := want[name]; counts && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				got[name]++
			}
		}
		return maps.Equal(got, want), fmt.Sprintf("%v do", got)
	})
}

// play plays the trial.
func (s *killTrial) play() {
	s.plantVictims()
	before := s.pods(s.pool + "-")
	victims := s.victimPods()
	s.restarted = time.Now()
	s.proxy.Disturb(s.barrier.faultOf)
	s.applyText(s.text(crowd{name: "high", pods: s.wants, cpu: "2", priority: 1000}))
	s.awaitStep()
	s.killAndStart()
	if s.lingers {
		// The next scheduler keeps the room, too, and says so.
		s.applyText(s.text(crowd{name: "late", pods: 1, cpu: "1"}))
		s.refused(s.name("late"), reason.NoRoom, "room is kept for "+s.ns+"/"+s.name("high"))
		s.refused(s.name("high"), reason.Preempting, "still ending")
		s.drop("late")
		s.annotate(victims, kubelet.Lingers+"-")
	}
	s.runs(map[string]int{"high": s.wants, "stay": s.stays()})
	s.Logf("the preemptor runs %s after the restart", time.Since(s.restarted).Round(10*time.Millisecond))
	s.placed(s.name("high"))
	// The gang may fit before the last of its victims is asked to go.
	s.eventually("the victims are evicted, and nobody else", func(context.Context) (bool, string) {
		gone, want := s.gone(before), s.podsOf(victims)
		return slices.Equal(gone, want), fmt.Sprintf("evicted: %v, want %v", gone, want)
	})
	s.noMarks()
	s.allResumed()
	s.drop("high")
	want := map[string]int{"stay": s.stays()}
	for name, kind := range s.kinds {
		if kind != bare {
			want[name] = gangSize
		}
	}
	s.runs(want)
	s.noneRejected()
	s.allBooked()
}

// podsOf returns the names of pods without the scene in them, in order.
func (s *killTrial) podsOf(pods []corev1.Pod) (names []string) {
	for _, name := range namesOf(pods) {
		names = append(names, strings.TrimPrefix(name, s.pool+"-"))
	}
	return names
}

// noMarks waits until no mark of an eviction is left.
func (s *killTrial) noMarks() {
	s.Helper()
	s.eventually("no marks", func(ctx context.Context) (bool, string) {
		var left []string
		groups, err := s.PodGroups(ctx, s.ns)
		if err != nil {
			return false, err.Error()
		}
		for _, g := range groups {
			if meta.IsStatusConditionTrue(g.Status.Conditions, eviction.ConditionPreempted) {
				left = append(left, g.Name)
			}
		}
		for _, p := range s.pods(s.pool + "-") {
			if _, is := eviction.OfPod(&p); is {
				left = append(left, p.Name)
			}
		}
		return len(left) == 0, fmt.Sprintf("marked: %v", left)
	})
}

// jobs returns the Jobs of the trial.
func (s *killTrial) jobs() []batchv1.Job {
	s.Helper()
	list, err := s.Client().BatchV1().Jobs(s.ns).List(context.WithoutCancel(s.Context()), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// allResumed waits until all Jobs are resumed. It fails if a pod of them counts as failed.
func (s *killTrial) allResumed() {
	s.Helper()
	s.eventually("all Jobs are resumed", func(context.Context) (bool, string) {
		var suspended []string
		for _, j := range s.jobs() {
			if j.Status.Failed > 0 {
				s.Fatalf("pods of Job %s failed: %+v", j.Name, j.Status)
			}
			if *j.Spec.Suspend || j.Annotations[group.SuspendedForAnnotation] != "" {
				suspended = append(suspended, j.Name)
			}
		}
		return len(suspended) == 0, fmt.Sprint(suspended)
	})
}

// clearTrial ends the trial, whatever has become of it.
func (s *killTrial) clearTrial() {
	s.Helper()
	if s.Failed() {
		s.dump(context.WithoutCancel(s.Context()))
	}
	s.proxy.Disturb(nil)
	s.survivors()
	s.clear(context.WithoutCancel(s.Context()))
	var nodes []string
	for i := range s.stays() {
		nodes = append(nodes, s.name(fmt.Sprintf("stay-%d", i)))
	}
	for name := range s.kinds {
		nodes = append(nodes, s.name(name+"-0"), s.name(name+"-1"))
	}
	if err := s.RemoveNodes(context.WithoutCancel(s.Context()), nodes...); err != nil {
		s.Errorf("remove nodes: %v", err)
	}
}

// evictedOnce fails if the scheduler has deleted or suspended a victim of the trials twice, or anybody else. The API
// server may record no success of a request whose client was killed.
func evictedOnce(s *story, played []*killTrial) {
	s.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, trial := range played {
		for name, kind := range trial.kinds {
			if kind == aJob {
				want["jobs "+trial.name(name)] = 1
				continue
			}
			for i := range gangSize {
				want[fmt.Sprintf("pods %s-%d", trial.name(name), i)] = 1
			}
		}
	}
	for ev, err := range s.AuditEvents() {
		if err != nil {
			s.Fatal(err)
		}
		ref := ev.ObjectRef
		if ref == nil || ref.Namespace != s.ns || ev.ResponseStatus.Code/100 != 2 || ev.User.Username != "system:serviceaccount:"+stack.Namespace+":"+stack.Scheduler {
			continue
		}
		if ev.Verb == "delete" && ref.Resource == "pods" || ev.Verb == "patch" && ref.Resource == "jobs" {
			got[ref.Resource+" "+ref.Name]++
		}
	}
	for name := range got {
		if got[name] > want[name] {
			s.Errorf("the scheduler has ended %s %d times, want %d", name, got[name], want[name])
		}
	}
}

// A gang of high priority evicts several gangs, and at a step of that processes are killed, or the API server fails.
// In the end the gang runs, its victims are those of an undisturbed run, each was evicted once and as a whole, and
// those that are made again run again when the gang has gone.
func TestKillsDuringAnEvictionLeaveNothingInHalves(t *testing.T) {
	s := tell(t)
	kept := s.neighbour()
	proxy := s.proxied()
	class, patient := s.priorities(10, 20, 1000), s.patient(101)(101)
	var played []*killTrial
	for seed := range trials.Seeds(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			trial := &killTrial{
				scene: &scene{story: &story{T: t, Stack: s.Stack, ns: s.ns}, kept: kept, pool: fmt.Sprintf("k%d", seed), class: class, patient: patient},
				proxy: proxy, kinds: map[string]string{}, halvesSince: map[string]time.Time{},
			}
			trial.draw(rand.New(rand.NewPCG(seed, 0)))
			t.Cleanup(trial.clearTrial)
			played = append(played, trial)
			trial.play()
		})
	}
	evictedOnce(s, played)
}
