package fluxjob

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

func (w *world) suspend(is bool) { w.patch(patch{"spec": map[string]any{"suspend": is}}) }

// told reports whether an event with this reason was sent.
func (w *world) told(reason string) bool {
	return slices.ContainsFunc(w.events, func(e string) bool { return strings.HasPrefix(e, reason+": ") })
}

func TestAWaitingJobThatItsUserResumesIsSuspendedAgain(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.suspend(false)
	w.settle()
	if !*w.job.Spec.Suspend || !w.mayAdmit() || !w.told("Suspended") {
		t.Errorf("%s, events %q; want it suspended again, and an event", w, w.events)
	}
}

// A user who suspends a running Job holds it by that. He lets it wait for its turn again by resuming it, or by releasing its FluxJob.
func TestAUserSuspendsARunningJob(t *testing.T) {
	held := func(t *testing.T) *world {
		w := newWorld(t)
		w.run()
		w.suspend(true)
		w.settle()
		if w.phase() != v1alpha1.Waiting || !w.fluxJob.Spec.Held || w.fluxJob.Status.Allocation != nil || w.fluxJob.Status.Started != nil || w.mayAdmit() || !w.told("Held") {
			t.Fatalf("%s, events %q; want it held without an allocation", w, w.events)
		}
		return w
	}
	t.Run("and resumes it", func(t *testing.T) {
		w := held(t)
		w.suspend(false)
		w.settle()
		if w.fluxJob.Spec.Held || !*w.job.Spec.Suspend || w.job.Annotations[group.QueuedAnnotation] == "" {
			t.Errorf("%s, want it to wait for its turn, suspended", w)
		}
		w.run()
	})
	t.Run("and releases its FluxJob", func(t *testing.T) {
		w := held(t)
		w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Held = false })
		w.run()
		if *w.job.Spec.Suspend {
			t.Errorf("%s, want it let go", w)
		}
	})
	t.Run("and releases its FluxJob, and edits the Job", func(t *testing.T) {
		w := held(t)
		since := w.fluxJob.Status.CreationTime.Time
		w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Held = false })
		w.settle()
		w.job.Spec.Parallelism, w.job.Spec.Completions = new(int32(5)), new(int32(5))
		w.run()
		if *w.job.Spec.Suspend || w.fluxJob.Spec.Pods != 5 || !w.fluxJob.Status.CreationTime.Time.Equal(since) {
			t.Errorf("%s, since %s; want it let go with 5 pods, and since %s", w, w.fluxJob.Status.CreationTime, since)
		}
	})
	t.Run("and edits the Job, and releases its FluxJob", func(t *testing.T) {
		w := held(t)
		w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Held = false })
		w.job.Spec.Parallelism, w.job.Spec.Completions = new(int32(5)), new(int32(5))
		w.run()
		if *w.job.Spec.Suspend || w.fluxJob.Spec.Pods != 5 {
			t.Errorf("%s, want it let go with 5 pods", w)
		}
	})
	t.Run("and resumes one that was held by its FluxJob too", func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Held = true })
		w.suspend(false)
		w.settle()
		if !w.fluxJob.Spec.Held || !*w.job.Spec.Suspend {
			t.Errorf("%s, want it held as before", w)
		}
	})
}

// A refusal is shown for as long as what was refused is to be written.
func TestARefusalIsShownForAsLongAsItIsOne(t *testing.T) {
	cases := map[string]struct {
		// refused is what leads to the write that is refused, and then what happens after it.
		refused, then func(*world)
		want          string // the condition Released at the end
	}{
		"it is let go after all":           {(*world).admit, func(*world) {}, "True/Released"},
		"it is suspended after all":        {func(w *world) { w.suspend(false) }, func(*world) {}, "none"},
		"it has lost its room":             {(*world).admit, func(w *world) { w.takeBack(v1alpha1.ReasonRequeued) }, "none"},
		"its user has suspended it again":  {func(w *world) { w.suspend(false) }, func(w *world) { w.suspend(true) }, "none"},
		"it is to be deleted":              {(*world).admit, func(w *world) { w.job.DeletionTimestamp = new(metav1.NewTime(w.now)) }, "none"},
		"it is let go, and loses its room": {(*world).admit, func(w *world) { w.settle(); w.takeBack(v1alpha1.ReasonRequeued) }, "True/Released"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			tc.refused(w)
			w.refuse()
			if got := w.condition(v1alpha1.ConditionReleased); got != "False/WriteRefused" {
				t.Errorf("Released is %s, want that it was refused: %s", got, w)
			}
			tc.then(w)
			w.settle()
			if got := w.condition(v1alpha1.ConditionReleased); got != tc.want {
				t.Errorf("Released is %s, want %s: %s", got, tc.want, w)
			}
		})
	}
}

