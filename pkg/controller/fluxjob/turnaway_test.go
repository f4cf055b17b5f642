package fluxjob

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// gated gives the pods of a Job a gate of somebody else.
func gated(j *batchv1.Job) {
	j.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/g"}}
}

// ungated takes the gates from the pods of a Job.
func ungated(j *batchv1.Job) { j.Spec.Template.Spec.SchedulingGates = nil }

// A Job with the label of a queue that comes to be one that cannot wait there stays suspended, and says why. Its pods would be held, and
// its deadline would count. When it can wait again, it has what a user has set.
func TestAJobThatCannotWaitAnyMore(t *testing.T) {
	edits := map[string]func(*batchv1.Job){
		"its pods get a gate":   gated,
		"its pods get a group":  func(j *batchv1.Job) { j.Spec.Template.Labels[group.Label] = "crew" },
		"its pods are of Kueue": func(j *batchv1.Job) { j.Spec.Template.Labels[group.KueueLabel] = "q" },
		"its pods get native ones": func(j *batchv1.Job) {
			j.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("crew")}
		},
	}
	when := map[string]func(*world){
		"before its FluxJob":     func(*world) {},
		"while it waits":         (*world).settle,
		"when its turn has come": func(w *world) { w.settle(); w.admit() },
		"after it lost its room": func(w *world) { w.run(); w.takeBack(v1alpha1.ReasonRequeued); w.settle() },
		"while it is held":       func(w *world) { w.settle(); w.hold(true); w.duration("2h"); w.settle() },
	}
	for edit, do := range edits {
		for at, reach := range when {
			t.Run(edit+" "+at, func(t *testing.T) {
				w := newWorld(t, func(j *batchv1.Job) {
					j.Spec.Template.Labels = map[string]string{group.QueueLabel: "batch"}
				})
				w.queues["batch"].Spec.Defaults.Duration = "1h"
				reach(w)
				held := w.fluxJob != nil && w.fluxJob.Spec.Held
				do(w.job)
				w.events = nil
				w.settle()
				if w.fluxJob != nil || !*w.job.Spec.Suspend || len(w.events) != 1 || !w.told("NotAllowed") {
					t.Errorf("%s, events %q; want it suspended, and one reason", w, w.events)
				}
				ungated(w.job)
				delete(w.job.Spec.Template.Labels, group.Label)
				delete(w.job.Spec.Template.Labels, group.KueueLabel)
				w.job.Spec.Template.Spec.SchedulingGroup = nil
				w.settle()
				if held {
					if w.fluxJob == nil || !w.fluxJob.Spec.Held || w.fluxJob.Spec.Duration != "2h" {
						t.Errorf("%s, want it held for 2h, as its user has set", w)
					}
					w.hold(false)
				}
				w.run()
			})
		}
	}
}

// A Job that is in its queue by default alone is let go as it was, unless it is held.
func TestAJobOfADefaultQueueThatCannotWaitAnyMore(t *testing.T) {
	for _, held := range []bool{false, true} {
		w := newWorld(t, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = new(int64(9000)) })
		w.job.Labels, w.job.Spec.Template.Labels, w.byDefault = nil, map[string]string{"a": "b"}, "batch"
		w.settle()
		w.hold(held)
		gated(w.job)
		w.settle()
		if w.fluxJob != nil || *w.job.Spec.Suspend != held || !ptr.Equal(w.job.Spec.ActiveDeadlineSeconds, new(int64(9000))) || slices.ContainsFunc(w.events, func(e string) bool { return strings.Contains(e, "is let go") }) == held || !w.told("NotAllowed") {
			t.Errorf("held %t: %s, events %q; want a reason, and it let go as it was unless it is held", held, w, w.events)
		}
	}
}

// What its user has suspended stays so, whatever Fluence thinks of it.
func TestAJobThatCannotWaitAndThatItsUserHasSuspendedStaysSo(t *testing.T) {
	for name, reach := range map[string]func(*world){
		"from the start":  func(w *world) { w.job.Annotations = nil },
		"while it ran":    func(w *world) { w.run(); w.suspend(true) },
		"and was held so": func(w *world) { w.run(); w.suspend(true); w.settle() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			reach(w)
			gated(w.job)
			w.settle()
			if w.fluxJob != nil || !*w.job.Spec.Suspend || !w.told("NotAllowed") {
				t.Errorf("%s, events %q; want it suspended still, and a reason", w, w.events)
			}
		})
	}
}

// While another controller decides about a Job, Fluence does not resume it. When that leaves it, the Job is in its queue again.
func TestAJobThatAnotherControllerTakes(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.job.Labels[group.KueueLabel] = "q"
	w.settle()
	if w.fluxJob != nil || !*w.job.Spec.Suspend || !w.told("NotAllowed") {
		t.Fatalf("%s, events %q; want it suspended, without a FluxJob", w, w.events)
	}
	delete(w.job.Labels, group.KueueLabel)
	w.settle()
	if !w.mayAdmit() || !*w.job.Spec.Suspend {
		t.Fatalf("%s, want it to wait again", w)
	}
	w.job.Labels[group.KueueLabel] = "q"
	w.settle()
	w.suspend(false) // Kueue admits it
	w.settle()
	if *w.job.Spec.Suspend || w.job.Annotations[group.QueuedAnnotation] != "" {
		t.Errorf("%s, want it to run, and nothing of Fluence on it", w)
	}
}

// A Job that gets or loses its controller is looked at again.
func TestAJobThatChangesItsController(t *testing.T) {
	was := newWorld(t).job
	is := was.DeepCopy()
	if jobChanged(event.UpdateEvent{ObjectOld: was, ObjectNew: is}) {
		t.Error("it is looked at again without a change")
	}
	is.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Name: "nightly", Controller: new(true)}}
	for _, e := range []event.UpdateEvent{{ObjectOld: was, ObjectNew: is}, {ObjectOld: is, ObjectNew: was}} {
		if !jobChanged(e) {
			t.Errorf("controlled by %v after %v, and not looked at", e.ObjectNew.GetOwnerReferences(), e.ObjectOld.GetOwnerReferences())
		}
	}
}

// A Job that wants no pods waits without a FluxJob until it wants some.
func TestAJobThatWantsNoPodsForATime(t *testing.T) {
	for name, reach := range map[string]func(*world){
		"from the start":         func(*world) {},
		"while it waits":         (*world).settle,
		"after it lost its room": func(w *world) { w.run(); w.takeBack(v1alpha1.ReasonRequeued); w.settle() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			reach(w)
			w.job.Spec.Parallelism = new(int32(0))
			w.settle()
			if w.fluxJob != nil || !*w.job.Spec.Suspend {
				t.Fatalf("%s, want no FluxJob", w)
			}
			w.job.Spec.Parallelism = new(int32(2))
			w.run()
		})
	}
}

func TestAPodThatCannotWaitAnyMore(t *testing.T) {
	w := newPodWorld(t)
	w.settle()
	w.pod.Labels[group.Label] = "crew"
	w.settle()
	if w.fluxJob != nil || len(w.pod.Spec.SchedulingGates) != 1 || !w.told("NotAllowed") {
		t.Errorf("%s, gates %v, events %q; want it held, and a reason", w, w.pod.Spec.SchedulingGates, w.events)
	}
}
