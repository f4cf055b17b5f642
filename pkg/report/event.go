package report

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/flowcontrol"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// An EventWriter sends the events of a profile. Binds and the conditions of PodGroups
// go first, because there are as many events as binds and nothing depends on an
// event. An event waits for them for at most maxEventDelay.
type EventWriter struct {
	client rest.Interface
	// controller is the events' reportingController. instance is their reportingInstance.
	controller, instance string
	now                  func() time.Time
	// SendInline says that the event of a bind is sent by the goroutine of the bind,
	// while the bind still counts as in flight.
	SendInline bool
	// BindsIdle returns a channel that is closed once the bind queue is idle.
	BindsIdle func() <-chan struct{}
	// HasPendingConditions reports whether conditions wait to be written, or are being written.
	HasPendingConditions func() bool
	// Dropped is called for each event that is lost.
	Dropped func()
	// Throttled is called for each event that the API server answers with 429, or
	// with 503 and a time to wait.
	Throttled func()

	mu    sync.Mutex
	queue []queuedEvent
	// pausedUntil is the time before which nothing is sent, after an event that could not be sent.
	pausedUntil time.Time
	wakeup      chan struct{}
}

// queuedEvent is an event that waits. An event of a bind is built when it is sent, so
// that it takes little memory until then.
type queuedEvent struct {
	// made is when the event was recorded.
	made time.Time
	// pod is the pod that was bound. It is empty in any other event.
	pod corev1.ObjectReference
	// note is the text of the event of a bind.
	note string
	// viaRecorder passes any other event to kube-scheduler's recorder. It is nil in
	// the event of a bind.
	viaRecorder func()
}

const (
	// maxEvents is how many events wait at most.
	maxEvents = 10_000
	// maxEventDelay is for how long binds and conditions go before an event.
	maxEventDelay = 25 * time.Second
	// eventWorkers is how many events are sent at the same time.
	eventWorkers = 4
	// recorderInterval is the time between two events that a worker passes to the
	// recorder, which starts a goroutine for each.
	recorderInterval = 20 * time.Millisecond
	// lateRecorderInterval replaces recorderInterval after an event that is older than maxEventDelay.
	lateRecorderInterval = 2 * time.Millisecond
	// idleCheckInterval is how often a worker checks whether binds and conditions still go first.
	idleCheckInterval = 50 * time.Millisecond
)

// NewEventWriter returns a writer of the events of a profile. Their reportingInstance is made
// of profile and instance. The exported fields of the writer must be set before it runs.
func NewEventWriter(config *rest.Config, profile, instance string) (*EventWriter, error) {
	client, err := eventsclient.NewForConfig(flowcontrol.Unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("build the client of events: %w", err)
	}
	return &EventWriter{
		client: client.RESTClient(), controller: profile, instance: profile + "-" + instance,
		now: time.Now, wakeup: make(chan struct{}, 1),
	}, nil
}

// queueingRecorder is an event recorder that puts its events into the queue of an EventWriter.
type queueingRecorder struct {
	events.EventRecorderLogger
	writer *EventWriter
}

// WithLogger implements events.EventRecorderLogger.
func (o queueingRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	o.EventRecorderLogger = o.EventRecorderLogger.WithLogger(logger)
	return o
}

// eventScheduled is the reason of the event that kube-scheduler records for a bind.
const eventScheduled = "Scheduled"

// Eventf implements events.EventRecorder.
func (o queueingRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	e := queuedEvent{made: o.writer.now()}
	if pod, ok := regarding.(*corev1.Pod); ok && reason == eventScheduled && eventType == corev1.EventTypeNormal {
		e.note = fmt.Sprintf(note, args...)
		e.pod = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
		if o.writer.SendInline && !o.writer.isPaused() {
			o.writer.sendOrRequeue(context.Background(), e)
			return
		}
	} else {
		e.viaRecorder = func() { o.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, note, args...) }
	}
	o.writer.enqueue(e)
}

// Recorder returns a recorder that puts its events into the writer's queue. Events
// that are not of a bind go from there to own.
func (w *EventWriter) Recorder(own events.EventRecorderLogger) events.EventRecorderLogger {
	return queueingRecorder{EventRecorderLogger: own, writer: w}
}