// What the scheduler takes back is suspended, so that its deadline does not run, whoever of both comes first.
func TestAJobThatLosesItsRoomWaitsSuspended(t *testing.T) {
	evicted := patch{"metadata": map[string]any{"annotations": map[string]any{group.SuspendedForAnnotation: group.SuspensionFor("u-1", "job-uid")}}, "spec": map[string]any{"suspend": true}}
	cases := map[string]func(*world){
		"requeued":                              func(w *world) { w.takeBack(v1alpha1.ReasonRequeued) },
		"preempted, and not suspended yet":      func(w *world) { w.takeBack(v1alpha1.ReasonPreempted) },
		"suspended, and not told of yet":        func(w *world) { w.patch(evicted) },
		"preempted, and suspended for that too": func(w *world) { w.takeBack(v1alpha1.ReasonPreempted); w.patch(evicted) },
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run()
			lose(w)
			w.settle()
			if w.phase() != v1alpha1.Waiting || w.fluxJob.Status.Allocation != nil || !*w.job.Spec.Suspend || w.fluxJob.Spec.Held || !w.mayAdmit() || w.told("Suspended") {
				t.Errorf("%s, events %q; want it to wait, suspended", w, w.events)
			}
			w.run()
			if group.SuspendedFor(w.job) != "" {
				t.Errorf("%v, want no annotation of the eviction", w.job.Annotations)
			}
		})
	}
}

func TestAJobLeavesItsQueue(t *testing.T) {
	unlabel := func(w *world) { w.job.Labels = nil }
	t.Run("while it waits", func(t *testing.T) {
		w := newWorld(t, func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.QueueLabel: "batch", "a": "b"} })
		w.settle()
		w.job.Labels[group.QueueLabel] = ""
		w.settle()
		if w.fluxJob != nil || *w.job.Spec.Suspend || w.job.Annotations[group.QueuedAnnotation] != "" || len(w.job.Spec.Template.Labels) != 1 {
			t.Errorf("%s, template %v; want it let go, and no FluxJob", w, w.job.Spec.Template.Labels)
		}
	})
	t.Run("while its user has suspended it", func(t *testing.T) {
		w := newWorld(t)
		w.queues["batch"].Spec.Defaults.Duration = "1h"
		w.run()
		w.suspend(true)
		w.settle()
		unlabel(w)
		w.settle()
		if w.fluxJob != nil || !*w.job.Spec.Suspend || w.job.Spec.ActiveDeadlineSeconds != nil {
			t.Errorf("%s, deadline %v; want it suspended still, without a deadline", w, w.job.Spec.ActiveDeadlineSeconds)
		}
	})
	for name, own := range map[string]*int64{"with its own deadline": new(int64(9000)), "without a deadline": nil} {
		t.Run("after it lost its room, "+name, func(t *testing.T) {
			w := newWorld(t, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = own })
			w.settle()
			w.editFluxJob(func(fj *v1alpha1.FluxJob) { fj.Spec.Duration = "2h" })
			w.run()
			w.takeBack(v1alpha1.ReasonRequeued)
			w.settle()
			unlabel(w)
			w.settle()
			if _, noted := w.job.Annotations[group.DeadlineAnnotation]; noted || w.fluxJob != nil || *w.job.Spec.Suspend || !ptr.Equal(w.job.Spec.ActiveDeadlineSeconds, own) {
				t.Errorf("%s, deadline %v, annotations %v; want it let go with %v", w, w.job.Spec.ActiveDeadlineSeconds, w.job.Annotations, own)
			}
		})
	}
	t.Run("with an allocation", func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.admit()
		unlabel(w)
		w.settle()
		if w.fluxJob != nil || *w.job.Spec.Suspend {
			t.Errorf("%s, want it let go, and no FluxJob", w)
		}
	})
	t.Run("while it runs: nothing changes", func(t *testing.T) {
		w := newWorld(t)
		w.run()
		unlabel(w)
		w.settle()
		if w.phase() != v1alpha1.Running || len(w.wrote) > 0 {
			t.Error(w)
		}
	})
	t.Run("for another one", func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		before := w.fluxJob
		w.now = w.now.Add(time.Hour)
		w.job.Labels[group.QueueLabel] = "night"
		w.settle()
		if fj := w.fluxJob; fj.Spec.Queue != "night" || fj.UID == before.UID || !fj.Status.CreationTime.Time.Equal(w.now) || !*w.job.Spec.Suspend {
			t.Errorf("%s, want a new FluxJob that is the last in queue night", w)
		}
	})
	t.Run("for another one, with a place that its user has written", func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.now = w.now.Add(time.Hour)
		w.job.Labels[group.QueueLabel] = "night"
		w.job.Annotations[group.QueuedAnnotation] = group.Queued{Since: w.fluxJob.Status.CreationTime.Add(time.Microsecond)}.String()
		w.settle()
		if fj := w.fluxJob; fj.Spec.Queue != "night" || !fj.Status.CreationTime.Time.Equal(w.now) {
			t.Errorf("%s, since %s, want it the last in queue night", w, fj.Status.CreationTime)
		}
	})
	t.Run("for Kueue", func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.job.Labels[group.KueueLabel] = "q"
		w.settle()
		if w.fluxJob != nil || !*w.job.Spec.Suspend || !w.told("NotAllowed") {
			t.Errorf("%s, want it suspended, and no FluxJob", w)
		}
		w.job.Labels[group.QueueLabel] = ""
		w.settle()
		if _, noted := w.job.Annotations[group.QueuedAnnotation]; noted || !*w.job.Spec.Suspend {
			t.Errorf("%s, want it suspended by Kueue alone", w)
		}
	})
}

