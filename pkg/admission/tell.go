package admission

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/report"
)

// How often is said why a job waits.
const (
	// numbersEvery is how often a message is written of which only the numbers have changed, of the first job of a queue. Of
	// the others it is not.
	numbersEvery = 20 * time.Second
	// lookAtOnce is how many jobs are looked at in one step, besides those that have just changed.
	lookAtOnce = 1000
	// lookAllEvery is the shortest time from one look at all jobs to the next.
	lookAllEvery = 30 * time.Second
)

// An overlap is why others may have taken what a job was promised.
type overlap struct {
	why string
	// until is how long this may be why a promise moves. It is zero until all have asked that may have lost something.
	until time.Time
}

// overlapLasts is for how long an overlap counts after all have asked. The matcher may hear of a pod a moment later than the driver.
const overlapLasts = 5 * time.Second

// A teller decides what is written onto FluxJobs and Queues, and when. Only the loop uses it.
type teller struct {
	cfg    *Config
	jobs   *jobs
	writer *writer
	core   *queue.Core
	asker  *asker
	// toLook are the jobs of which something has changed. rest are those of the look at all jobs that were not looked at yet, and
	// lookedAt is when it began.
	toLook   map[types.NamespacedName]struct{}
	rest     []types.NamespacedName
	lookedAt time.Time
	// changed are groups of which Status has another answer.
	changed []types.NamespacedName
	// overlapped has why others may have taken what jobs were promised.
	overlapped map[types.NamespacedName]overlap
	// heads are the first jobs of the queues.
	heads map[types.NamespacedName]struct{}
	// statuses has what was last written of each Queue.
	statuses map[string]*v1alpha1.QueueStatus
	metrics  *metrics
}

func newTeller(cfg *Config, j *jobs, w *writer, core *queue.Core, a *asker) *teller {
	return &teller{
		cfg: cfg, jobs: j, writer: w, core: core, asker: a, metrics: w.metrics,
		toLook: map[types.NamespacedName]struct{}{}, overlapped: map[types.NamespacedName]overlap{}, heads: map[types.NamespacedName]struct{}{}, statuses: map[string]*v1alpha1.QueueStatus{},
	}
}

// look makes the teller look at a job.
func (t *teller) look(key types.NamespacedName) { t.toLook[key] = struct{}{} }

// forget drops a job that is gone or has ended.
func (t *teller) forget(key types.NamespacedName) {
	delete(t.toLook, key)
	delete(t.overlapped, key)
}

// decided makes the teller tell what a pass has decided. restoring is true until the jobs have asked once since this scheduler leads.
func (t *teller) decided(all []queue.Decision, restoring bool, now time.Time) {
	for i := range all {
		d := &all[i]
		switch {
		case d.Change != queue.Promised:
		case !d.Before.From.IsZero() && d.Promise.From.After(d.Before.From):
			t.movedLater(d, now)
		case d.Before.From.IsZero() && restoring:
			t.restoredLater(d, now)
		}
		t.look(d.Key)
	}
	if t.core.Pending() {
		return
	}
	for key, o := range t.overlapped {
		switch {
		case o.until.IsZero():
			t.overlapped[key] = overlap{o.why, now.Add(overlapLasts)}
		case now.After(o.until):
			delete(t.overlapped, key)
		}
	}
}

// movedLater records why a promise has moved to a later time.
func (t *teller) movedLater(d *queue.Decision, now time.Time) {
	why := ""
	if d.By != (types.NamespacedName{}) {
		why = "a job before it was given its room"
		if d.By.Namespace == d.Key.Namespace {
			why = "job " + d.By.Name + ", which is before it, was given its room"
		}
	} else {
		o := t.overlapped[d.Key]
		if !o.until.IsZero() && now.After(o.until) {
			o.why = ""
		}
		if why = t.asker.later[d.Key]; why == "" || why == whyLonger {
			why = cmp.Or(o.why, why, whyUnknown)
		}
	}
	t.jobs.mu.Lock()
	defer t.jobs.mu.Unlock()
	if j := t.jobs.byKey[d.Key]; j != nil && j.promise != nil && !movedLittle(d.Before.From, d.Promise.From, now) {
		j.promise.why = why
	}
}

// restoredLater records why a promise is later than the one of an earlier process, which the FluxJob shows. On which nodes that was is
// not known any more.
func (t *teller) restoredLater(d *queue.Decision, now time.Time) {
	t.jobs.mu.Lock()
	defer t.jobs.mu.Unlock()
	j := t.jobs.byKey[d.Key]
	if j == nil || j.promise == nil || j.promised == nil {
		return
	}
	if told := j.promised.At.Time; d.Promise.From.After(told) && !movedLittle(told, d.Promise.From, now) {
		j.promise.why = whyRestarted
	}
}

// isBusy reports whether there are jobs to look at.
func (t *teller) isBusy() bool { return len(t.rest)+len(t.toLook) > 0 }

// tell has written what has changed.
func (t *teller) tell(now time.Time) {
	t.findHeads()
	for key := range t.toLook {
		t.lookAt(key, now)
	}
	clear(t.toLook)
	if len(t.rest) == 0 && now.Sub(t.lookedAt) >= lookAllEvery {
		t.lookedAt = now
		t.jobs.mu.Lock()
		t.rest = t.jobs.all()
		t.jobs.mu.Unlock()
	}
	n := min(lookAtOnce, len(t.rest))
	for _, key := range t.rest[:n] {
		t.lookAt(key, now)
	}
	t.rest = t.rest[n:]
	if len(t.changed) > 0 {
		t.cfg.Groups.Changed(t.changed...)
		t.changed = nil
	}
}

