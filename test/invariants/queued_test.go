package invariants

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// queue writes the Queue q.
func (s *script) queue(edit ...func(*queueFact)) *script {
	f := queueFact{name: "q", running: noLimit, inNamespace: noLimit}
	for _, e := range edit {
		e(&f)
	}
	s.seeQueue(f, s.seen())
	return s
}

func running2(f *queueFact) { f.running = 2 }

// queued writes a FluxJob of the queue q that waits, or what else it is. Its workload has the UID of its name.
func (s *script) queued(n string, edit ...func(*fluxJobFact)) *script {
	f := fluxJobFact{
		key: name(n), uid: types.UID("fluxjob-" + n), queue: "q", workload: types.UID(n), phase: "Waiting",
		asks: amounts{corev1.ResourceCPU: 2000},
	}
	for _, e := range edit {
		e(&f)
	}
	s.seeFluxJob(f, s.seen())
	return s
}

// given returns the edit of a FluxJob that is given room for a minute from now on.
func (s *script) given() func(*fluxJobFact) {
	at := s.now
	return func(f *fluxJobFact) {
		f.phase, f.room = phaseReady, &roomFact{attempt: 1, at: at, end: at.Add(time.Minute)}
	}
}

func anew(f *fluxJobFact)     { f.room.attempt++ }
func runs(f *fluxJobFact)     { f.phase = phaseRunning }
func finished(f *fluxJobFact) { f.phase = phaseFinished }
func ran(f *fluxJobFact)      { f.phase, f.ran = phaseRunning, true }
func apart(f *fluxJobFact)    { f.key.Namespace = "other" }

// unqueued removes a FluxJob.
func (s *script) unqueued(n string) *script {
	how := s.seen()
	how.gone = true
	s.seeFluxJob(fluxJobFact{uid: types.UID("fluxjob-" + n)}, how)
	return s
}

