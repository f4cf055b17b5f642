package fluence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// queueAPI serves Queues and FluxJobs as an API server would, once it is turned on.
type queueAPI struct {
	mu      sync.Mutex
	on      bool
	objects map[string]map[types.NamespacedName]runtime.Object // by resource
	version int
	watches map[string][]*io.PipeWriter
	// forbidden forbids all requests.
	forbidden bool
}

func newQueueAPI() *queueAPI {
	return &queueAPI{
		objects: map[string]map[types.NamespacedName]runtime.Object{v1alpha1.Queues.Resource: {}, v1alpha1.FluxJobs.Resource: {}},
		watches: map[string][]*io.PipeWriter{},
	}
}

// put creates an object or replaces it by another.
func (a *queueAPI) put(obj runtime.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(obj)
}

// set is put with the lock held. It returns the object as it is stored.
func (a *queueAPI) set(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	resource, kind := v1alpha1.Queues.Resource, "Queue"
	if _, is := obj.(*v1alpha1.FluxJob); is {
		resource, kind = v1alpha1.FluxJobs.Resource, "FluxJob"
	}
	a.version++
	m.SetResourceVersion(strconv.Itoa(a.version))
	obj.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	key, change := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, "ADDED"
	if a.objects[resource][key] != nil {
		change = "MODIFIED"
	}
	a.objects[resource][key] = obj
	for _, w := range a.watches[resource] {
		_, _ = w.Write(encode(map[string]any{"type": change, "object": obj}))
	}
	return obj
}

// drop deletes a FluxJob.
func (a *queueAPI) drop(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := v1alpha1.FluxJobs.Resource
	obj := a.objects[resource][key]
	delete(a.objects[resource], key)
	for _, w := range a.watches[resource] {
		_, _ = w.Write(encode(map[string]any{"type": "DELETED", "object": obj}))
	}
}

// job returns a FluxJob. It returns nil if there is none.
func (a *queueAPI) job(key types.NamespacedName) *v1alpha1.FluxJob {
	a.mu.Lock()
	defer a.mu.Unlock()
	fj, _ := a.objects[v1alpha1.FluxJobs.Resource][key].(*v1alpha1.FluxJob)
	return fj
}

// RoundTrip lists, watches, gets and applies.
func (a *queueAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	q, parts := r.URL.Query(), strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[3:] // apis, group, version
	var key types.NamespacedName
	if parts[0] == "namespaces" {
		key.Namespace, parts = parts[1], parts[2:]
	}
	resource := parts[0]
	if len(parts) > 1 {
		key.Name = parts[1]
	}
	gr := v1alpha1.GroupVersion.WithResource(resource).GroupResource()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.on:
		return failed(apierrors.NewNotFound(gr, key.Name)), nil
	case a.forbidden:
		return failed(apierrors.NewForbidden(gr, key.Name, nil)), nil
	case r.Method == http.MethodPatch:
		return a.apply(r, resource, key), nil
	case key.Name != "":
		obj := a.objects[resource][key]
		if obj == nil {
			return failed(apierrors.NewNotFound(gr, key.Name)), nil
		}
		return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(obj)))), nil
	case q.Get("sendInitialEvents") != "":
		return failed(apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(resource).GroupKind(), "", nil)), nil
	case q.Get("watch") != "":
		reader, writer := io.Pipe()
		a.watches[resource] = append(a.watches[resource], writer)
		return response(http.StatusOK, reader), nil
	}
	kind := "QueueList"
	if resource == v1alpha1.FluxJobs.Resource {
		kind = "FluxJobList"
	}
	list := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)},
		"items": slices.Collect(maps.Values(a.objects[resource])),
	}
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(list)))), nil
}

