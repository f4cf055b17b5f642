package fluxjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

func TestAJobFromTheQueueToItsEnd(t *testing.T) {
	w := newWorld(t)
	w.settle()
	fj := w.fluxJob
	if fj.Name != w.observe().workload.owner.PodGroupName() || fj.OwnerReferences[0].UID != "job-uid" || *fj.OwnerReferences[0].Controller || *fj.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("FluxJob %+v, want the name of the PodGroup, and the Job as its owner that does not control it", fj.ObjectMeta)
	}
	if fj.Spec.Queue != "batch" || fj.Spec.Pods != 2 || fj.Spec.Workload != (v1alpha1.WorkloadReference{APIVersion: "batch/v1", Kind: "Job", Name: "solver", UID: "job-uid"}) {
		t.Errorf("spec %+v", fj.Spec)
	}
	if gpu := fj.Spec.Requests["nvidia.com/gpu"]; gpu.Value() != 1 || !strings.Contains(fj.Spec.Jobspec, "nvidia.com/gpu") || !strings.Contains(fj.Spec.Jobspec, "label: \"shape0\"") {
		t.Errorf("requests %v, jobspec\n%s\nwant the limit of GPUs as a request too", fj.Spec.Requests, fj.Spec.Jobspec)
	}
	if at := fj.Status.CreationTime; fj.Status.Phase != v1alpha1.Requested || w.condition("Valid") != "True/Valid" || !at.Time.Equal(epoch.Add(500*time.Millisecond)) {
		t.Errorf("status %+v, want it valid, and since the webhook has seen it", fj.Status)
	}
	w.admit()
	w.settle()
	if fj := w.fluxJob; *w.job.Spec.Suspend || w.job.Annotations[group.QueuedAnnotation] != "" || w.job.Spec.ActiveDeadlineSeconds != nil || fj.Status.Phase != v1alpha1.Running || fj.Status.Started == nil || w.condition("Released") != "True/Released" {
		t.Errorf("%s, want it let go, without a deadline", w)
	}
	w.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(time.Hour))}}
	w.settle()
	if s := w.fluxJob.Status; s.Phase != v1alpha1.Finished || s.Result != v1alpha1.Succeeded || !s.Ended.Time.Equal(epoch.Add(time.Hour)) || s.Allocation == nil {
		t.Errorf("status %+v, want that it has succeeded, with its allocation as history", s)
	}
	want := []string{"create", "say whether it is valid", "release", "say that it was released", "finish"}
	if !slices.Equal(w.wrote, want) {
		t.Errorf("wrote %q, want %q", w.wrote, want)
	}
	if want := []string{"Queued: waits in queue batch as FluxJob " + fj.Name, "Released: the Job was let go with room for 2 pods"}; !slices.Equal(w.events, want) {
		t.Errorf("events %q, want %q", w.events, want)
	}
}

func TestAPodFromTheQueueToItsEnd(t *testing.T) {
	w := newPodWorld(t, func(p *corev1.Pod) {
		p.Annotations = map[string]string{group.DurationAnnotation: "90s"}
		p.Spec.ActiveDeadlineSeconds = new(int64(3600))
	})
	w.settle()
	if s := w.fluxJob.Spec; s.Pods != 1 || s.Priority != 7 || s.Duration != "90s" || w.condition("Valid") != "True/Valid" {
		t.Errorf("spec %+v, %s", s, w)
	}
	w.admit()
	w.settle()
	if len(w.pod.Spec.SchedulingGates) != 0 || *w.pod.Spec.ActiveDeadlineSeconds != 90 || w.phase() != v1alpha1.Running {
		t.Errorf("pod %+v, %s, want it let go for 90 s", w.pod.Spec, w)
	}
	w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "1m" })
	w.settle()
	if *w.pod.Spec.ActiveDeadlineSeconds != 60 {
		t.Errorf("deadline %d, want the lower duration", *w.pod.Spec.ActiveDeadlineSeconds)
	}
	w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "1h" })
	w.settle() // the API server would refuse a higher deadline
	w.pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}
	w.settle()
	if s := w.fluxJob.Status; s.Phase != v1alpha1.Finished || s.Result != v1alpha1.WalltimeExceeded || !s.Ended.Time.Equal(w.now) {
		t.Errorf("status %+v, want that its time is up", s)
	}
}

