package fluxjob

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// A world is one workload, its FluxJob, and what writes to them: users, the scheduler, the Job controller. It carries out the
// steps of decide as an API server would.
type world struct {
	t testing.TB
	// job or pod is the workload.
	job     *batchv1.Job
	pod     *corev1.Pod
	fluxJob *v1alpha1.FluxJob
	queues  map[string]*v1alpha1.Queue
	// byDefault is the queue of Jobs that name none.
	byDefault string
	classes   map[string]int32
	// on has the nodes of the Job's pods.
	on map[string]int32
	// denied is true if the namespace may not use any queue. others is what others have of the queue.
	denied bool
	others usage
	now    time.Time
	// uids is the number of UIDs that were given.
	uids int
	// wrote has what was written, and events what was told.
	wrote, events []string
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// newWorld returns a world with a Job of two pods in queue batch, as the webhook leaves it.
func newWorld(t testing.TB, edits ...func(*batchv1.Job)) *world {
	w := &world{
		t: t, now: epoch.Add(time.Minute), classes: map[string]int32{"high": 100}, on: map[string]int32{},
		queues: map[string]*v1alpha1.Queue{"batch": queue("batch"), "night": queue("night")},
	}
	w.job = &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "solver", UID: "job-uid", CreationTimestamp: metav1.NewTime(epoch),
			Labels:      map[string]string{group.QueueLabel: "batch"},
			Annotations: map[string]string{group.QueuedAnnotation: group.Queued{Since: epoch.Add(500 * time.Millisecond)}.String()},
		},
		Spec: batchv1.JobSpec{Suspend: new(true), Parallelism: new(int32(2)), Completions: new(int32(2)), Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{SchedulerName: "fluence", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": apiresource.MustParse("500m")}, Limits: corev1.ResourceList{"cpu": apiresource.MustParse("2"), "nvidia.com/gpu": apiresource.MustParse("1")},
			}}}},
		}},
	}
	for _, edit := range edits {
		edit(w.job)
	}
	return w
}

// newPodWorld returns a world with a pod in queue batch, as the webhook leaves it.
func newPodWorld(t testing.TB, edits ...func(*corev1.Pod)) *world {
	w := newWorld(t)
	w.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "pod-uid", CreationTimestamp: metav1.NewTime(epoch), Labels: map[string]string{group.QueueLabel: "batch"}},
		Spec:       corev1.PodSpec{SchedulerName: "fluence", Priority: new(int32(7)), SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.QueueGate}}, Containers: w.job.Spec.Template.Spec.Containers},
	}
	w.job = nil
	for _, edit := range edits {
		edit(w.pod)
	}
	return w
}

func queue(name string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Grace: "30s"}}
}

func labelled(queue string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Labels = map[string]string{group.QueueLabel: queue} }
}

// direct is a Job that the webhook has not seen.
func direct(j *batchv1.Job) { j.Spec.Suspend, j.Annotations = new(false), nil }

// observe returns what the controller sees.
func (w *world) observe() *observation {
	o := &observation{
		now: w.now, seats: func() []v1alpha1.Seats { return seatsOn(w.on) },
		allowed: func() bool { return !w.denied }, others: func() (usage, error) { return w.others, nil },
	}
	switch {
	case w.job != nil:
		o.workload = ofJob(w.job.DeepCopy(), "fluence")
	case w.pod != nil:
		o.workload = ofPod(w.pod.DeepCopy())
	}
	if w.fluxJob != nil {
		o.fluxJob = w.fluxJob.DeepCopy()
	}
	if o.workload == nil {
		return o
	}
	o.owner, o.byDefault = o.workload.owner, w.byDefault
	name := o.wantedQueue()
	if o.fluxJob != nil {
		name = o.fluxJob.Spec.Queue
	}
	o.queue = w.queues[name]
	if spec := o.workload.asked.template.Spec; spec.Priority != nil {
		o.priority = *spec.Priority
	} else if class := spec.PriorityClassName; class != "" {
		var has bool
		if o.priority, has = w.classes[class]; !has {
			o.noClass = class
		}
	}
	return o
}

// step carries out the next write. It returns false if there is none.
func (w *world) step() bool {
	o := w.observe()
	s := o.decide()
	for _, n := range s.events {
		w.events = append(w.events, n.reason+": "+n.text)
	}
	if s.what == "" {
		return false
	}
	w.wrote = append(w.wrote, s.what)
	switch {
	case s.create != nil:
		w.uids++
		w.fluxJob = s.create.DeepCopy()
		w.fluxJob.UID, w.fluxJob.Generation, w.fluxJob.Status = types.UID(strconv.Itoa(w.uids)), 1, v1alpha1.FluxJobStatus{}
	case s.spec != nil:
		if !asksTheSame(w.fluxJob, s.spec) {
			w.t.Fatalf("the API server would refuse: %s", s.what)
		}
		w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec, fj.Annotations = s.spec.Spec, s.spec.Annotations })
	case s.status != nil:
		w.fluxJob.Status = *s.status.Status.DeepCopy()
	case s.remove && len(w.fluxJob.Finalizers) > 0:
		w.fluxJob.DeletionTimestamp = new(metav1.NewTime(w.now))
	case s.remove:
		w.fluxJob = nil
	default:
		w.patch(s.workload)
	}
	return true
}

