package fluxjob

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fsd"
	"github.com/flux-k8s/fluence/pkg/group"
)

// The writes of a workload's way, in their order. S is spec.suspend of the Job, or the gate of the pod; A is
// group.QueuedAnnotation. Each row is decided from what is there alone, so after an end between any two writes the next
// leader finds one of the rows.
//
//	what is there                                   the next write
//	no FluxJob, not S, no pod has a node            Job: S, A (what slipped past the webhook)
//	no FluxJob, not S, pods have nodes              FluxJob: made; then its status: Running, with the nodes of these pods.
//	                                                None if the queue does not take the Job, or would be over a limit with it
//	no FluxJob, S without A                         none: a user has suspended the Job, and resumes it himself
//	no FluxJob, S with A                            FluxJob: made. None as long as the Job wants no pods
//	no FluxJob, S with A, it cannot wait in queues  none, with the label of a queue. In a default queue Job or pod: not S, not A, unless
//	                                                it is held, or others' as well
//	Waiting, S without A (a user, who released it)  Job: A
//	FluxJob without phase                           status: Requested, Valid, when it was made
//	Waiting, not S                                  Job: S, A
//	waiting, it cannot wait in queues               Job or pod: A has what a user has set; then FluxJob: deleted
//	waiting, no allocation, WriteRefused            status: not WriteRefused (nothing is to be written any more)
//	waiting, another request than the workload's    Job or pod: A has what a user has set; then FluxJob: deleted
//	Waiting, an allocation                          status: no allocation (the scheduler cannot remove one that was written here)
//	Ready, S                                        Job or pod: deadline, not S, not A
//	Ready, not S                                    status: Running
//	Running, S (a user)                             spec: held; then status: Waiting, no allocation
//	Running, S (an eviction)                        status: Waiting, no allocation
//	Running, another deadline than the job's        Job or pod: deadline
//	not Finished, the workload has ended            status: Finished
//	waiting, no queue any more                      Job or pod: not S, not A; then FluxJob: deleted
//	the workload is gone                            FluxJob: deleted
//	not Finished, the FluxJob is being deleted      status: Finished
//
// "waiting" is every phase before Running: also Ready, as long as S. A pod cannot be gated again. Where a Job is suspended,
// the scheduler holds a pod by its FluxJob.

// A step is the next write, and the events that tell of it. The zero step writes nothing.
type step struct {
	// what is written, for logs.
	what string
	// At most one of these is set.
	create, spec, status *v1alpha1.FluxJob
	workload             patch
	remove               bool
	// verify is true if the step would do harm with an old cache: one that has just started may have a newer FluxJob than
	// workload, or the reverse. Then the one that is not written is read from the API server, and the step is dropped if it
	// is another.
	verify bool
	// alone is true if the step depends on what other jobs have of the queue: no two such steps are decided and written at a time.
	alone bool
	// events are sent after the write. Without a write they are sent once.
	events []note
	// counts is the action to count.
	counts string
}

// A note is an event about the workload.
type note struct{ kind, reason, text string }

// Reasons of events, beside those of conditions.
const (
	eventQueued    = "Queued"
	eventSuspended = "Suspended"
	eventLeftQueue = "LeftQueue"
	eventDeadline  = "DeadlineChanged"
)

func normal(reason, format string, args ...any) []note {
	return []note{{corev1.EventTypeNormal, reason, clip(fmt.Sprintf(format, args...))}}
}

func warning(reason, format string, args ...any) []note {
	return []note{{corev1.EventTypeWarning, reason, clip(fmt.Sprintf(format, args...))}}
}

// decide returns the next write.
func (o *observation) decide() step {
	w, fj := o.workload, o.fluxJob
	switch {
	case w == nil && fj == nil:
		return step{}
	case w != nil && w.elsewhere && (fj != nil || w.asked.template.Spec.SchedulerName != corev1.DefaultSchedulerName):
		return step{}
	case fj != nil && fj.DeletionTimestamp != nil:
		return o.giveUp()
	case w == nil:
		return step{what: "remove: the workload is gone", remove: true, verify: true, counts: actionDeleted}
	case fj == nil:
		return o.enter()
	case fj.Status.Phase == v1alpha1.Finished:
		return step{}
	case w.ended != nil:
		return step{what: "finish", status: finished(fj, o, *w.ended), counts: actionFinished}
	case w.object.GetDeletionTimestamp() != nil:
		return step{what: "finish: the workload is being deleted", status: finished(fj, o, ending{result: v1alpha1.Cancelled, text: "the " + w.owner.Kind + " was deleted"}), counts: actionFinished}
	case fj.Status.Phase == v1alpha1.Running:
		return o.follow()
	default:
		return o.await()
	}
}