// A Job enters its queue, or not, by what it says and how it is.
func TestWhoEntersAQueue(t *testing.T) {
	inTemplate := func(j *batchv1.Job) {
		j.Labels, j.Spec.Template.Labels = nil, map[string]string{group.QueueLabel: "night"}
	}
	cases := map[string]struct {
		edits     []func(*batchv1.Job)
		byDefault string
		running   bool
		wantQueue string
		wantEvent string
		// want is whether the Job is suspended at the end.
		wantSuspended bool
	}{
		"a label":                            {wantQueue: "batch", wantSuspended: true},
		"a label of the pod template":        {edits: []func(*batchv1.Job){inTemplate}, wantQueue: "night", wantSuspended: true},
		"past the webhook":                   {edits: []func(*batchv1.Job){direct}, wantQueue: "batch", wantSuspended: true, wantEvent: "Suspended: the Job waits for its turn in queue batch, suspended"},
		"no queue":                           {edits: []func(*batchv1.Job){direct, labelled("")}},
		"no label":                           {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) { j.Labels = nil }}},
		"no label, where a queue is default": {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) { j.Labels = nil }}, byDefault: "night", wantQueue: "night", wantSuspended: true, wantEvent: "Suspended: the Job waits for its turn in queue night, suspended"},
		"no queue, where one is default":     {edits: []func(*batchv1.Job){direct, labelled("")}, byDefault: "night"},
		"suspended by its user":              {edits: []func(*batchv1.Job){func(j *batchv1.Job) { j.Annotations = nil }}, wantSuspended: true},
		"it wants no pods":                   {edits: []func(*batchv1.Job){func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(0)) }}, wantSuspended: true},
		"it has ended": {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		}}},
		"it is being deleted":                 {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.NewTime(epoch)) }}},
		"it runs":                             {edits: []func(*batchv1.Job){direct}, running: true, wantQueue: "batch", wantEvent: "RunsAlready: the Job has pods on nodes: it runs on, and counts in queue batch"},
		"it runs, and a queue became default": {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) { j.Labels = nil }}, byDefault: "night", running: true},
		"another object controls it": {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Name: "nightly", Controller: new(true)}}
		}}, wantEvent: "NotAllowed: not in queue batch: CronJob nightly controls the Job: only Jobs that nothing controls, and single pods, wait in queues"},
		"another controller manages it": {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/x") }}, wantEvent: `NotAllowed: not in queue batch: spec.managedBy: "example.com/x": another controller manages the Job`},
		"Kueue manages it":              {edits: []func(*batchv1.Job){func(j *batchv1.Job) { j.Labels[group.KueueLabel] = "q" }}, wantSuspended: true, wantEvent: `NotAllowed: not in queue batch: label kueue.x-k8s.io/queue-name: "q": Kueue manages the Job`},
		"its pods have a gate": {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) {
			j.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/g"}}
		}}, wantEvent: `NotAllowed: not in queue batch: spec.schedulingGates: "example.com/g": the Job's pod template waits for something else first`},
		"its pods are of a labelled group":     {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.Label: "crew"} }}, wantEvent: `NotAllowed: not in queue batch: label scheduling.x-k8s.io/pod-group: "crew": the Job's pod template names a PodGroup, which others may share: only Jobs and single pods wait in queues`},
		"its pods ask for another scheduler":   {edits: []func(*batchv1.Job){direct, func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "default-scheduler" }}, wantEvent: `NotAllowed: not in queue batch: spec.template.spec.schedulerName: "default-scheduler": only pods of the scheduler fluence wait in queues`},
		"a queue that is not there":            {edits: []func(*batchv1.Job){labelled("nowhere")}, wantQueue: "nowhere", wantSuspended: true},
		"it left the queue before its FluxJob": {edits: []func(*batchv1.Job){labelled("")}, wantEvent: "LeftQueue: the Job is in no queue any more, and starts as others do"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.edits...)
			w.byDefault = tc.byDefault
			if tc.running {
				w.job.Status.Active, w.on = 3, map[string]int32{"n1": 2, "n2": 1}
			}
			w.settle()
			got := ""
			if w.fluxJob != nil {
				got = w.fluxJob.Spec.Queue
			}
			if got != tc.wantQueue || *w.job.Spec.Suspend != tc.wantSuspended {
				t.Errorf("queue %q, %s; want queue %q, suspended %t", got, w, tc.wantQueue, tc.wantSuspended)
			}
			events := slices.DeleteFunc(slices.Compact(w.events), func(e string) bool { return strings.HasPrefix(e, "Queued") })
			if strings.Join(events, "\n") != tc.wantEvent {
				t.Errorf("events %q, want %q", events, tc.wantEvent)
			}
			if queue, said := group.QueueOf(w.job.Labels, w.job.Spec.Template.Labels); tc.wantQueue != "" && (!said || queue != tc.wantQueue) {
				t.Errorf("label %q, want the name of its queue", queue)
			}
		})
	}
}