// enqueue adds an event to the queue. It drops the oldest event if maxEvents wait already.
func (w *EventWriter) enqueue(e queuedEvent) {
	w.mu.Lock()
	lost := len(w.queue) >= maxEvents
	if lost {
		w.queue = w.queue[1:]
	}
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	if lost {
		w.Dropped()
	}
	signal.Send(w.wakeup)
}

// Waiting returns how many events wait.
func (w *EventWriter) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// isPaused reports whether nothing is sent for now.
func (w *EventWriter) isPaused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now().Before(w.pausedUntil)
}

// Run sends events until ctx ends.
func (w *EventWriter) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range eventWorkers {
		workers.Go(func() {
			for {
				e, ok := w.next(ctx)
				if !ok {
					return
				}
				w.sendOrRequeue(ctx, e)
			}
		})
	}
	workers.Wait()
}

// next waits until the oldest event may be sent, and returns it. It returns false when ctx ends.
func (w *EventWriter) next(ctx context.Context) (queuedEvent, bool) {
	for ctx.Err() == nil {
		e, again, ok := w.take()
		if ok {
			signal.Send(w.wakeup) // for another worker
			return e, true
		}
		signal.Wait(ctx, w.wakeup, again)
	}
	return queuedEvent{}, false
}

// take removes and returns the oldest event if it may be sent. Otherwise it returns
// when to try again. Zero means that only a signal brings an event.
func (w *EventWriter) take() (e queuedEvent, retryAt time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	switch {
	case len(w.queue) == 0:
		return e, retryAt, false
	case now.Before(w.pausedUntil):
		return e, w.pausedUntil, false
	}
	if now.Before(w.queue[0].made.Add(maxEventDelay)) && !w.mayGo() {
		return e, now.Add(idleCheckInterval), false
	}
	e = w.queue[0]
	w.queue[0] = queuedEvent{}
	w.queue = w.queue[1:]
	return e, retryAt, true
}

// mayGo reports whether the bind queue is idle and no conditions are pending.
func (w *EventWriter) mayGo() bool {
	select {
	case <-w.BindsIdle():
		return !w.HasPendingConditions()
	default:
		return false
	}
}

// sendOrRequeue sends an event. If the API server does not take it now, sendOrRequeue
// puts it back into the queue and pauses the writer.
func (w *EventWriter) sendOrRequeue(ctx context.Context, e queuedEvent) {
	if e.viaRecorder != nil {
		e.viaRecorder()
		pace := recorderInterval
		if w.now().Sub(e.made) > maxEventDelay {
			pace = lateRecorderInterval
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
		return
	}
	err := w.post(ctx, e)
	after, busy := flowcontrol.RetryAfter(err)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return
	case busy:
		w.Throttled()
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsInternalError(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsTimeout(err):
		// The API server will never take the event, for example because its namespace
		// is being deleted.
		klog.FromContext(ctx).V(2).Info("The API server rejected an event; it is dropped", "pod", klog.KRef(e.pod.Namespace, e.pod.Name), "err", err)
		w.Dropped()
		return
	default:
		after = flowcontrol.DefaultRetryAfter
	}
	w.mu.Lock()
	if until := w.now().Add(after); until.After(w.pausedUntil) {
		w.pausedUntil = until
	}
	lost := len(w.queue) >= maxEvents
	if !lost {
		w.queue = append([]queuedEvent{e}, w.queue...)
	}
	w.mu.Unlock()
	if lost {
		w.Dropped()
	}
	signal.Send(w.wakeup)
}

// post sends the event of a bind once.
func (w *EventWriter) post(ctx context.Context, e queuedEvent) error {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: e.pod.Namespace, Name: recordutil.GenerateEventName(e.pod.Name, e.made.UnixNano())},
		EventTime:           metav1.NewMicroTime(e.made),
		ReportingController: w.controller, ReportingInstance: w.instance,
		Action: "Binding", Reason: eventScheduled, Regarding: e.pod, Note: e.note, Type: corev1.EventTypeNormal,
	}
	err := w.client.Post().Namespace(e.pod.Namespace).Resource("events").
		VersionedParams(&metav1.CreateOptions{}, scheme.ParameterCodec).
		Body(event).MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("create the event of a bind: %w", err)
	}
	return nil
}