func TestOverLimit(t *testing.T) {
	over := []broke{{RuleOverLimit, "ns/c"}}
	// two has two jobs with room in the queue, of which two may run.
	two := func(s *script) *script {
		return s.queue(running2).after(time.Minute).queued("a", s.given()).queued("b", s.given(), runs).queued("c").after(time.Second)
	}
	third := func(s *script) { s.queued("c", s.given()) }
	run(t, map[string]tale{
		"as many as may run":      {tell: func(s *script) { two(s) }},
		"one more":                {tell: func(s *script) { third(two(s)) }, want: over},
		"one more, once":          {tell: func(s *script) { third(two(s)); s.after(time.Second).queued("c", s.given(), runs).after(time.Minute) }, want: over},
		"one has finished":        {tell: func(s *script) { third(two(s).queued("a", s.given(), finished)) }},
		"one is gone":             {tell: func(s *script) { third(two(s).unqueued("a")) }},
		"one has lost its room":   {tell: func(s *script) { third(two(s).queued("a")) }},
		"one is given other room": {tell: func(s *script) { two(s).queued("a", s.given(), anew) }},
		"another queue":           {tell: func(s *script) { two(s).queued("c", s.given(), func(f *fluxJobFact) { f.queue = "other" }) }},
		"its pods ran before":     {tell: func(s *script) { two(s).queued("c", s.given(), ran) }},
		"one more, as the pods ran before of another": {tell: func(s *script) {
			third(s.queue(running2).after(time.Minute).queued("a", s.given(), ran).queued("b", s.given(), ran))
		}, want: over},
		"the limit is raised":                   {tell: func(s *script) { third(two(s).queue(func(f *queueFact) { f.running = 3 })) }},
		"the limit is removed":                  {tell: func(s *script) { third(two(s).queue()) }},
		"the limit is raised too late":          {tell: func(s *script) { third(two(s)); s.queue().after(time.Minute) }, want: over},
		"the limit was lowered a moment before": {tell: func(s *script) { third(two(s).queue().after(time.Minute).queue(running2).after(time.Second)) }},
		"the limit was lowered before": {tell: func(s *script) {
			third(two(s).queue().after(time.Minute).queue(running2).after(judgeAfter + time.Second))
		}, want: over},
		"the limit was lowered as the API server went away": {tell: func(s *script) {
			end := two(s).queue().after(time.Minute).queue(running2).excuse()
			s.after(time.Minute)
			end()
			third(s.after(time.Second))
		}},
		"jobs run on after the limit was lowered": {tell: func(s *script) { two(s).queue(func(f *queueFact) { f.running = 0 }).after(time.Minute) }},
		"the queue is not known":                  {tell: func(s *script) { third(s.queued("a", s.given())) }},
		"the scheduler does not hear":             {tell: func(s *script) { two(s).excuse(); third(s) }},
		"a new scheduler has just begun":          {tell: func(s *script) { two(s).excuse()(); s.heard(); third(s) }, want: over},
		"no job may run":                          {tell: func(s *script) { third(s.queue(func(f *queueFact) { f.running = 0 })) }, want: over},
		"one more of its namespace": {tell: func(s *script) {
			third(s.queue(func(f *queueFact) { f.inNamespace = 1 }).queued("a", s.given()))
		}, want: over},
		"one of each namespace": {tell: func(s *script) {
			third(s.queue(func(f *queueFact) { f.inNamespace = 1 }).queued("a", s.given(), apart))
		}},
		"they request as much as they may": {tell: func(s *script) {
			third(s.queue(func(f *queueFact) { f.requests = amounts{corev1.ResourceCPU: 4000} }).queued("a", s.given()))
		}},
		"they request more": {tell: func(s *script) {
			third(s.queue(func(f *queueFact) { f.requests = amounts{corev1.ResourceCPU: 3999} }).queued("a", s.given()))
		}, want: over},
		"they request more of what it does not request": {tell: func(s *script) {
			third(s.queue(func(f *queueFact) { f.requests = amounts{"gpu": 1} }).queued("a", s.given(), func(f *fluxJobFact) { f.asks = amounts{"gpu": 2} }).after(time.Second))
		}, want: []broke{{RuleOverLimit, "ns/a"}}},
	})
}