// apply answers a server-side apply of a status. The caller holds the lock.
func (a *queueAPI) apply(r *http.Request, resource string, key types.NamespacedName) *http.Response {
	obj := a.objects[resource][key]
	if obj == nil {
		return failed(apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource(resource).GroupResource(), key.Name))
	}
	fj, is := obj.DeepCopyObject().(*v1alpha1.FluxJob)
	if !is {
		return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(obj)))) // nobody reads the status of a Queue
	}
	var body v1alpha1.FluxJob
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return failed(apierrors.NewBadRequest(err.Error()))
	}
	if body.UID != fj.UID || body.ResourceVersion != fj.ResourceVersion {
		return failed(apierrors.NewConflict(v1alpha1.FluxJobs.GroupResource(), key.Name, errors.New("the object has been modified")))
	}
	s := &fj.Status
	s.Promise, s.Allocation, s.Requeues = body.Status.Promise, body.Status.Allocation, body.Status.Requeues
	if body.Status.Phase != "" {
		s.Phase = body.Status.Phase
	}
	for _, c := range body.Status.Conditions {
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(encode(a.set(fj)))))
}

// A queuedJob is a Job in a queue, with the FluxJob and the PodGroup that the controller makes.
type queuedJob struct {
	*rig
	name  string
	owner group.Owner
	pods  int
	edit  []func(*corev1.Pod)
}

// serveQueues makes the API server serve queues, with one for all namespaces.
func (r *rig) serveQueues() {
	r.Helper()
	q := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "batch", UID: "uid-batch", Generation: 1, CreationTimestamp: metav1.Now()},
		Spec:       v1alpha1.QueueSpec{Policy: v1alpha1.EASY, NamespaceSelector: &metav1.LabelSelector{}, Grace: "0s"},
	}
	r.queues.mu.Lock()
	r.queues.on = true
	r.queues.mu.Unlock()
	r.queues.put(q)
}

// submit makes a suspended Job of some pods with 8 CPUs each in the queue batch, as the controller leaves it. The edits are of its
// pods.
func (r *rig) submit(name string, pods int, duration string, edit ...func(*corev1.Pod)) *queuedJob {
	r.Helper()
	j := &queuedJob{rig: r, name: name, pods: pods, edit: edit, owner: group.Owner{Group: "batch", Kind: "Job", Name: name, UID: types.UID("job-" + name)}}
	r.owners.create("jobs", name, j.owner.UID, group.Owner{})
	r.owners.editJob(name, func(job *batchv1.Job) {
		job.Spec.Parallelism, job.Spec.Completions = new(int32(pods)), new(int32(pods))
	})
	pg := aPodGroup(j.owner.PodGroupName(), int32(pods), types.UID("pg-"+name))
	r.podGroupAPI.put(pg)
	j.file(duration)
	return j
}

// file makes its FluxJob.
func (j *queuedJob) file(duration string) {
	j.Helper()
	r, name, pods, pod := j.rig, j.name, j.pods, j.pod(0)
	text, err := translate.Jobspec([]translate.ShapeRequest{{Label: "shape0", Amounts: translate.Requests(pod), Min: int64(pods), Max: int64(pods)}}).EncodeYAML()
	r.must(err)
	fj := &v1alpha1.FluxJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: j.owner.PodGroupName(), UID: types.UID("fj-" + name), Generation: 1, CreationTimestamp: metav1.Now()},
		Spec: v1alpha1.FluxJobSpec{
			Queue: "batch", Workload: v1alpha1.WorkloadReference{APIVersion: strings.TrimPrefix(j.owner.Group+"/v1", "/"), Kind: j.owner.Kind, Name: j.owner.Name, UID: j.owner.UID},
			Jobspec: string(text), Pods: int32(pods), Requests: pod.Spec.Containers[0].Resources.Requests, Duration: duration,
		},
		Status: v1alpha1.FluxJobStatus{
			Phase: v1alpha1.Requested, CreationTime: new(metav1.NowMicro()),
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid}},
		},
	}
	if p := pod.Spec.Priority; p != nil {
		fj.Spec.Priority = *p
	}
	r.queues.put(fj)
	r.pass(time.Second)
}

// submitPod is submit for a pod that nothing controls. release makes it, because a gate is of no interest here.
func (r *rig) submitPod(name, duration string, edit ...func(*corev1.Pod)) *queuedJob {
	r.Helper()
	j := &queuedJob{rig: r, name: name, pods: 1, owner: group.Owner{Kind: "Pod", Name: name + "-0", UID: types.UID(name + "-0")}}
	j.edit = slices.Concat(edit, []func(*corev1.Pod){func(p *corev1.Pod) { p.OwnerReferences = nil }})
	j.file(duration)
	return j
}