// findHeads looks at the first jobs of the queues, and at those that were the first until now.
func (t *teller) findHeads() {
	for key := range t.heads {
		t.look(key)
	}
	clear(t.heads)
	for name := range t.asker.queues {
		if s, ok := t.core.Summary(name); ok && s.First != (types.NamespacedName{}) {
			t.heads[s.First] = struct{}{}
			t.look(s.First)
		}
	}
}

// lookAt has a job written if it says something else than it is to say.
func (t *teller) lookAt(key types.NamespacedName, now time.Time) {
	state, waits := t.core.State(key)
	_, isHead := t.heads[key]
	t.jobs.mu.Lock()
	j := t.jobs.byKey[key]
	if j == nil || j.isOver() || now.Before(j.retryAt) {
		t.jobs.mu.Unlock()
		return
	}
	heldBefore := j.sayReason
	if waits && j.room == nil {
		why := ""
		if j.promise != nil {
			why = j.promise.why
		}
		if state.Reason == queue.Unplaceable {
			why = j.refusedWhy
		}
		reason, message := describe(state, j.queue, t.asker.queues[j.queue], why, now)
		j.sayReason, j.sayMessage = reason, t.jobs.texts.shared(message)
	}
	write, urgent := j.needsWrite(isHead, now)
	changed := heldBefore != j.sayReason
	t.jobs.mu.Unlock()
	if write {
		t.writer.add(key, urgent || isHead)
	}
	if changed {
		t.changed = append(t.changed, key)
	}
}

// needsWrite reports whether the FluxJob says something else than it is to say, and whether others wait for it to be said.
func (j *job) needsWrite(isHead bool, now time.Time) (write, urgent bool) {
	switch r := j.room; {
	case r != nil && !r.written || j.takenBack != 0:
		return true, true
	case r != nil && (!slices.Equal(r.seats, r.toShow()) || !r.end.Equal(r.shownEnd) || !j.isLetGo() && j.phase != v1alpha1.Ready):
		return true, true
	case j.sayDelay != j.delay:
		return true, false
	case r != nil:
		return false, false
	case j.sayReason == "":
		return false, false // it is not known yet
	}
	switch p, told := j.promise, j.promised; {
	case (p == nil) != (told == nil):
		return true, p != nil
	case p != nil && (!movedLittle(told.At.Time, p.job.Start, now) || told.Why != p.why):
		return true, true
	}
	switch {
	case j.admitted, j.reason != j.sayReason, j.phase != j.waitingPhase():
		return true, false
	case j.message == j.sayMessage:
		return false, false
	case isHead && now.Sub(j.writtenAt) >= numbersEvery:
		return true, false
	}
	return report.StableText(j.message) != report.StableText(j.sayMessage), false
}

// status returns what is to be written of a Queue.
func (t *teller) status(q *jobQueue, s queue.Summary, now time.Time) *v1alpha1.QueueStatus {
	status := &v1alpha1.QueueStatus{Pending: int32(s.Waiting), Running: int32(s.Running), Used: quantitiesOf(s.Used)}
	if s.First != (types.NamespacedName{}) {
		status.Head = &v1alpha1.QueueHead{Namespace: s.First.Namespace, Name: s.First.Name}
		if !s.Promise.From.IsZero() {
			status.Head.At = &metav1.Time{Time: s.Promise.From.Truncate(time.Second)}
		}
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "jobs of the queue may start", ObservedGeneration: q.object.Generation, LastTransitionTime: metav1.NewTime(now)}
	switch {
	case q.reason != "":
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, q.reason, q.message
	case t.asker.cannotReserve && queue.Policy(q.object.Spec.Policy) == queue.EASY:
		ready.Reason, ready.Message = v1alpha1.ReasonCannotReserve, "spec.policy: \"easy\": the matcher's engine cannot promise room, so the first job has no promise, and others pass it; use fcfs"
	}
	status.Conditions = []metav1.Condition{ready}
	if q.defaultTaken != "" {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDefaultOverlaps, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDefaultTaken, Message: q.defaultTaken, ObservedGeneration: q.object.Generation, LastTransitionTime: metav1.NewTime(now)})
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if was := meta.FindStatusCondition(q.object.Status.Conditions, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	return status
}

// tick has the statuses of Queues written that have changed, and counts.
func (t *teller) tick(now time.Time) {
	for name, q := range t.asker.queues {
		s, ok := t.core.Summary(name)
		if !ok {
			continue
		}
		t.metrics.queue(name, s, now)
		status := t.status(q, s, now)
		if sameStatus(status, t.statuses[name]) || t.statuses[name] == nil && sameStatus(status, &q.object.Status) {
			t.statuses[name] = status
			continue
		}
		t.statuses[name] = status
		t.writer.addQueue(q.object, status)
	}
}

// queueChanged makes the status of a Queue be compared with what the Queue says.
func (t *teller) queueChanged(name string) { delete(t.statuses, name) }

// queueGone forgets a Queue.
func (t *teller) queueGone(name string) {
	delete(t.statuses, name)
	t.metrics.forget(name)
}
