package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fairqueue"
	"github.com/flux-k8s/fluence/pkg/flowcontrol"
	"github.com/flux-k8s/fluence/pkg/pace"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/signal"
	"github.com/flux-k8s/fluence/pkg/translate"
)

const (
	// urgentWriters is how many FluxJobs are written at the same time that others wait for: allocations, promises, and what the first jobs say.
	urgentWriters = 8
	// laterWriters is how many of the others are. A pace bounds their number: a hundred thousand jobs may wait.
	laterWriters = 2
	// retryAfter is after which time a job asks again whose allocation the API server does not take.
	retryAfter = 10 * time.Second
)

// A writer writes FluxJobs and Queues in the background. It writes what they are to say by then, onto the version that was last
// seen. If there is a newer one, the job is looked at again.
type writer struct {
	api      api
	jobs     *jobs
	recorder events.EventRecorder
	metrics  *metrics
	now      func() time.Time
	changed  func(...types.NamespacedName)

	urgent, later workqueue.TypedRateLimitingInterface[types.NamespacedName]
	queues        workqueue.TypedRateLimitingInterface[string]
	// pace bounds the writes of later, more so while many FluxJobs come.
	pace *pace.Pace

	mu sync.Mutex
	// writing are the FluxJobs that are being written.
	writing map[types.NamespacedName]struct{}
	// statuses are those of Queues that are to be written.
	statuses map[string]queueStatus
	// refused is the kind of the last error of a write that the API server does not take.
	refused string
	// pausedUntil is the time before which nothing is written, because the API server is too busy.
	pausedUntil time.Time
}

type queueStatus struct {
	of *v1alpha1.Queue
	*v1alpha1.QueueStatus
}

func newWriter(a api, j *jobs, recorder events.EventRecorder, m *metrics, now func() time.Time, changed func(...types.NamespacedName)) *writer {
	namespace := func(key types.NamespacedName) string { return key.Namespace }
	backoff := func() workqueue.TypedRateLimiter[types.NamespacedName] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 30*time.Second)
	}
	return &writer{
		api: a, jobs: j, recorder: recorder, metrics: m, now: now, changed: changed,
		urgent: fairqueue.New("", backoff(), namespace), later: fairqueue.New("", backoff(), namespace),
		queues:  fairqueue.New("", workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 30*time.Second), func(name string) string { return name }),
		pace:    pace.New(),
		writing: map[types.NamespacedName]struct{}{}, statuses: map[string]queueStatus{},
	}
}

// add has a FluxJob written, soon if it is urgent.
func (w *writer) add(key types.NamespacedName, urgent bool) {
	if urgent {
		w.urgent.Add(key)
	} else {
		w.later.Add(key)
	}
}

// addQueue has the status of a Queue written.
func (w *writer) addQueue(of *v1alpha1.Queue, s *v1alpha1.QueueStatus) {
	w.mu.Lock()
	w.statuses[of.Name] = queueStatus{of, s}
	w.mu.Unlock()
	w.queues.Add(of.Name)
}

// stop ends run. It may be called before run.
func (w *writer) stop() {
	w.urgent.ShutDown()
	w.later.ShutDown()
	w.queues.ShutDown()
}

// run writes until stop is called.
func (w *writer) run(ctx context.Context) {
	var all sync.WaitGroup
	for range urgentWriters {
		all.Go(func() { work(ctx, w.urgent, w.writeJob) })
	}
	for range laterWriters {
		all.Go(func() {
			work(ctx, w.later, func(ctx context.Context, key types.NamespacedName) error {
				if !w.isDue(key) {
					return nil // it takes no turn from others
				}
				if err := w.pace.Wait(ctx); err != nil {
					return nil //nolint:nilerr // ctx has ended
				}
				return w.writeJob(ctx, key)
			})
		})
	}
	all.Go(func() { work(ctx, w.queues, w.writeQueue) })
	all.Wait()
}

// work takes items from a queue until it is shut down. An item for which do fails comes again.
func work[T comparable](ctx context.Context, q workqueue.TypedRateLimitingInterface[T], do func(context.Context, T) error) {
	for {
		item, down := q.Get()
		if down {
			return
		}
		if err := do(ctx, item); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("A write of queues failed; it is tried again", "object", item, "err", err)
			q.AddRateLimited(item)
		} else {
			q.Forget(item)
		}
		q.Done(item)
	}
}