func TestAPodWithAnotherGateWaitsForThatFirst(t *testing.T) {
	w := newPodWorld(t, func(p *corev1.Pod) {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/g"})
	})
	w.settle()
	if w.fluxJob != nil || len(w.pod.Spec.SchedulingGates) != 2 {
		t.Errorf("%s, want no FluxJob, and both gates", w)
	}
	w.pod.Spec.SchedulingGates = w.pod.Spec.SchedulingGates[:1]
	w.settle()
	w.pod.Labels = nil
	w.settle()
	if w.fluxJob != nil || len(w.pod.Spec.SchedulingGates) != 0 {
		t.Errorf("%s, want it let go without its label", w)
	}
}

// A Job that runs when it gets its FluxJob goes on, with the room of its pods, and its time does not begin anew.
func TestAJobThatRunsIsTakenAsItIs(t *testing.T) {
	w := newWorld(t, direct, func(j *batchv1.Job) {
		j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "1s"}
		j.Status.Active = 3
	})
	w.on = map[string]int32{"n2": 1, "n1": 1, "m": 2}
	w.settle()
	want := []v1alpha1.Seats{{Hosts: "m", Each: 2}, {Hosts: "n[1-2]", Each: 1}}
	if a := w.fluxJob.Status.Allocation; w.phase() != v1alpha1.Running || a == nil || !slices.Equal(a.Seats, want) || w.job.Spec.ActiveDeadlineSeconds != nil {
		t.Errorf("%s, allocation %+v, want %v", w, a, want)
	}
}

// Users can write the annotation that says since when a workload waits. The Job is as old as it is at most, and not of the future.
func TestThePlaceInTheQueueCannotBeForged(t *testing.T) {
	now := newWorld(t).now
	for value, want := range map[string]time.Time{
		group.Queued{Since: epoch.Add(-time.Hour)}.String():  epoch,
		group.Queued{Since: epoch.Add(time.Second)}.String(): epoch.Add(time.Second),
		group.Queued{Since: now.Add(time.Hour)}.String():     now,
		"x": epoch.Add(time.Second - time.Microsecond),
	} {
		w := newWorld(t, func(j *batchv1.Job) { j.Annotations[group.QueuedAnnotation] = value })
		w.settle()
		if got := w.fluxJob.Status.CreationTime.Time; !got.Equal(want) {
			t.Errorf("with %q it waits since %s, want %s", value, got, want)
		}
	}
}

