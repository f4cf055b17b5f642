package fluence

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// podGroupAPI serves PodGroups as an API server would, without a network, because
// the time of a bubble does not pass while a goroutine waits for a network.
type podGroupAPI struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*scheduling.PodGroup
	version int
	watches []*io.PipeWriter
	writes  []write
	// broken answers a write instead of the API server.
	broken func(n int) error
}

// write is a status that was applied, whether or not the API accepted it.
type write struct {
	uid       types.UID
	manager   string
	force     string
	condition metav1.Condition
}

func newPodGroupAPI() *podGroupAPI {
	return &podGroupAPI{objects: map[types.NamespacedName]*scheduling.PodGroup{}}
}

// put creates a PodGroup or replaces it by another.
func (a *podGroupAPI) put(pg *scheduling.PodGroup) {
	a.mu.Lock()
	k := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	kind := "MODIFIED"
	if a.objects[k] == nil {
		kind = "ADDED"
	}
	a.objects[k] = pg
	a.mu.Unlock()
	a.sendEvent(kind, pg)
}

func (a *podGroupAPI) drop(k types.NamespacedName) {
	a.mu.Lock()
	pg := a.objects[k]
	delete(a.objects, k)
	a.mu.Unlock()
	a.sendEvent("DELETED", pg)
}

// sendEvent sends an event to all watches.
func (a *podGroupAPI) sendEvent(kind string, pg *scheduling.PodGroup) {
	a.mu.Lock()
	a.version++
	// Other goroutines may read the old object.
	pg = pg.DeepCopy()
	if k := (types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}); kind != "DELETED" && a.objects[k] != nil {
		a.objects[k] = pg
	}
	pg.ResourceVersion = strconv.Itoa(a.version)
	pg.TypeMeta = metav1.TypeMeta{APIVersion: scheduling.GroupVersion.String(), Kind: "PodGroup"}
	line := encode(map[string]any{"type": kind, "object": pg})
	watches := slices.Clone(a.watches)
	a.mu.Unlock()
	for _, w := range watches {
		// A watch that was stopped has no reader.
		_, _ = w.Write(line)
	}
}

// interrupt ends all watches.
func (a *podGroupAPI) interrupt() {
	a.mu.Lock()
	watches := a.watches
	a.watches = nil
	a.mu.Unlock()
	for _, w := range watches {
		_ = w.Close()
	}
}

func (a *podGroupAPI) get(k types.NamespacedName) *scheduling.PodGroup {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[k]
}

// written returns the writes so far.
func (a *podGroupAPI) written() []write {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

// forget forgets the writes so far.
func (a *podGroupAPI) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes = nil
}

// RoundTrip lists, watches and applies.
func (a *podGroupAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPatch:
		return a.apply(r), nil
	case q.Get("sendInitialEvents") != "":
		return failed(apierrors.NewInvalid(scheduling.GroupVersion.WithKind("PodGroup").GroupKind(), "", nil)), nil
	case q.Get("watch") != "":
		reader, writer := io.Pipe()
		a.mu.Lock()
		a.watches = append(a.watches, writer)
		a.mu.Unlock()
		return response(http.StatusOK, reader), nil
	default:
		a.mu.Lock()
		defer a.mu.Unlock()
		list := scheduling.PodGroupList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
		list.TypeMeta = metav1.TypeMeta{APIVersion: scheduling.GroupVersion.String(), Kind: "PodGroupList"}
		for _, pg := range a.objects {
			list.Items = append(list.Items, *pg)
		}
		return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(list)))), nil
	}
}

// apply answers a server-side apply of a status.
func (a *podGroupAPI) apply(r *http.Request) *http.Response {
	var body struct {
		Metadata metav1.ObjectMeta
		Status   struct {
			Conditions []metav1.Condition
			Seats      map[string]map[string]int32
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return failed(apierrors.NewBadRequest(err.Error()))
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	k := types.NamespacedName{Namespace: parts[4], Name: parts[6]}
	resource := scheduling.PodGroups.GroupResource()
	a.mu.Lock()
	w := write{uid: body.Metadata.UID, manager: r.URL.Query().Get("fieldManager"), force: r.URL.Query().Get("force")}
	if len(body.Status.Conditions) > 0 {
		w.condition = body.Status.Conditions[0]
	}
	a.writes = append(a.writes, w)
	pg, broken, n := a.objects[k], a.broken, len(a.writes)
	a.mu.Unlock()
	if broken != nil {
		if err := broken(n); err != nil {
			return failed(err)
		}
	}
	switch {
	case pg == nil:
		return failed(apierrors.NewNotFound(resource, k.Name))
	case pg.UID != body.Metadata.UID:
		return failed(otherUID(resource, k.Name))
	}
	pg = pg.DeepCopy()
	if w.manager == seatsManager {
		pg.Status.Seats = body.Status.Seats
		meta.RemoveStatusCondition(&pg.Status.Conditions, scheduling.ConditionSeatsHeld)
		pg.Status.Conditions = append(pg.Status.Conditions, body.Status.Conditions...)
		a.put(pg)
		return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(pg))))
	}
	if w.manager == eviction.FieldManager {
		meta.RemoveStatusCondition(&pg.Status.Conditions, eviction.ConditionPreempted)
		pg.Status.Conditions = append(pg.Status.Conditions, body.Status.Conditions...)
		a.put(pg)
		pg.TypeMeta = metav1.TypeMeta{APIVersion: scheduling.GroupVersion.String(), Kind: "PodGroup"}
		return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(pg))))
	}
	for _, own := range []string{report.ConditionScheduled, report.ConditionWholeNodes} {
		// A field that its manager does not apply any more
		// is removed, and a field that it applies is set.
		meta.RemoveStatusCondition(&pg.Status.Conditions, own)
	}
	pg.Status.Conditions = append(pg.Status.Conditions, body.Status.Conditions...)
	a.put(pg)
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(pg))))
}

func failed(err error) *http.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return response(int(s.Code), io.NopCloser(bytes.NewReader(encode(s))))
}

func response(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Body: body,
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

// recorder records events.
type recorder struct {
	mu     sync.Mutex
	events []event
	// onEvent, if set, is called for every event.
	onEvent func()
}

type event struct{ kind, name, reason, message, eventType string }

func (r *recorder) Eventf(regarding, _ runtime.Object, eventtype, reason, _, note string, args ...any) {
	e := event{reason: reason, eventType: eventtype, message: note}
	if len(args) == 1 {
		e.message = args[0].(string)
	}
	switch o := regarding.(type) {
	case *corev1.ObjectReference:
		e.kind, e.name = o.Kind, o.Name
	case *corev1.Pod:
		e.kind, e.name = "Pod", o.Name
	}
	r.mu.Lock()
	r.events = append(r.events, e)
	told := r.onEvent
	r.mu.Unlock()
	if told != nil {
		told()
	}
}

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// of returns the events about objects of one kind.
func (r *recorder) of(kind string) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []event
	for _, e := range r.events {
		if e.kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// forget forgets the events so far.
func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}
