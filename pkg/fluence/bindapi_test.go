package fluence

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bindAPI accepts binds and events as the API server does.
type bindAPI struct {
	rig *rig

	mu sync.Mutex
	// takes is how long a bind takes. answer, unless it is nil, returns the answer
	// instead of a bind. An answer of 429 is in plain text, as flow control gives it.
	takes  time.Duration
	answer func(pod string) *http.Response
	// binds and sent are the accepted binds and events, in
	// order. most is the largest number of binds at a time.
	binds   []string
	sent    []sentEvent
	now     int
	most    int
	refused int
}

// sentEvent is an event and the time when it was sent.
type sentEvent struct {
	pod, reason, note string
	at, made          time.Time
}

// tooMany returns the answer with which flow control refuses a request.
func tooMany(after string) *http.Response {
	r := response(http.StatusTooManyRequests, http.NoBody)
	r.Header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Retry-After": {after}}
	return r
}

// RoundTrip accepts a bind or an event.
func (a *bindAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	name := parts[len(parts)-2]
	if parts[len(parts)-1] == "events" {
		return a.event(r), nil
	}
	if parts[len(parts)-1] != "binding" {
		return failed(apierrors.NewBadRequest("no such request: " + r.URL.Path)), nil
	}
	var b corev1.Binding
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		return failed(apierrors.NewBadRequest(err.Error())), nil
	}
	a.mu.Lock()
	a.now++
	a.most = max(a.most, a.now)
	takes, answer := a.takes, a.answer
	a.mu.Unlock()
	time.Sleep(takes)
	a.mu.Lock()
	a.now--
	a.mu.Unlock()
	if answer != nil {
		if refused := answer(name); refused != nil {
			a.mu.Lock()
			a.refused++
			a.mu.Unlock()
			return refused, nil
		}
	}
	return a.bind(&b), nil
}

func (a *bindAPI) bind(b *corev1.Binding) *http.Response {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	// The fake client holds its lock while it patches a pod.
	a.rig.client.Lock()
	defer a.rig.client.Unlock()
	obj, err := a.rig.client.Tracker().Get(pods, b.Namespace, b.Name)
	if err != nil {
		return failed(apierrors.NewNotFound(pods.GroupResource(), b.Name))
	}
	pod := obj.(*corev1.Pod).DeepCopy()
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return failed(apierrors.NewConflict(pods.GroupResource(), b.Name, fmt.Errorf("pod is already assigned to node %q", pod.Spec.NodeName)))
	}
	pod.Spec.NodeName = b.Target.Name
	pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }),
		corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))})
	if err := a.rig.client.Tracker().Update(pods, pod, b.Namespace); err != nil {
		return failed(apierrors.NewInternalError(err))
	}
	a.mu.Lock()
	a.binds = append(a.binds, b.Name)
	a.mu.Unlock()
	return response(http.StatusCreated, http.NoBody)
}

func (a *bindAPI) event(r *http.Request) *http.Response {
	var e eventsv1.Event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return failed(apierrors.NewBadRequest(err.Error()))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answer != nil {
		if refused := a.answer(e.Regarding.Name + " event"); refused != nil {
			return refused
		}
	}
	a.sent = append(a.sent, sentEvent{pod: e.Regarding.Name, reason: e.Reason, note: e.Note, at: time.Now(), made: e.EventTime.Time})
	return response(http.StatusCreated, http.NoBody)
}

// bound returns the pods that were bound, in order.
func (a *bindAPI) bound() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.binds)
}

// events returns the events that were sent.
func (a *bindAPI) events() []sentEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sent)
}

// forget forgets the binds and events so far.
func (a *bindAPI) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.binds, a.sent = nil, nil
}

// set changes how requests are answered.
func (a *bindAPI) set(takes time.Duration, answer func(pod string) *http.Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takes, a.answer = takes, answer
}