// A Job that runs already counts in a queue only if the queue would take it, and is within its limits with it.
func TestAJobThatRunsDoesNotFillAQueueThatIsNotForIt(t *testing.T) {
	limit := func(edit func(*v1alpha1.QueueSpec)) func(*world) {
		return func(w *world) { edit(&w.queues["batch"].Spec) }
	}
	cases := map[string]struct {
		edit func(*world)
		want string // the reason of the event, empty if it counts
	}{
		"the namespace may not use it": {func(w *world) { w.denied = true }, "NotAllowed"},
		"it takes no new jobs":         {limit(func(q *v1alpha1.QueueSpec) { q.Enabled = new(false) }), "NotAllowed"},
		"there is no such queue":       {func(w *world) { delete(w.queues, "batch") }, "NoQueue"},
		"too many pods":                {limit(func(q *v1alpha1.QueueSpec) { q.Limits.JobSize.Max.Pods = new(int32(1)) }), "TooLarge"},
		"as many pods as it may have":  {limit(func(q *v1alpha1.QueueSpec) { q.Limits.JobSize.Max.Pods = new(int32(2)) }), ""},
		"nothing ends it":              {limit(func(q *v1alpha1.QueueSpec) { q.Limits.Duration = "1h" }), "NoDuration"},
		"an annotation alone does not end it": {func(w *world) {
			w.queues["batch"].Spec.Limits.Duration = "1h"
			w.job.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "1h"}
		}, "DurationOverLimit"},
		"its deadline is in time": {func(w *world) {
			w.queues["batch"].Spec.Limits.Duration = "1h"
			w.job.Spec.ActiveDeadlineSeconds = new(int64(3600))
		}, ""},
		"as many run as may":           {limit(func(q *v1alpha1.QueueSpec) { q.Limits.Running = new(int32(3)) }), "LimitReached"},
		"one more may run":             {limit(func(q *v1alpha1.QueueSpec) { q.Limits.Running = new(int32(4)) }), ""},
		"as many of the namespace run": {limit(func(q *v1alpha1.QueueSpec) { q.Limits.PerNamespace.Running = new(int32(2)) }), "LimitReached"},
		"they would request too much": {limit(func(q *v1alpha1.QueueSpec) {
			q.Limits.Requests = corev1.ResourceList{"cpu": apiresource.MustParse("10500m")}
		}), "LimitReached"},
		"they may request just so much": {limit(func(q *v1alpha1.QueueSpec) {
			q.Limits.Requests = corev1.ResourceList{"cpu": apiresource.MustParse("11")}
		}), ""},
	}
	for name, tc := range cases {
		for _, made := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, FluxJob made: %t", name, made), func(t *testing.T) {
				w := newWorld(t, direct, func(j *batchv1.Job) { j.Status.Active = 2 })
				w.on = map[string]int32{"n1": 2}
				w.others = usage{running: 3, ofNamespace: 2, requests: corev1.ResourceList{"cpu": apiresource.MustParse("10")}}
				if made {
					w.step()
				}
				tc.edit(w)
				w.settle()
				if counts := w.fluxJob != nil; counts != (tc.want == "") || *w.job.Spec.Suspend || tc.want != "" && !w.told(tc.want) {
					t.Errorf("it counts: %t, %s, events %q; want %q", counts, w, w.events, tc.want)
				}
			})
		}
	}
}

// A Job that counts in a queue without having waited does not get a deadline over the limit of the queue by an edit.
func TestTheDeadlineOfAJobThatRanBeforeItWasInTheQueue(t *testing.T) {
	w := newWorld(t, direct, func(j *batchv1.Job) { j.Status.Active, j.Spec.ActiveDeadlineSeconds = 2, new(int64(60)) })
	w.on, w.queues["batch"].Spec.Limits.Duration = map[string]int32{"n1": 2}, "1h"
	w.settle()
	if w.phase() != v1alpha1.Running || *w.job.Spec.ActiveDeadlineSeconds != 60 {
		t.Fatalf("%s, want it to run with its own deadline", w)
	}
	w.job.Spec.ActiveDeadlineSeconds = new(int64(9000))
	w.settle()
	if *w.job.Spec.ActiveDeadlineSeconds != 3600 {
		t.Errorf("deadline %d, want the limit of the queue", *w.job.Spec.ActiveDeadlineSeconds)
	}
}