// pause waits while the API server is too busy.
func (w *writer) pause(ctx context.Context) {
	w.mu.Lock()
	until := w.pausedUntil
	w.mu.Unlock()
	if until.After(time.Now()) {
		signal.Wait(ctx, nil, until)
	}
}

// observe counts an error, and pauses if the API server is too busy.
func (w *writer) observe(kind string, err error) {
	after, busy := flowcontrol.RetryAfter(err)
	switch {
	case err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
	case busy:
		w.mu.Lock()
		if until := time.Now().Add(after); until.After(w.pausedUntil) {
			w.pausedUntil = until
		}
		w.mu.Unlock()
	default:
		w.metrics.failed.WithLabelValues(kind).Inc()
	}
}

// begin reports whether a FluxJob may be written: nobody else writes it.
func (w *writer) begin(key types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, is := w.writing[key]; is {
		return false
	}
	w.writing[key] = struct{}{}
	return true
}

func (w *writer) end(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.writing, key)
}

// again is after which time a FluxJob is written that is just being written.
const again = 50 * time.Millisecond

// isDue reports whether a FluxJob is to be read or written.
func (w *writer) isDue(key types.NamespacedName) bool {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	j := w.jobs.byKey[key]
	return j != nil && !j.isOver() && (j.readAgain || saysMore(j, w.now()))
}

// saysMore reports whether a job is to say something else than its FluxJob. What was added because of numbers is written,
// whatever needsWrite says of them. The caller holds jobs.mu.
func saysMore(j *job, now time.Time) bool {
	write, _ := j.needsWrite(true, now)
	return write || j.room == nil && j.message != j.sayMessage && j.sayReason != ""
}

// writeJob writes a FluxJob if it says something else than it is to say.
func (w *writer) writeJob(ctx context.Context, key types.NamespacedName) error {
	w.pause(ctx)
	if !w.begin(key) {
		w.urgent.AddAfter(key, again)
		return nil
	}
	defer w.end(key)
	w.jobs.mu.Lock()
	j := w.jobs.byKey[key]
	if j == nil || j.isOver() {
		w.jobs.mu.Unlock()
		return nil
	}
	if j.readAgain {
		j.readAgain = false
		w.jobs.mu.Unlock()
		err := w.read(ctx, key)
		if err != nil {
			w.jobs.mu.Lock()
			j.readAgain = true
			w.jobs.mu.Unlock()
		}
		return err
	}
	now := w.now()
	if !saysMore(j, now) {
		w.jobs.mu.Unlock()
		return nil
	}
	a, manager := j.toApply(now), report.FieldManager
	if onlyDelay(j) {
		a, manager = j.delayToApply(now), durationManager
	}
	var admits *room
	if j.room != nil && !j.room.written && j.takenBack == 0 {
		admits = j.room
	}
	requeued, said := j.takenBack != 0, j.reason
	j.writtenAt = now
	w.jobs.mu.Unlock()

	fj, err := w.api.apply(ctx, a, manager)
	w.observe(kindFluxJob, err)
	if err != nil {
		return w.failed(ctx, key, a, admits, err)
	}
	w.jobs.mu.Lock()
	if j = w.jobs.answer(fj); j == nil {
		w.jobs.mu.Unlock()
		return nil
	}
	of, queue, needs := j.of, j.queue, false
	needs, _ = j.needsWrite(false, now)
	w.jobs.mu.Unlock()
	if needs {
		w.urgent.Add(key) // it is to say something else by now
	}
	switch {
	case admits != nil:
		w.metrics.admitted.WithLabelValues(queue).Inc()
		w.event(subjectOf(fj, of), corev1.EventTypeNormal, v1alpha1.ReasonAdmitted, "Admit", admittedMessage(admits, now))
	case requeued:
		w.metrics.requeued.WithLabelValues(queue).Inc()
		w.event(subjectOf(fj, of), corev1.EventTypeWarning, v1alpha1.ReasonRequeued, "Requeue", a.Status.Conditions[0].Message)
	default:
		if c := a.Status.Conditions[0]; c.Type == v1alpha1.ConditionAdmitted && c.Reason != said {
			w.eventOfWait(subjectOf(fj, of), c.Reason, translate.Shorten(c.Message))
		}
	}
	w.changed(key)
	return nil
}

// onlyDelay reports whether of a job only the condition Valid is to be written.
func onlyDelay(j *job) bool {
	return j.sayDelay != j.delay && j.takenBack == 0 && (j.room == nil || j.room.written && j.room.end.Equal(j.room.shownEnd))
}