// giveUp decides for a FluxJob that is being deleted, and that a finalizer keeps. Users may write finalizers: the room is not kept
// with it.
func (o *observation) giveUp() step {
	if o.fluxJob.Status.Phase == v1alpha1.Finished {
		return step{}
	}
	const text = "the FluxJob is being deleted"
	return step{what: "finish: " + text, status: finished(o.fluxJob, o, ending{result: v1alpha1.Cancelled, text: text}), counts: actionFinished,
		events: warning(eventLeftQueue, "FluxJob %s is being deleted: its room is free, and a new one is made when its finalizers are gone", o.fluxJob.Name)}
}

// enter decides for a workload without a FluxJob.
func (o *observation) enter() step {
	w, queue := o.workload, o.wantedQueue()
	switch {
	case w.ended != nil || w.object.GetDeletionTimestamp() != nil:
		return step{}
	case queue == "":
		return o.letGo()
	case w.foreign != "":
		return o.turnAway(queue)
	case w.asked.pods == 0, w.onNode:
		return step{}
	case w.isJob() && w.suspended && w.queued == "":
		return step{} // somebody else has suspended it, and resumes it
	case w.isJob() && !w.suspended:
		on := o.seatsTaken()
		if len(on) > 0 && !w.labelled {
			return step{}
		}
		if len(on) == 0 {
			s := step{what: "suspend", workload: suspension(o.now, ""), verify: true, events: normal(eventSuspended, "the Job waits for its turn in queue %s, suspended", queue)}
			if !w.labelled {
				s.workload = suspension(o.now, queue)
			}
			return s
		}
		if because, text := o.whyNotCounted(); because != "" {
			return step{events: warning(because, "not in queue %s: %s. Its pods on nodes run on, and further ones wait. Suspend the Job and resume it, and it waits for its turn", queue, text)}
		}
	}
	fj, _, _ := o.wanted(&v1alpha1.FluxJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.object.GetNamespace(), Name: w.owner.PodGroupName(),
		OwnerReferences: []metav1.OwnerReference{w.ownerReference()},
	}})
	note := group.ParseQueued(w.queued)
	fj.Spec.Held = note.Held
	if _, err := fsd.ParseLimit("", note.Duration); err == nil && note.Duration != "" && len(note.Duration) <= maxDurationText {
		fj.Spec.Duration = note.Duration
	}
	return step{what: "create", create: fj, counts: actionCreated, events: queuedNote(queue, fj.Name)}
}

// seatsTaken returns the nodes on which a Job has pods that have not ended.
func (o *observation) seatsTaken() []v1alpha1.Seats {
	if !o.workload.active {
		return nil // the pods need not be read
	}
	return o.seats()
}

// letGo lets a workload go that Fluence holds, and that is to wait in no queue. A Job has its own deadline again.
func (o *observation) letGo() step {
	p := o.workload.leave()
	if p == nil {
		return step{}
	}
	if o.workload.isJob() && o.workload.queued == "" {
		return step{what: "restore its own deadline: it is in no queue", workload: p}
	}
	return step{what: "let go: it is in no queue", workload: p, events: normal(eventLeftQueue, "the %s is in no queue any more, and starts as others do", o.workload.owner.Kind)}
}

// turnAway decides for a workload without a FluxJob that cannot wait in its queue. One with the label stays suspended, if it is: the
// scheduler holds its pods because of the label, and a deadline would count meanwhile. One that is in its queue by default alone is let
// go. What is others' as well waits for them, and what was held stays so.
func (o *observation) turnAway(queue string) step {
	w := o.workload
	notAllowed := func(outcome string) []note {
		return warning(v1alpha1.ReasonNotAllowed, "not in queue %s: %s%s", queue, w.foreign, outcome)
	}
	switch waits := w.suspended && (w.queued != "" || !w.isJob()); {
	case !waits:
		s := o.letGo() // takes away what Fluence has left on what runs
		if w.labelled {
			s.events = notAllowed("")
		}
		return s
	case w.isOthers() && !w.labelled:
		return step{} // they say what it waits for
	case w.isOthers():
		return step{events: notAllowed("")}
	case w.labelled:
		return step{events: notAllowed(". It stays held until that is changed, or the label is gone")}
	case group.ParseQueued(w.queued).Held:
		return step{events: notAllowed(". It stays held until its user resumes it")}
	}
	s := o.letGo()
	s.events = notAllowed(fmt.Sprintf(". The %s is let go, and waits for no turn", w.owner.Kind))
	return s
}