func TestARequestThatChanges(t *testing.T) {
	wider := func(w *world) { w.job.Spec.Parallelism, w.job.Spec.Completions = new(int32(5)), new(int32(5)) }
	w := newWorld(t)
	w.settle()
	wider(w)
	w.settle()
	if w.fluxJob.Spec.Pods != 5 || w.condition("Valid") != "True/Valid" {
		t.Errorf("%+v, want the new request", w.fluxJob.Spec)
	}
	w.admit()
	w.job.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"}
	w.settle()
	if w.phase() != v1alpha1.Requested || w.fluxJob.Status.Allocation != nil || w.fluxJob.Spec.Nodes.Selector["a"] != "b" || !*w.job.Spec.Suspend {
		t.Errorf("%s, want that a changed request has lost its room", w)
	}
	w.run()
	w.job.Spec.Parallelism, w.job.Status.Succeeded = new(int32(7)), 1
	w.settle()
	if w.phase() != v1alpha1.Running || w.fluxJob.Spec.Pods != 5 || len(w.wrote) > 0 {
		t.Errorf("%s, want a running job as it was", w)
	}
	// What has succeeded is not run again.
	w.takeBack(v1alpha1.ReasonRequeued)
	w.settle()
	if w.fluxJob.Spec.Pods != 4 {
		t.Errorf("%d pods, want those that have not succeeded", w.fluxJob.Spec.Pods)
	}
	w.job.Spec.Parallelism = new(int32(0))
	w.settle()
	if w.fluxJob != nil || !*w.job.Spec.Suspend {
		t.Errorf("%s, want no FluxJob for a Job that wants no pods", w)
	}
}

func TestTheEndOfAWaitingJob(t *testing.T) {
	cases := map[string]struct {
		end  func(*world)
		want v1alpha1.JobResult
	}{
		"it is being deleted": {func(w *world) { w.job.DeletionTimestamp = new(metav1.NewTime(w.now)) }, v1alpha1.Cancelled},
		"it has failed": {func(w *world) {
			w.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "PodFailurePolicy", Message: "pod x"}}
		}, v1alpha1.Failed},
		"its time is up": {func(w *world) {
			w.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded"}}
		}, v1alpha1.WalltimeExceeded},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			tc.end(w)
			w.settle()
			if s := w.fluxJob.Status; s.Phase != v1alpha1.Finished || s.Result != tc.want {
				t.Errorf("status %+v, want %s", s, tc.want)
			}
		})
	}
	w := newWorld(t)
	w.settle()
	w.job = nil
	w.settle()
	if w.fluxJob != nil {
		t.Error("the FluxJob of a Job that is gone is there still")
	}
}

// Users may write finalizers and owners of a FluxJob. None of them holds nodes, whatever the workload does.
func TestAFinalizerHoldsNoRoom(t *testing.T) {
	cases := map[string]func(*world){
		"the Job is gone":        func(w *world) { w.job = nil },
		"the FluxJob is deleted": func(w *world) { w.fluxJob.DeletionTimestamp = new(metav1.NewTime(w.now)) },
		"the Job asks for less": func(w *world) {
			w.suspend(true)
			w.takeBack(v1alpha1.ReasonHeld)
			w.job.Spec.Parallelism = new(int32(1))
		},
		"the Job is gone by itself": func(w *world) { w.job.DeletionTimestamp = new(metav1.NewTime(w.now)); w.settle(); w.job = nil },
	}
	for name, do := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run()
			w.fluxJob.Finalizers = []string{"example.com/keep"}
			w.fluxJob.OwnerReferences = append(w.fluxJob.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "other"})
			do(w)
			w.settle()
			if w.phase() != v1alpha1.Finished || w.fluxJob.Status.Result != v1alpha1.Cancelled {
				t.Fatalf("%s, want it finished, so that its room is free", w)
			}
			if w.job == nil {
				return
			}
			w.fluxJob = nil // its finalizer is gone
			w.settle()
			if w.job.DeletionTimestamp == nil && !*w.job.Spec.Suspend && w.phase() != v1alpha1.Requested {
				t.Errorf("%s, want a new FluxJob", w)
			}
		})
	}
}

// A Job that is deleted without its pods is a Job that is gone.
func TestTheFluxJobOfAJobWhosePodsAreOrphaned(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.job.DeletionTimestamp, w.job.Finalizers = new(metav1.NewTime(w.now)), []string{metav1.FinalizerOrphanDependents}
	w.settle()
	if w.phase() != v1alpha1.Finished {
		t.Errorf("%s, want its room free", w)
	}
	w.job, w.fluxJob.OwnerReferences = nil, nil // as the garbage collector leaves it
	w.settle()
	if w.fluxJob != nil {
		t.Errorf("%s, want it deleted", w)
	}
}