func TestDeadlines(t *testing.T) {
	annotated := func(value string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: value} }
	}
	own := func(n int64) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &n }
	}
	cases := map[string]struct {
		edits        []func(*batchv1.Job)
		byQueue      string
		byUser       string
		wantDuration string
		// want is the deadline with which the Job is let go, and wantNote what is noted of its own.
		want     *int64
		wantNote string
	}{
		"nothing":                           {},
		"by annotation":                     {edits: []func(*batchv1.Job){annotated("2h")}, wantDuration: "2h", want: new(int64(7200)), wantNote: "none/7200"},
		"the Job's own":                     {edits: []func(*batchv1.Job){own(100)}, wantDuration: "100s", want: new(int64(100))},
		"its own is less":                   {edits: []func(*batchv1.Job){own(100), annotated("2h")}, wantDuration: "2h", want: new(int64(100))},
		"its own is more":                   {edits: []func(*batchv1.Job){own(9000), annotated("2h")}, wantDuration: "2h", want: new(int64(7200)), wantNote: "9000/7200"},
		"that of its pods":                  {edits: []func(*batchv1.Job){func(j *batchv1.Job) { j.Spec.Template.Spec.ActiveDeadlineSeconds = new(int64(60)) }}, wantDuration: "60s", want: new(int64(60)), wantNote: "none/60"},
		"the queue's":                       {byQueue: "1h", want: new(int64(3600)), wantNote: "none/3600"},
		"the annotation goes first":         {edits: []func(*batchv1.Job){annotated("30m")}, byQueue: "1h", wantDuration: "30m", want: new(int64(1800)), wantNote: "none/1800"},
		"a user goes first":                 {edits: []func(*batchv1.Job){annotated("30m")}, byUser: "10m", wantDuration: "10m", want: new(int64(600)), wantNote: "none/600"},
		"parts of a second are rounded up":  {edits: []func(*batchv1.Job){annotated("1.2s")}, wantDuration: "1.2s", want: new(int64(2)), wantNote: "none/2"},
		"without an end":                    {edits: []func(*batchv1.Job){annotated("inf")}, byQueue: "1h", wantDuration: "inf"},
		"its own without an end of the job": {edits: []func(*batchv1.Job){annotated("inf"), own(50)}, wantDuration: "inf", want: new(int64(50))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.edits...)
			w.queues["batch"].Spec.Defaults.Duration = tc.byQueue
			w.settle()
			if tc.byUser != "" {
				w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = tc.byUser })
			}
			before := w.job.Spec.ActiveDeadlineSeconds
			w.run()
			if got := w.job.Spec.ActiveDeadlineSeconds; !ptr.Equal(got, tc.want) || w.job.Annotations[group.DeadlineAnnotation] != tc.wantNote || w.fluxJob.Spec.Duration != tc.wantDuration {
				t.Errorf("duration %q, deadline %v, note %q; want %q, %v, %q", w.fluxJob.Spec.Duration, got, w.job.Annotations[group.DeadlineAnnotation], tc.wantDuration, tc.want, tc.wantNote)
			}
			// Its own deadline counts again the next time.
			w.takeBack(v1alpha1.ReasonRequeued)
			w.run()
			if got := w.observe().workload.ownDeadline(); !ptr.Equal(got, before) || !ptr.Equal(w.job.Spec.ActiveDeadlineSeconds, tc.want) {
				t.Errorf("its own deadline is %v after another round, was %v; it is let go with %v", got, before, w.job.Spec.ActiveDeadlineSeconds)
			}
		})
	}
}