func TestStartedUnadmitted(t *testing.T) {
	pod, job := []broke{{RuleStartedUnadmitted, "ns/a"}}, []broke{{RuleStartedUnadmitted, "ns/j"}}
	// waits is a Job that waits in the queue with a pod that should not be.
	waits := func(s *script) *script {
		return s.node("n", 8).job(jobFact{key: name("j"), idle: true, queue: "q", queued: true}).queued("j").pod("a", "", controlled("j")).after(time.Minute)
	}
	goes := func(s *script) { s.job(jobFact{key: name("j"), queue: "q"}) }
	run(t, map[string]tale{
		"its pod is bound":                  {tell: func(s *script) { waits(s).bind("a", "n") }, want: pod},
		"its pod is bound by somebody else": {tell: func(s *script) { waits(s).bindBy("somebody", "a", "n") }},
		"its pod is bound with room":        {tell: func(s *script) { waits(s).queued("j", s.given()).bind("a", "n") }},
		"its pod is bound a moment too late": {tell: func(s *script) {
			waits(s).queued("j", s.given()).after(time.Minute).queued("j").after(time.Second).bind("a", "n")
		}},
		"its pod is bound too late": {tell: func(s *script) {
			waits(s).queued("j", s.given()).queued("j").after(judgeAfter+time.Second).bind("a", "n")
		}, want: pod},
		"its pod is bound too soon": {tell: func(s *script) { waits(s).bind("a", "n").queued("j", s.given()) }, want: pod},
		"its pod is bound as the job is finished": {tell: func(s *script) {
			waits(s).queued("j", s.given(), finished).after(judgeAfter+time.Second).bind("a", "n")
		}, want: pod},
		"its pod is bound while the scheduler does not hear": {tell: func(s *script) { waits(s).excuse(); s.bind("a", "n") }},
		"a pod of a Job in no queue": {tell: func(s *script) {
			s.node("n", 8).job(jobFact{key: name("j")}).pod("a", "", controlled("j")).bind("a", "n")
		}},
		"a pod of a Job that has left its queue": {tell: func(s *script) {
			waits(s).job(jobFact{key: name("j")}).unqueued("j").after(time.Second).bind("a", "n")
		}},
		"a pod with the label, without a FluxJob": {tell: func(s *script) {
			s.node("n", 8).pod("a", "", func(p *podFact) { p.labels = map[string]string{queueLabel: "q"} }).bind("a", "n")
		}, want: pod},
		"a pod without the label, whose Job has it": {tell: func(s *script) {
			s.node("n", 8).job(jobFact{key: name("j"), queue: "q"}).pod("a", "", controlled("j")).bind("a", "n")
		}, want: pod},
		"a lone pod with room": {tell: func(s *script) {
			s.node("n", 8).pod("a", "", func(p *podFact) { p.uid, p.labels = "a", map[string]string{queueLabel: "q"} }).queued("a", s.given()).bind("a", "n")
		}},
		"the Job is let go":               {tell: func(s *script) { goes(waits(s)) }, want: job},
		"the Job is let go with room":     {tell: func(s *script) { goes(waits(s).queued("j", s.given())) }},
		"the Job is let go a moment late": {tell: func(s *script) { goes(waits(s).queued("j", s.given()).queued("j").after(time.Second)) }},
		"its user resumes the Job":        {tell: func(s *script) { waits(s).job(jobFact{key: name("j"), queue: "q", queued: true}) }},
		"its user resumes it who suspended it": {tell: func(s *script) {
			s.job(jobFact{key: name("j"), idle: true, queue: "q"}).after(time.Second)
			goes(s)
		}},
		"the Job leaves the queue": {tell: func(s *script) { waits(s).job(jobFact{key: name("j")}) }},
	})
}

func TestPastDeadline(t *testing.T) {
	past := []broke{{RulePastDeadline, "ns/j"}}
	// starts is a Job that has room for a minute, and a pod that does not end.
	starts := func(s *script) *script {
		s.node("n", 8).job(jobFact{key: name("j"), queue: "q"}).queued("j", s.given(), runs)
		return s.pod("a", "", controlled("j")).bind("a", "n")
	}
	const late = time.Minute + testSlack + time.Second
	run(t, map[string]tale{
		"its pod runs on":                    {tell: func(s *script) { starts(s).after(late) }, want: past},
		"its pod runs on for long":           {tell: func(s *script) { starts(s).after(time.Hour) }, want: past},
		"its pod runs on as it has finished": {tell: func(s *script) { given := s.given(); starts(s).queued("j", given, finished).after(late) }, want: past},
		"its pod ends": {tell: func(s *script) {
			starts(s).after(late-2*time.Second).edit("a", phase(corev1.PodFailed)).after(time.Minute)
		}},
		"its pod is being deleted":     {tell: func(s *script) { starts(s).after(late-2*time.Second).edit("a", deleting).after(time.Hour) }},
		"its pod is gone":              {tell: func(s *script) { starts(s).after(late - 2*time.Second).remove("a").after(time.Hour) }},
		"its pod has no node any more": {tell: func(s *script) { starts(s).removeNode("n").after(time.Hour) }},
		"it was let go late": {tell: func(s *script) {
			given, at := s.given(), s.now.Add(10*time.Second)
			starts(s).queued("j", given, runs, func(f *fluxJobFact) { f.started = at }).after(late + 9*time.Second).remove("a")
		}},
		"it was let go late, and its pod runs on": {tell: func(s *script) {
			given, at := s.given(), s.now.Add(10*time.Second)
			starts(s).queued("j", given, runs, func(f *fluxJobFact) { f.started = at }).after(late + 10*time.Second)
		}, want: past},
		"it ends earlier by an edit": {tell: func(s *script) {
			given := s.given()
			starts(s).after(30*time.Second).queued("j", given, runs, shorter).after(testSlack).remove("a")
		}},
		"it ends earlier by an edit, and its pod runs on": {tell: func(s *script) {
			given := s.given()
			starts(s).after(30*time.Second).queued("j", given, runs, shorter).after(testSlack + time.Second)
		}, want: past},
		"it has no end":            {tell: func(s *script) { given := s.given(); starts(s).queued("j", given, runs, endless).after(time.Hour) }},
		"it has lost its room":     {tell: func(s *script) { starts(s).queued("j").after(time.Hour) }},
		"it is gone":               {tell: func(s *script) { starts(s).unqueued("j").after(time.Hour) }},
		"its pod waits":            {tell: func(s *script) { s.queued("j", s.given()).pod("a", "", controlled("j")).after(time.Hour) }},
		"the controllers are away": {tell: func(s *script) { starts(s).after(time.Minute).excuse(); s.after(time.Hour) }},
		"the controllers have been away": {tell: func(s *script) {
			end := starts(s).after(time.Minute).excuse()
			s.after(time.Minute)
			end()
			s.after(testSlack + time.Second)
		}, want: past},
	})
}