// await decides for a workload that waits, or has an allocation and was not let go.
func (o *observation) await() step {
	w, fj := o.workload, o.fluxJob
	switch queue := o.wantedQueue(); {
	case w.foreign != "":
		return o.makeAnew() // an event says why when the FluxJob is gone
	case queue == "":
		if s := o.letGo(); s.workload != nil {
			return s
		}
		return step{what: "remove: it left the queue", remove: true, verify: true, counts: actionDeleted}
	case fj.Status.Allocation != nil && fj.Status.Phase != v1alpha1.Ready && fj.Status.Phase != "":
		next := fj.DeepCopy()
		next.Status.Allocation = nil
		return step{what: "clear an allocation that was taken back", status: next}
	}
	if w.isJob() && !w.suspended {
		if fj.Status.Phase == "" && len(o.seatsTaken()) > 0 {
			if because, _ := o.whyNotCounted(); because != "" {
				return step{what: "remove: it may not count in its queue", remove: true, verify: true, counts: actionDeleted}
			}
			return step{what: "adopt", alone: true, status: adopted(fj, o, o.seatsTaken()), events: normal(v1alpha1.ReasonRunsAlready, "the Job has pods on nodes: it runs on, and counts in queue %s", fj.Spec.Queue)}
		}
		if fj.Status.Allocation == nil {
			return o.suspendAgain()
		}
	}
	return o.awaitInQueue()
}

// suspendAgain decides for a Job that waits and is not suspended: a user has resumed it, or it has lost its allocation.
func (o *observation) suspendAgain() step {
	w, fj := o.workload, o.fluxJob
	admitted := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionAdmitted)
	if fj.Spec.Held && w.queued == "" && o.isByUser() {
		next := fj.DeepCopy()
		next.Spec.Held = false
		return step{what: "release: its user has resumed the Job", spec: next, verify: true}
	}
	since := o.now
	if fj.Status.CreationTime != nil {
		since = fj.Status.CreationTime.Time
	}
	s := step{what: "suspend again", workload: suspension(since, ""), verify: true}
	if w.queued != "" || admitted == nil || admitted.Reason != v1alpha1.ReasonPreempted && admitted.Reason != v1alpha1.ReasonRequeued {
		s.events = warning(eventSuspended, "the Job is suspended again: it waits for its turn in queue %s", fj.Spec.Queue)
	}
	return s
}

// isByUser reports whether the job waits because its user has suspended the Job.
func (o *observation) isByUser() bool {
	c := meta.FindStatusCondition(o.fluxJob.Status.Conditions, v1alpha1.ConditionReleased)
	return c != nil && c.Reason == v1alpha1.ReasonSuspendedByUser
}

// awaitInQueue decides for a workload that stays in its queue, and is suspended or has an allocation.
func (o *observation) awaitInQueue() step {
	w, fj := o.workload, o.fluxJob
	if w.isJob() && w.suspended && w.queued == "" && !fj.Spec.Held && o.isByUser() {
		since := o.now
		if made := fj.Status.CreationTime; made != nil {
			since = made.Time
		}
		return step{what: "take over that it is suspended: it was released", workload: noting(group.Queued{Since: since}), verify: true}
	}
	let := fj.Status.Allocation != nil && !w.suspended // it was let go: what it still asks for changes as its pods end
	if !let {
		if w.asked.pods == 0 {
			return step{what: "remove: the Job wants no pods", remove: true, verify: true, counts: actionDeleted}
		}
		next, durationErr, requestErr := o.wanted(fj)
		switch {
		case !asksTheSame(fj, next):
			return o.makeAnew()
		case !sameSpec(fj, next):
			return step{what: "write the duration that the workload says", spec: next}
		}
		valid := o.validity(fj, durationErr, requestErr)
		if was := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid); fj.Status.Phase == "" || fj.Status.CreationTime == nil || !sameCondition(was, valid) {
			s := step{what: "say whether it is valid", status: withValid(fj, valid, o)}
			if valid.Status == metav1.ConditionFalse && (was == nil || was.Reason != valid.Reason || was.Message != valid.Message) {
				s.events = warning(valid.Reason, "%s", valid.Message)
			}
			return s
		}
	}
	if fj.Status.Allocation == nil {
		if next := fj.DeepCopy(); clearRefusal(next) {
			return step{what: "say that no write is refused any more", status: next}
		}
		return step{}
	}
	if p := w.release(w.releaseDeadline(fj, o.queue)); p != nil {
		return step{what: "release", workload: p, events: normal(v1alpha1.ReasonReleased, "%s", releasedText(o))}
	}
	return step{what: "say that it was released", status: released(fj, o), counts: actionReleased}
}