// editFluxJob changes the spec of the FluxJob.
func (w *world) editFluxJob(edit func(*v1alpha1.FluxJob)) {
	before := w.fluxJob.DeepCopy()
	edit(w.fluxJob)
	if !sameSpec(before, w.fluxJob) {
		w.fluxJob.Generation++
	}
}

// patch merges a patch into the workload.
func (w *world) patch(p patch) {
	w.t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	var obj any = w.job
	if w.job == nil {
		obj = w.pod
	}
	before, err := json.Marshal(obj)
	if err != nil {
		w.t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.job != nil {
		suspended := *w.job.Spec.Suspend
		w.job = &batchv1.Job{}
		err = json.Unmarshal(after, w.job)
		w.runJobController(suspended)
	} else {
		deadline := w.pod.Spec.ActiveDeadlineSeconds
		w.pod = &corev1.Pod{}
		err = json.Unmarshal(after, w.pod)
		if now := w.pod.Spec.ActiveDeadlineSeconds; deadline != nil && (now == nil || *now > *deadline) {
			w.t.Fatalf("the deadline of a pod was raised: %s", data)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// runJobController does what the Job controller does when spec.suspend changes.
func (w *world) runJobController(was bool) {
	if is := *w.job.Spec.Suspend; is && !was {
		w.job.Status.Active, w.on = 0, map[string]int32{}
	} else if !is && was {
		w.job.Status.Active = podsOf(w.job)
	}
}

// settle carries out steps until there is none.
func (w *world) settle() {
	w.t.Helper()
	for n := 0; w.step(); n++ {
		if n > 12 {
			w.t.Fatalf("it never ends: %q", w.wrote)
		}
	}
}

// admit does what the scheduler does when it is a job's turn.
func (w *world) admit() {
	fj := w.fluxJob
	end := (*metav1.Time)(nil)
	if d, err := v1alpha1.DurationOf(&fj.Spec, w.queues[fj.Spec.Queue]); err == nil && d > 0 {
		end = &metav1.Time{Time: w.now.Add(d + 30*time.Second)}
	}
	fj.Status.Phase = v1alpha1.Ready
	fj.Status.Allocation = &v1alpha1.JobAllocation{Attempt: 1, At: metav1.MicroTime{Time: w.now}, End: end, Seats: []v1alpha1.Seats{{Hosts: "n[1-2]", Each: 1}}}
	w.say(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, metav1.ConditionTrue)
}

// mayAdmit reports whether the scheduler may admit the job.
func (w *world) mayAdmit() bool {
	fj := w.fluxJob
	if fj == nil || fj.Spec.Held || fj.Status.Allocation != nil {
		return false
	}
	valid := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
	return (fj.Status.Phase == v1alpha1.Requested || fj.Status.Phase == v1alpha1.Waiting) &&
		valid != nil && valid.Status == metav1.ConditionTrue && valid.ObservedGeneration == fj.Generation
}

// takeBack does what the scheduler does when a job loses its allocation.
func (w *world) takeBack(because string) {
	w.fluxJob.Status.Phase, w.fluxJob.Status.Allocation = v1alpha1.Waiting, nil
	w.say(v1alpha1.ConditionAdmitted, because, metav1.ConditionFalse)
}

func (w *world) say(kind, because string, status metav1.ConditionStatus) {
	meta.SetStatusCondition(&w.fluxJob.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: because})
}

// run takes the job through its queue until it runs.
func (w *world) run() {
	w.t.Helper()
	w.settle()
	if !w.mayAdmit() {
		w.t.Fatalf("the scheduler may not admit it: %s", w)
	}
	w.admit()
	w.settle()
	if got := w.phase(); got != v1alpha1.Running {
		w.t.Fatalf("it is %s, want Running: %s", got, w)
	}
	w.wrote, w.events = nil, nil
}

// bindAll gives each of the Job's pods a node.
func (w *world) bindAll() {
	w.on = map[string]int32{}
	for i := range w.job.Status.Active {
		w.on[fmt.Sprintf("n%d", i%2)]++
	}
}

func (w *world) phase() v1alpha1.JobPhase {
	if w.fluxJob == nil {
		return "none"
	}
	return w.fluxJob.Status.Phase
}

// condition returns a condition as STATUS/REASON.
func (w *world) condition(kind string) string {
	if w.fluxJob == nil {
		return "none"
	}
	c := meta.FindStatusCondition(w.fluxJob.Status.Conditions, kind)
	if c == nil {
		return "none"
	}
	return string(c.Status) + "/" + c.Reason
}

// String tells the state in a line.
func (w *world) String() string {
	text := "pod"
	if w.job != nil {
		text = fmt.Sprintf("suspended %t, annotations %v, deadline %v", *w.job.Spec.Suspend, w.job.Annotations, w.job.Spec.ActiveDeadlineSeconds)
	}
	if fj := w.fluxJob; fj != nil {
		text += fmt.Sprintf("; %s, held %t, allocation %t, valid %s", fj.Status.Phase, fj.Spec.Held, fj.Status.Allocation != nil, w.condition(v1alpha1.ConditionValid))
	}
	return text + "; wrote " + strings.Join(w.wrote, ", ")
}