func shorter(f *fluxJobFact) { f.room.end = f.room.end.Add(-50 * time.Second) }
func endless(f *fluxJobFact) { f.room.end = time.Time{} }

// A job of a queue is let go again after it was suspended again, and of that another process may have told.
func TestAJobIsReleasedAgain(t *testing.T) {
	tell := func(s *script, uid types.UID, about string) *script {
		s.serial++
		s.seeEvent(eventFact{uid: types.UID(fmt.Sprint("event-", s.serial)), controller: controllerName, kind: "Job", about: name(about), aboutUID: uid, reason: "Released", note: "x", told: s.now, count: 1}, s.seen())
		return s.after(10 * time.Second)
	}
	let := func(s *script, uid types.UID, about string) *script {
		return tell(s.queued("j", s.given(), endless).job(jobFact{key: name("j"), queue: "q"}), uid, about)
	}
	run(t, map[string]tale{
		"it was not suspended": {tell: func(s *script) { let(let(s, "j", "j"), "j", "j") }, want: []broke{{RuleRepeated, "ns/j"}}},
		"it was suspended": {tell: func(s *script) {
			let(let(s, "j", "j").job(jobFact{key: name("j"), queue: "q", idle: true, queued: true}).queued("j").after(10*time.Second), "j", "j")
		}},
		"it was suspended, and it is told of the FluxJob": {tell: func(s *script) {
			let(let(s, "fluxjob-j", "j").job(jobFact{key: name("j"), queue: "q", idle: true, queued: true}).queued("j").after(10*time.Second), "fluxjob-j", "j")
		}},
	})
}

// What the scheduler says of a job that waits is news after another reason, whether or not there was an event of that.
func TestAJobWaitsForTheSameReasonAgain(t *testing.T) {
	waits := func(s *script, reason string) *script {
		return s.queued("j", func(f *fluxJobFact) { f.waits = reason }).after(10 * time.Second)
	}
	tell := func(s *script, reason string) *script {
		waits(s, reason).serial++
		s.seeEvent(eventFact{uid: types.UID(fmt.Sprint("event-", s.serial)), controller: s.cfg.Scheduler, kind: "FluxJob", about: name("j"), aboutUID: "fluxjob-j", reason: reason, note: "x", told: s.now, count: 1}, s.seen())
		return s.after(10 * time.Second)
	}
	run(t, map[string]tale{
		"promised, promised":            {tell: func(s *script) { tell(tell(s, "Promised"), "Promised") }, want: []broke{{RuleRepeated, "ns/j"}}},
		"promised, no room, promised":   {tell: func(s *script) { tell(waits(tell(s, "Promised"), "NoRoom"), "Promised") }},
		"promised, made anew, promised": {tell: func(s *script) { tell(tell(s, "Promised").unqueued("j"), "Promised") }},
	})
}