// lately is how long ago a job may have changed its queue by the note of that, which users can write too.
const lately = time.Minute

// makeAnew decides for a workload that asks for something else than its FluxJob, which nobody can change. What a user has set in the
// FluxJob is noted of the workload before it goes. In another queue the job is the last.
func (o *observation) makeAnew() step {
	w, fj := o.workload, o.fluxJob
	if !w.isJob() || w.queued != "" {
		note := setByUser(fj)
		note.Since = w.waits(o.now)
		if made := fj.Status.CreationTime; made != nil && o.wantedQueue() != fj.Spec.Queue && (!note.Since.After(made.Time) || o.now.Sub(note.Since) > lately) {
			note.Since = o.now
		}
		if was := group.ParseQueued(w.queued); !was.Since.Equal(note.Since) || was.Held != note.Held || was.Duration != note.Duration {
			return step{what: "note what a user has set", workload: noting(note)}
		}
	}
	return step{what: "remove: its workload asks for something else", remove: true, verify: true, counts: actionDeleted}
}

// follow decides for a workload that was let go and has not ended.
func (o *observation) follow() step {
	w, fj := o.workload, o.fluxJob
	if w.isJob() && w.suspended {
		return o.putBack()
	}
	if fj.Status.Allocation == nil {
		return step{}
	}
	if said, err := saidBy(w); err == nil && said != fj.Annotations[group.SaidAnnotation] {
		next := fj.DeepCopy()
		sayDuration(next, said)
		return step{what: "write the duration that the workload says", spec: next}
	}
	deadline := w.runningDeadline(fj, o.queue)
	if c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionReleased); c != nil && c.Reason == v1alpha1.ReasonRunsAlready {
		if w.deadlineNote == "" {
			deadline = w.deadline // the time of the FluxJob would count from before it was in the queue
		}
		if most := leastSeconds(nil, longestOf(o.queue), w.isJob()); most != nil && (deadline == nil || *deadline > *most) {
			deadline = most
		}
	}
	if p := w.limit(deadline); p != nil {
		return step{what: "change the deadline", workload: p, events: normal(eventDeadline, "%s", deadlineText(w.owner.Kind, deadline))}
	}
	return step{}
}

// putBack decides for a Job that was let go and is suspended: by an eviction, or by a user. A user holds it by that.
func (o *observation) putBack() step {
	w, fj := o.workload, o.fluxJob
	if w.preempted || w.queued != "" {
		return step{what: "take back: its pods make room", verify: true, counts: actionTakenBack,
			status: takenBack(fj, o, v1alpha1.ReasonPreempted, v1alpha1.ReasonTakenBack, "its pods were evicted for a group of higher priority"),
			events: normal(v1alpha1.ReasonTakenBack, "the Job waits in queue %s again", fj.Spec.Queue)}
	}
	if !fj.Spec.Held {
		next := fj.DeepCopy()
		next.Spec.Held = true
		return step{what: "hold: its user has suspended the Job", spec: next, verify: true}
	}
	return step{what: "take back: its user has suspended the Job", verify: true, counts: actionTakenBack,
		status: takenBack(fj, o, v1alpha1.ReasonHeld, v1alpha1.ReasonSuspendedByUser, "the Job was suspended while it ran; it is held until it is resumed"),
		events: normal(v1alpha1.ReasonHeld, "the Job was suspended while it ran: it is held in queue %s until it is resumed (spec.suspend), or its FluxJob released", fj.Spec.Queue)}
}

// deadlineText says what a deadline in seconds is now.
func deadlineText(kind string, n *int64) string {
	if n == nil {
		return fmt.Sprintf("the %s has no deadline any more", kind)
	}
	return fmt.Sprintf("the %s ends %s after its start (activeDeadlineSeconds)", kind, inSeconds(*n))
}

// ownerReference returns the reference by which the FluxJob goes with its workload.
func (w *workload) ownerReference() metav1.OwnerReference {
	ref := w.reference()
	return metav1.OwnerReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID, Controller: new(false), BlockOwnerDeletion: new(false)}
}