// The deadline of a Job that runs follows the duration: at once if that is less, and with the end of the allocation if it is more.
func TestADurationThatIsEditedWhileTheJobRuns(t *testing.T) {
	w := newWorld(t, func(j *batchv1.Job) {
		j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "1h"}
	})
	w.run()
	duration := func(text string) func() {
		return func() { w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = text }) }
	}
	end := func(d time.Duration) func() {
		return func() {
			a := w.fluxJob.Status.Allocation
			a.End = &metav1.Time{Time: a.At.Add(d + 30*time.Second)}
		}
	}
	own := func(n *int64) func() { return func() { w.job.Spec.ActiveDeadlineSeconds = n } }
	for _, s := range []struct {
		name string
		do   func()
		want int64
	}{
		{"as it was let go", func() {}, 3600},
		{"less", duration("30m"), 1800},
		{"more than the scheduler has accepted", duration("3h"), 1800},
		{"the scheduler accepts it", end(3 * time.Hour), 10800},
		{"wrong", duration("soon"), 10800},
		{"none: as it was", duration(""), 10800},
		{"no end, which the scheduler has not accepted", duration("inf"), 10800},
		{"its user removes the deadline", own(nil), 10800},
		{"its user removes the deadline and its note", func() {
			w.job.Spec.ActiveDeadlineSeconds = nil
			delete(w.job.Annotations, group.DeadlineAnnotation)
		}, 10800},
		{"its user writes another deadline and note", func() {
			w.job.Spec.ActiveDeadlineSeconds = new(int64(999999999))
			w.job.Annotations[group.DeadlineAnnotation] = "none/999999999"
		}, 10800},
		{"its user raises the deadline", own(new(int64(20000))), 10800},
		{"its user lowers the deadline", own(new(int64(600))), 600},
		{"its user raises it again", own(new(int64(10800))), 10800},
	} {
		s.do()
		w.settle()
		if got := ptr.Deref(w.job.Spec.ActiveDeadlineSeconds, 0); got != s.want {
			t.Errorf("%s: deadline %d, want %d: %s", s.name, got, s.want, w)
		}
	}
}

func TestWhatAUserSetsInAFluxJobStays(t *testing.T) {
	w := newWorld(t, func(j *batchv1.Job) { j.Spec.Template.Spec.PriorityClassName = "high" })
	w.settle()
	if w.fluxJob.Spec.Priority != 100 {
		t.Errorf("priority %d, want that of the class", w.fluxJob.Spec.Priority)
	}
	first, made := w.fluxJob.UID, w.fluxJob.Status.CreationTime.Time
	w.now = w.now.Add(time.Hour)
	w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Duration, fj.Spec.Held = "2h", true })
	w.job.Spec.Parallelism = new(int32(1))
	w.settle()
	if fj := w.fluxJob; fj.Spec.Duration != "2h" || !fj.Spec.Held || fj.Spec.Pods != 1 || fj.UID == first || !fj.Status.CreationTime.Time.Equal(made) {
		t.Errorf("%+v, want a FluxJob with the new request, what the user has set, and its old place", fj)
	}
	w.job.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "3h"}
	w.settle()
	if s := w.fluxJob.Spec; s.Duration != "3h" || !s.Held {
		t.Errorf("spec %+v, want the new duration of the Job", s)
	}
	w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Held = false })
	w.run()
	w.takeBack(v1alpha1.ReasonRequeued)
	w.settle()
	if s := w.fluxJob.Spec; s.Duration != "3h" || s.Held {
		t.Errorf("spec %+v after it ran, want what it was", s)
	}
}

