package fluence

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// podAPI serves the writes of the evictor to pods.
type podAPI struct {
	rig *rig

	mu sync.Mutex
	// grace is how long pods take to end. With zero they go at once. They go so much later than they are due.
	grace, late time.Duration
	// answer, unless it is nil, may return an answer to a deletion instead of carrying it out.
	answer func(pod string) *http.Response
	// deletions are the pods whose deletion was accepted, in order.
	deletions []string
}

// deleted returns the pods that were deleted, sorted.
func (a *podAPI) deleted() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(slices.Values(a.deletions))
}

// serves reports whether a request is one of the evictor's.
func (a *podAPI) serves(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/v1/") && (r.Method == http.MethodPatch || r.Method == http.MethodDelete)
}

// RoundTrip patches the conditions of a pod, or deletes it.
func (a *podAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	namespace, name := parts[3], parts[5]
	if r.Method == http.MethodDelete {
		return a.delete(r, namespace, name), nil
	}
	patch, err := io.ReadAll(r.Body)
	var body struct{ Metadata metav1.ObjectMeta }
	if err = errors.Join(err, json.Unmarshal(patch, &body)); err != nil {
		return failed(apierrors.NewBadRequest(err.Error())), nil
	}
	return a.change(namespace, name, &body.Metadata.UID, func(p *corev1.Pod) {
		merged, err := strategicpatch.StrategicMergePatch(encode(p), patch, corev1.Pod{})
		if err != nil {
			panic(err)
		}
		*p = corev1.Pod{}
		if err := json.Unmarshal(merged, p); err != nil {
			panic(err)
		}
	}), nil
}

func (a *podAPI) delete(r *http.Request, namespace, name string) *http.Response {
	var o metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return failed(apierrors.NewBadRequest(err.Error()))
	}
	a.mu.Lock()
	grace, late, answer := a.grace, a.late, a.answer
	a.mu.Unlock()
	if answer != nil {
		if refused := answer(name); refused != nil {
			return refused
		}
	}
	begun := a.change(namespace, name, o.Preconditions.UID, func(p *corev1.Pod) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(grace)}
	})
	if begun.StatusCode != http.StatusOK {
		return begun
	}
	a.mu.Lock()
	a.deletions = append(a.deletions, name)
	a.mu.Unlock()
	time.AfterFunc(grace+late, func() {
		a.rig.client.Lock()
		defer a.rig.client.Unlock()
		_ = a.rig.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), namespace, name)
	})
	return begun
}

// change changes the pod of a name, if it has this UID.
func (a *podAPI) change(namespace, name string, uid *types.UID, edit func(*corev1.Pod)) *http.Response {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	// The fake client holds its lock while it patches a pod.
	a.rig.client.Lock()
	defer a.rig.client.Unlock()
	obj, err := a.rig.client.Tracker().Get(pods, namespace, name)
	if err != nil {
		return failed(apierrors.NewNotFound(pods.GroupResource(), name))
	}
	pod := obj.(*corev1.Pod).DeepCopy()
	if uid == nil || pod.UID != *uid {
		return failed(otherUID(pods.GroupResource(), name))
	}
	edit(pod)
	if err := a.rig.client.Tracker().Update(pods, pod, namespace); err != nil {
		return failed(apierrors.NewInternalError(err))
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(pod))))
}

// otherUID is the answer to a request with the UID of an object that another one has followed.
func otherUID(resource schema.GroupResource, name string) *apierrors.StatusError {
	return apierrors.NewConflict(resource, name, errors.New("Precondition failed: UID in precondition: u-1, UID in object meta: u-2"))
}
