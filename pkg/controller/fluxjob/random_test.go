package fluxjob

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/trials"
)

// ownSeconds is the deadline of the random Job that is its own.
const ownSeconds = 5000

// actions are what users, the scheduler and the Job controller do, at any time: also between two writes of the controller.
var actions = map[string]func(w *world, r *rand.Rand){
	"user suspends":         func(w *world, _ *rand.Rand) { w.suspend(true) },
	"user resumes":          func(w *world, _ *rand.Rand) { w.suspend(false) },
	"user holds":            func(w *world, _ *rand.Rand) { w.hold(true) },
	"user releases":         func(w *world, _ *rand.Rand) { w.hold(false) },
	"user leaves":           func(w *world, _ *rand.Rand) { w.label("") },
	"user goes to batch":    func(w *world, _ *rand.Rand) { w.label("batch") },
	"user goes to night":    func(w *world, _ *rand.Rand) { w.label("night") },
	"user deletes FluxJob":  func(w *world, _ *rand.Rand) { w.fluxJob = nil },
	"user edits duration":   func(w *world, r *rand.Rand) { w.duration([]string{"1m", "1h", "inf", "", "x"}[r.IntN(5)]) },
	"user widens":           func(w *world, r *rand.Rand) { w.job.Spec.Parallelism = new(r.Int32N(4)) },
	"user gates pods":       func(w *world, _ *rand.Rand) { w.editTemplate(gated) },
	"user ungates pods":     func(w *world, _ *rand.Rand) { w.editTemplate(ungated) },
	"Kueue takes":           func(w *world, _ *rand.Rand) { w.job.Labels[group.KueueLabel] = "q" },
	"Kueue leaves":          func(w *world, _ *rand.Rand) { delete(w.job.Labels, group.KueueLabel) },
	"a write is refused":    func(w *world, _ *rand.Rand) { w.refuse() },
	"scheduler admits":      func(w *world, _ *rand.Rand) { w.admitIfMay() },
	"scheduler admits more": func(w *world, _ *rand.Rand) { w.admitIfMay() },
	"scheduler requeues":    func(w *world, _ *rand.Rand) { w.lose(v1alpha1.ReasonRequeued) },
	"scheduler preempts":    func(w *world, _ *rand.Rand) { w.lose(v1alpha1.ReasonPreempted) },
	"scheduler evicts":      func(w *world, _ *rand.Rand) { w.evict() },
	"podgroup hands over":   func(w *world, _ *rand.Rand) { w.handOver() },
	"pods are bound":        func(w *world, _ *rand.Rand) { w.bindIfMay() },
}

func (w *world) hold(is bool) {
	if w.fluxJob != nil {
		w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Held = is })
	}
}

func (w *world) label(queue string) { w.job.Labels[group.QueueLabel] = queue }

// editTemplate edits the pod template of a Job, which the API server refuses for one that is not suspended.
func (w *world) editTemplate(edit func(*batchv1.Job)) {
	if *w.job.Spec.Suspend {
		edit(w.job)
	}
}

// refuse does what the controller does if the API server refuses the next change of the workload.
func (w *world) refuse() {
	o := w.observe()
	if s := o.decide(); s.workload == nil {
		return
	}
	if fj := refusedOf(o, "no"); fj != nil {
		w.fluxJob.Status = fj.Status
	}
}

func (w *world) duration(text string) {
	if w.fluxJob != nil {
		w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = text })
	}
}

func (w *world) admitIfMay() {
	if w.mayAdmit() {
		w.admit()
	}
}

func (w *world) lose(because string) {
	if w.fluxJob != nil && w.fluxJob.Status.Allocation != nil {
		w.takeBack(because)
	}
}

// evict does what the scheduler's eviction does to a Job with pods on nodes.
func (w *world) evict() {
	if len(w.on) > 0 && !*w.job.Spec.Suspend {
		w.patch(patch{"metadata": map[string]any{"annotations": map[string]any{group.SuspendedForAnnotation: group.SuspensionFor("u-1", w.job.UID)}}, "spec": map[string]any{"suspend": true}})
	}
}

// handOver does what package podgroup does with a Job whose evicted pods have gone.
func (w *world) handOver() {
	if group.SuspendedFor(w.job) == "" {
		return
	}
	annotations := map[string]any{group.SuspendedForAnnotation: nil}
	p := patch{"metadata": map[string]any{"annotations": annotations}}
	if o := w.observe().workload; *w.job.Spec.Suspend && o.queue != "" && o.foreign == "" {
		annotations[group.QueuedAnnotation] = group.Queued{Since: w.now}.String()
	} else {
		p["spec"] = map[string]any{"suspend": false}
	}
	w.patch(p)
}

// bindIfMay binds the pods of a Job as the scheduler does: of a Job in a queue only with an allocation.
func (w *world) bindIfMay() {
	if *w.job.Spec.Suspend {
		return
	}
	if w.fluxJob != nil && w.fluxJob.Status.Allocation != nil || w.fluxJob == nil && w.observe().workload.queue == "" {
		w.bindAll()
	}
}

// Whatever others do, and between whichever two writes they do it, a Job in a queue runs only with an allocation, and none is
// left suspended that nobody holds. A write is decided from what is there, so an end of the controller between
// two writes is the same as a pause.
func TestNoJobIsStrandedAndNoneStartsUnadmitted(t *testing.T) {
	names := slices.Sorted(maps.Keys(actions))
	for seed := range trials.Seeds(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var story []string
		w := newWorld(t, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(ownSeconds)) })
		for range 25 {
			for range r.IntN(4) {
				w.now = w.now.Add(time.Second)
				if !w.step() {
					break
				}
				story = append(story, w.wrote[len(w.wrote)-1])
			}
			name := names[r.IntN(len(names))]
			actions[name](w, r)
			story = append(story, name)
		}
		w.wrote = nil
		w.handOver()
		w.settle()
		if problem := w.problem(); problem != "" {
			t.Fatalf("seed %d: %s: %s\n%q", seed, problem, w, story)
		}
	}
}

// problem says what is wrong once all is quiet. It returns "" if nothing is.
func (w *world) problem() string {
	o := w.observe()
	suspended, fj := *w.job.Spec.Suspend, w.fluxJob
	running := fj != nil && fj.Status.Phase == v1alpha1.Running
	switch {
	case !ptr.Equal(o.workload.ownDeadline(), new(int64(ownSeconds))):
		return "its own deadline is lost"
	case running && (suspended || fj.Status.Allocation == nil):
		return "it runs, and is suspended or has no allocation"
	case running:
		return ""
	case w.condition(v1alpha1.ConditionReleased) == "False/WriteRefused":
		return "it says that a write is refused, and none is to be made"
	case o.workload.foreign != "" && fj != nil:
		return "it cannot wait in a queue, and has a FluxJob"
	case o.workload.foreign != "":
		return ""
	case fj != nil && fj.Status.Allocation != nil:
		return "it has an allocation, and was not let go"
	case o.workload.queue == "" && fj != nil:
		return "it is in no queue, and has a FluxJob"
	case o.workload.queue == "" && w.job.Annotations[group.QueuedAnnotation] != "":
		return "it is in no queue, and suspended by it"
	case o.workload.queue == "" || o.workload.asked.pods == 0:
		return ""
	case !suspended:
		return "it starts before its turn"
	case fj == nil && w.job.Annotations[group.QueuedAnnotation] != "":
		return "it waits without a FluxJob"
	case fj != nil && !fj.Spec.Held && !w.mayAdmit() && w.condition("Valid")[:4] == "True":
		return "nobody holds it, and it cannot be admitted"
	}
	return ""
}