// key is the key of its FluxJob and of its PodGroup.
func (j *queuedJob) key() types.NamespacedName {
	return types.NamespacedName{Namespace: ns, Name: j.owner.PodGroupName()}
}

// pod returns the pod with a number.
func (j *queuedJob) pod(n int) *corev1.Pod {
	return objects.Pod(fmt.Sprintf("%s-%d", j.name, n), objects.CPU("8"), withoutGrace, inQueue, controlledBy("batch/v1", "Job", j.name, j.owner.UID), objects.All(j.edit...))
}

// inQueue gives a pod the label of the queue.
func inQueue(p *corev1.Pod) { p.Labels = map[string]string{group.QueueLabel: "batch"} }

// make creates the pods with these numbers.
func (j *queuedJob) make(numbers ...int) {
	j.Helper()
	for _, n := range numbers {
		j.add(j.pod(n))
	}
}

// edits changes its FluxJob.
func (j *queuedJob) edits(edit func(*v1alpha1.FluxJob)) {
	j.Helper()
	fj := j.queues.job(j.key()).DeepCopy()
	edit(fj)
	j.queues.put(fj)
}

// admitted gives the job nodes, one pod on each, as an earlier scheduler has. The controller has let it go.
func (j *queuedJob) admitted(hosts string) {
	j.Helper()
	j.edits(func(fj *v1alpha1.FluxJob) {
		now := time.Now()
		d, err := v1alpha1.DurationOf(&fj.Spec, nil)
		j.must(err)
		fj.Status.Phase = v1alpha1.Running
		fj.Status.Allocation = &v1alpha1.JobAllocation{
			Attempt: 1, At: metav1.NewMicroTime(now), End: &metav1.Time{Time: now.Add(d)}, Seats: []v1alpha1.Seats{{Hosts: hosts, Each: 1}},
		}
		meta.SetStatusCondition(&fj.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted})
	})
}

// release does what the controller does with a job that was admitted, and makes its pods.
func (j *queuedJob) release() {
	j.Helper()
	if j.queues.job(j.key()).Status.Allocation == nil {
		j.Fatalf("job %s has no allocation: %q", j.name, j.says())
	}
	j.edits(func(fj *v1alpha1.FluxJob) { fj.Status.Phase, fj.Status.Promise = v1alpha1.Running, nil })
	for n := range j.pods {
		j.make(n)
	}
	j.pass(time.Second)
}

// says returns the reason and the message with which the job waits, or has its room.
func (j *queuedJob) says() string {
	c := meta.FindStatusCondition(j.queues.job(j.key()).Status.Conditions, v1alpha1.ConditionAdmitted)
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// room returns the nodes of its allocation, as "n[0-1]*1".
func (j *queuedJob) room() string {
	a := j.queues.job(j.key()).Status.Allocation
	if a == nil {
		return ""
	}
	var parts []string
	for _, s := range a.Seats {
		parts = append(parts, fmt.Sprintf("%s*%d", s.Hosts, s.Each))
	}
	return strings.Join(parts, " ")
}

// finish ends the job: its Job is complete, and its pods are gone.
func (j *queuedJob) finish() {
	j.Helper()
	j.owners.editJob(j.name, func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	})
	j.edits(func(fj *v1alpha1.FluxJob) { fj.Status.Phase, fj.Status.Result = v1alpha1.Finished, v1alpha1.Succeeded })
	j.removePods()
}

// removePods deletes the pods of the Job, as the Job controller does when it is suspended. A single pod stays.
func (j *queuedJob) removePods() {
	j.Helper()
	list, err := j.client.CoreV1().Pods(ns).List(j.ctx, metav1.ListOptions{})
	j.must(err)
	for _, pod := range list.Items {
		if group.ControllerOf(&pod).UID == j.owner.UID {
			j.remove(pod.Name)
		}
	}
}