// What was overtaken long ago is forgotten.
func TestQueuesForget(t *testing.T) {
	s := newScript(t)
	for range 100 {
		s.queue(running2).queued("a", s.given()).queued("a").after(10 * time.Second)
	}
	if jobs, limits := len(s.ways["a"]), len(s.limits["q"]); jobs > 40 || limits > 20 {
		t.Errorf("%d states of a FluxJob and %d of a Queue are remembered", jobs, limits)
	}
	s.unqueued("a").after(2 * remember)
	if len(s.ways) > 0 || len(s.jobs) > 0 {
		t.Errorf("a FluxJob that is gone is remembered: %v", s.ways)
	}
}

// The checker has its own words for the fields of FluxJobs and Queues, and for what Fluence writes onto Jobs.
func TestQueuesAreRead(t *testing.T) {
	end, at := metav1.NewTime(time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)), metav1.NewMicroTime(time.Date(2026, 1, 1, 0, 0, 0, 5000, time.UTC))
	cpu := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	fj := &v1alpha1.FluxJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job-j-x", UID: "f"},
		Spec:       v1alpha1.FluxJobSpec{Queue: "q", Workload: v1alpha1.WorkloadReference{Kind: "Job", Name: "j", UID: "j"}, Pods: 3, Requests: cpu("500m")},
		Status: v1alpha1.FluxJobStatus{
			Phase: v1alpha1.Running, Started: &end, Allocation: &v1alpha1.JobAllocation{Attempt: 2, At: at, End: &end},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReleased, Reason: v1alpha1.ReasonRunsAlready}},
		},
	}
	f := fluxJobFactOf(asUnstructured(t, fj))
	if f.key.String() != "ns/job-j-x" || f.uid != "f" || f.queue != "q" || f.workload != "j" || f.phase != phaseRunning || !f.started.Equal(end.Time) || !f.ran ||
		!maps.Equal(f.asks, amounts{corev1.ResourceCPU: 1500}) || f.room == nil || f.room.attempt != 2 || !f.room.at.Equal(at.Time) || !f.room.end.Equal(end.Time) {
		t.Errorf("the FluxJob is read as %+v with room %+v", f, f.room)
	}
	fj.Status = v1alpha1.FluxJobStatus{Phase: v1alpha1.Waiting, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoRoom}}}
	if f = fluxJobFactOf(asUnstructured(t, fj)); f.waits != v1alpha1.ReasonNoRoom || f.room != nil || f.ran || f.holds() || f.admitted() {
		t.Errorf("a FluxJob that waits is read as %+v", f)
	}
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.QueueSpec{Limits: v1alpha1.QueueLimits{
		Running: new(int32(4)), PerNamespace: v1alpha1.NamespaceLimits{Running: new(int32(0))}, Requests: cpu("2"),
	}}}
	if f := queueFactOf(asUnstructured(t, q)); f.name != "q" || f.running != 4 || f.inNamespace != 0 || !maps.Equal(f.requests, amounts{corev1.ResourceCPU: 2000}) {
		t.Errorf("the Queue is read as %+v", f)
	}
	q.Spec.Limits = v1alpha1.QueueLimits{}
	if f := queueFactOf(asUnstructured(t, q)); f.running != noLimit || f.inNamespace != noLimit || len(f.requests) > 0 {
		t.Errorf("a Queue without limits is read as %+v", f)
	}
	for ours, theirs := range map[string]string{
		queueLabel: group.QueueLabel, queuedAnnotation: group.QueuedAnnotation, phaseReady: string(v1alpha1.Ready), phaseFinished: string(v1alpha1.Finished),
	} {
		if ours != theirs {
			t.Errorf("the checker knows %q, and Fluence writes %q", ours, theirs)
		}
	}
}

func asUnstructured(t *testing.T, o any) *unstructured.Unstructured {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}