func TestValidity(t *testing.T) {
	cases := map[string]struct {
		job   func(*batchv1.Job)
		queue func(*v1alpha1.QueueSpec)
		user  func(*v1alpha1.FluxJobSpec)
		want  string
	}{
		"a wrong annotation": {
			job:  func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "-1s"} },
			want: `False/InvalidDuration: annotation fluence.flux-framework.org/duration: "-1s": must be a number of at least 0, with one of the suffixes ms, s, m, h, d or without one for seconds`,
		},
		"a wrong annotation, and a user's duration": {
			job:  func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "-1s"} },
			user: func(s *v1alpha1.FluxJobSpec) { s.Duration = "1h" },
			want: "True/Valid: ",
		},
		"a user's wrong duration": {
			user: func(s *v1alpha1.FluxJobSpec) { s.Duration = "1e12d" },
			want: `False/InvalidDuration: spec.duration: "1e12d": more than 292 years; write infinity for a time without an end`,
		},
		"a duration of nothing": {user: func(s *v1alpha1.FluxJobSpec) { s.Duration = "0" }, want: `False/InvalidDuration: spec.duration: "0": must be more than 0; inf is a time without an end`},
		"no duration":           {queue: func(s *v1alpha1.QueueSpec) { s.Limits.Duration = "1h" }, want: "False/NoDuration: Queue batch wants a duration of each job, at most 1h: set the annotation fluence.flux-framework.org/duration, or spec.duration"},
		"a duration without end": {
			queue: func(s *v1alpha1.QueueSpec) { s.Limits.Duration = "1h" }, user: func(s *v1alpha1.FluxJobSpec) { s.Duration = "inf" },
			want: "False/NoDuration: Queue batch wants a duration of each job, at most 1h: set the annotation fluence.flux-framework.org/duration, or spec.duration",
		},
		"the queue's default counts": {queue: func(s *v1alpha1.QueueSpec) { s.Limits.Duration, s.Defaults.Duration = "1h", "30m" }, want: "True/Valid: "},
		"too long": {
			queue: func(s *v1alpha1.QueueSpec) { s.Limits.Duration = "1h" }, user: func(s *v1alpha1.FluxJobSpec) { s.Duration = "61m" },
			want: "False/DurationOverLimit: duration 61m: a job of Queue batch may take at most 1h",
		},
		"as long as it may be": {queue: func(s *v1alpha1.QueueSpec) { s.Limits.Duration = "1h" }, user: func(s *v1alpha1.FluxJobSpec) { s.Duration = "60m" }, want: "True/Valid: "},
		"too many pods":        {queue: func(s *v1alpha1.QueueSpec) { s.Limits.JobSize.Max.Pods = new(int32(1)) }, want: "False/TooLarge: 2 pods: a job of Queue batch may have at most 1"},
		"too much": {
			queue: func(s *v1alpha1.QueueSpec) {
				s.Limits.JobSize.Max.Requests = corev1.ResourceList{"cpu": apiresource.MustParse("900m")}
			},
			want: "False/TooLarge: 1 of cpu: a job of Queue batch may request at most 900m",
		},
		"more pods than a group has": {
			job:  func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = new(int32(100001)), nil },
			want: "False/InvalidJobspec: 100001 pods at a time: a job has at most 100000",
		},
		"a wrong bound of pods on a node": {
			job: func(j *batchv1.Job) {
				j.Spec.Template.Annotations = map[string]string{group.PodsPerNodeAnnotation: "many"}
			},
			want: `False/InvalidJobspec: annotation fluence.flux-framework.org/pods-per-node: "many": must be a whole number from 1 to 100000`,
		},
		"no such class": {
			job:  func(j *batchv1.Job) { j.Spec.Template.Spec.PriorityClassName = "highest" },
			want: `False/NoPriorityClass: priorityClassName: "highest": there is no such PriorityClass, so no pod can be made`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.job != nil {
				tc.job(w.job)
			}
			if tc.queue != nil {
				tc.queue(&w.queues["batch"].Spec)
			}
			w.settle()
			if tc.user != nil {
				w.editFluxJob(func(fj *v1alpha1.FluxJob) { tc.user(&fj.Spec) })
				w.settle()
			}
			got := w.condition("Valid") + ": "
			for _, c := range w.fluxJob.Status.Conditions {
				got += c.Message
			}
			if got != tc.want {
				t.Errorf("Valid is %q, want %q", got, tc.want)
			}
			if told := slices.ContainsFunc(w.events, func(e string) bool { return "False/"+e == tc.want }); told != strings.HasPrefix(tc.want, "False") {
				t.Errorf("events %q, want one that says why it is not valid", w.events)
			}
		})
	}
}