// failed handles a write that has failed. It returns the error if the same is to be written again.
func (w *writer) failed(ctx context.Context, key types.NamespacedName, a *applied, admits *room, err error) error {
	refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
	switch {
	case apierrors.IsNotFound(err):
		// The watch is about to show that it is gone.
	case apierrors.IsConflict(err):
		// An earlier try may have been carried out, whose answer was lost.
		if err := w.read(ctx, key); err != nil {
			return err
		}
	case !refused:
		return err
	case w.isNews(err):
		klog.FromContext(ctx).Error(err, "The API server does not take the status of a FluxJob; the job asks again after a pause", "job", key)
	}
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	j := w.jobs.byKey[key]
	if j == nil || j.uid != a.Metadata.UID {
		return nil
	}
	if admits != nil && j.room == admits && !admits.written {
		if apierrors.IsConflict(err) && j.generation == a.Status.Conditions[0].ObservedGeneration && j.invalidReason == "" {
			// Only its status was written. It asks for the same.
			w.urgent.Add(key)
			return nil
		}
		// The room is given back, and the job asks again.
		w.jobs.giveUp(j)
	}
	if refused {
		j.retryAt = w.now().Add(retryAfter)
		w.jobs.apart[key] = struct{}{}
	}
	w.jobs.markChanged(key)
	signal.Send(w.jobs.wake)
	return nil
}

// read reads a FluxJob again.
func (w *writer) read(ctx context.Context, key types.NamespacedName) error {
	fj, err := w.api.get(ctx, key)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	w.answered(fj)
	return nil
}

// answered records the FluxJob of an answer of the API server.
func (w *writer) answered(fj *v1alpha1.FluxJob) {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	w.jobs.answer(fj)
}

// isNews reports whether an error is of another kind than the last one. The text names the object.
func (w *writer) isNews(err error) bool {
	why := string(apierrors.ReasonForError(err))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused == why {
		return false
	}
	w.refused = why
	return true
}

// A subject is whom an event is about: a version of a FluxJob, and its workload.
type subject struct {
	key     types.NamespacedName
	uid     types.UID
	version string
	of      workload
}

// subjectOf returns whom an event is about that follows from a write of a FluxJob.
func subjectOf(fj *v1alpha1.FluxJob, of workload) subject {
	return subject{types.NamespacedName{Namespace: fj.Namespace, Name: fj.Name}, fj.UID, fj.ResourceVersion, of}
}

// eventOfWait sends an event about a new reason why a job waits, if it is one that does not pass by itself, or a promise. Others
// change often, and for many jobs at once.
func (w *writer) eventOfWait(s subject, because, note string) {
	switch because {
	case v1alpha1.ReasonPromised:
		w.event(s, corev1.EventTypeNormal, because, "Promise", note)
	case v1alpha1.ReasonNeverFits, v1alpha1.ReasonNoQueue, v1alpha1.ReasonNotAllowed, v1alpha1.ReasonUnplaceable, v1alpha1.ReasonInvalidJobspec:
		w.event(s, corev1.EventTypeWarning, because, "Wait", note)
	}
}

// event sends an event to a FluxJob and to its workload, where users look. If the FluxJob was written since the event of this reason
// before it, its version makes it another one: the recorder would count it only, and keep the note of the first.
func (w *writer) event(s subject, kind, reason, action, note string) {
	job := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kindFluxJob, Namespace: s.key.Namespace, Name: s.key.Name, UID: s.uid, ResourceVersion: s.version}
	object := &corev1.ObjectReference{APIVersion: s.of.apiVersion(), Kind: s.of.kind(), Namespace: s.key.Namespace, Name: s.of.name, UID: s.of.uid}
	w.recorder.Eventf(job, object, kind, reason, action, "%s", note)
	w.recorder.Eventf(object, job, kind, reason, action, "%s", note)
}

// writeQueue writes the status of a Queue.
func (w *writer) writeQueue(ctx context.Context, name string) error {
	w.pause(ctx)
	w.mu.Lock()
	s, ok := w.statuses[name]
	delete(w.statuses, name)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	err := w.api.applyQueue(ctx, s.of, s.QueueStatus)
	w.observe(kindQueue, err)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another one of its name
	}
	w.mu.Lock()
	if _, newer := w.statuses[name]; !newer {
		w.statuses[name] = s
	}
	w.mu.Unlock()
	return fmt.Errorf("write the status: %w", err)
}
