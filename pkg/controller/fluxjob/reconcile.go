package fluxjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// reconciler carries out what decide returns.
type reconciler struct {
	config Config
	// client reads from the cache, which has what the client has written.
	client client.Client
	// live is the API server itself, without the cache.
	live   client.Reader
	queues *Queues
	events events.EventRecorder
	clock  clock.PassiveClock
	count  *prometheus.CounterVec
	// announcer has the events that tell of new FluxJobs.
	announcer *announcer

	// turn has room for one: the worker that decides and writes a step of which no two may be taken at a time. It is no lock, because
	// it is kept over requests: whoever waits for it has a deadline.
	turn chan struct{}

	mu sync.Mutex
	// told has the text of the last event about each workload that was sent without a write, so that it is sent once.
	told map[types.NamespacedName]string
}

const (
	// maxSteps bounds the writes of one reconcile. No way from one state to the next has more.
	maxSteps = 8
	// goneDelay is the time after which a write is tried again that found no FluxJobs served.
	goneDelay = time.Minute
)

// Reconcile brings one workload and its FluxJob to their wanted state.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.queues.Served() {
		return ctrl.Result{RequeueAfter: goneDelay}, nil
	}
	owner, ok := ownerOf(req.Name)
	if !ok {
		return ctrl.Result{}, r.reject(ctx, req.NamespacedName)
	}
	for range maxSteps {
		o, err := r.observe(ctx, req.Namespace, owner)
		if err != nil {
			return ctrl.Result{}, err
		}
		s := o.decide()
		if s.what == "" {
			r.tell(req.NamespacedName, o, s)
			return ctrl.Result{}, nil
		}
		switch done, err := r.carryOut(ctx, o, s); {
		case apierrors.IsConflict(err):
			return ctrl.Result{RequeueAfter: conflictDelay}, nil
		case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			// An event will tell what is there now, unless FluxJobs are not served any more.
			return ctrl.Result{RequeueAfter: goneDelay}, nil
		case apierrors.IsInvalid(err) && s.create != nil:
			s.events = warning(v1alpha1.ReasonInvalidJobspec, "no FluxJob can be made: %v", err)
			r.tell(req.NamespacedName, o, s)
			return ctrl.Result{RequeueAfter: goneDelay}, nil
		case apierrors.IsForbidden(err) && s.create != nil:
			s.events = warning(v1alpha1.ReasonWriteRefused, "no FluxJob can be made, which is tried again: %v", err)
			r.tell(req.NamespacedName, o, s)
			return ctrl.Result{RequeueAfter: goneDelay}, nil
		case s.workload != nil && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)):
			return ctrl.Result{}, errors.Join(fmt.Errorf("%s: %w", s.what, err), r.tellRefused(ctx, req.NamespacedName, o, s, err))
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("%s: %w", s.what, err)
		case !done && o.workload == nil:
			return ctrl.Result{}, nil // it is there: of another scheduler, or the cache will have it
		case !done:
			return ctrl.Result{RequeueAfter: conflictDelay}, nil
		}
		klog.FromContext(ctx).V(2).Info("Wrote for a workload in a queue", "what", s.what)
		if s.counts != "" {
			r.count.WithLabelValues(s.counts).Inc()
		}
		if s.create != nil {
			r.announce(req, o, s.events)
		} else {
			r.send(o, s.events)
		}
		if s.remove && o.workload == nil {
			return ctrl.Result{}, nil
		}
	}
	return ctrl.Result{RequeueAfter: time.Second}, nil
}

// tellRefused tells users that the API server refuses a change of the workload, such as by a quota or a policy: by an event, and
// by the condition Released. It is tried again, later and later.
func (r *reconciler) tellRefused(ctx context.Context, key types.NamespacedName, o *observation, s step, refused error) error {
	text := clip(fmt.Sprintf("%s: the API server refuses the change of the %s, which is tried again: %v", s.what, o.owner.Kind, refused))
	s.events = []note{{corev1.EventTypeWarning, v1alpha1.ReasonWriteRefused, text}}
	r.tell(key, o, s)
	fj := refusedOf(o, text)
	if fj == nil {
		return nil
	}
	return r.client.Status().Patch(ctx, fj, client.MergeFromWithOptions(o.fluxJob, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager))
}

// observe reads what is known of a workload, from the cache.
func (r *reconciler) observe(ctx context.Context, namespace string, owner group.Owner) (*observation, error) {
	o := &observation{now: r.clock.Now(), owner: owner}
	key := types.NamespacedName{Namespace: namespace, Name: owner.Name}
	obj := emptyOf(owner)
	switch err := r.client.Get(ctx, key, obj); {
	case err == nil && obj.GetUID() == owner.UID:
		o.workload = r.read(obj)
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("get %s %s: %w", owner.Kind, owner.Name, err)
	}
	var fj v1alpha1.FluxJob
	switch err := r.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: owner.PodGroupName()}, &fj); {
	case err == nil:
		o.fluxJob = &fj
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get the FluxJob: %w", err)
	}
	if o.workload == nil {
		return o, nil
	}
	if !o.workload.labelled && o.workload.isJob() {
		if queue := r.queues.Default(ctx, namespace); queue != nil && !obj.GetCreationTimestamp().Time.Before(queue.CreationTimestamp.Time) {
			o.byDefault = queue.Name
		}
	}
	name := o.wantedQueue()
	switch {
	case o.fluxJob == nil && (name == "" || o.workload.foreign != ""), o.fluxJob != nil && o.fluxJob.Status.Phase == v1alpha1.Finished:
		return o, nil // nothing of the queue matters: most Jobs of a cluster are in none
	case o.fluxJob != nil:
		name = o.fluxJob.Spec.Queue
	}
	o.queue = r.queues.Get(ctx, name)
	o.seats = func() []v1alpha1.Seats { return r.seatsOf(ctx, namespace, owner.UID) }
	o.allowed = func() bool { return r.queues.Allows(ctx, o.queue, namespace) }
	o.others = func() (usage, error) { return r.usageOf(ctx, name, namespace, owner.PodGroupName()) }
	return o, r.setPriority(ctx, o)
}

// emptyOf returns an empty object of the kind of a workload.
func emptyOf(o group.Owner) client.Object {
	if o.Kind == jobKind {
		return &batchv1.Job{}
	}
	return &corev1.Pod{}
}

// read reads a Job or a pod. It returns nil for a pod that something controls.
func (r *reconciler) read(obj client.Object) *workload {
	switch o := obj.(type) {
	case *batchv1.Job:
		return ofJob(o, r.config.SchedulerName)
	case *corev1.Pod:
		if metav1.GetControllerOfNoCopy(o) == nil {
			return ofPod(o)
		}
	}
	return nil
}

// setPriority finds the priority of the workload's pods. The API server sets that of a pod when it is made.
func (r *reconciler) setPriority(ctx context.Context, o *observation) error {
	spec := &o.workload.asked.template.Spec
	if spec.Priority != nil {
		o.priority = *spec.Priority
		return nil
	}
	if spec.PriorityClassName != "" {
		var class schedulingv1.PriorityClass
		switch err := r.client.Get(ctx, types.NamespacedName{Name: spec.PriorityClassName}, &class, client.UnsafeDisableDeepCopy); {
		case apierrors.IsNotFound(err):
			o.noClass = spec.PriorityClassName
		case err != nil:
			return fmt.Errorf("get PriorityClass %s: %w", spec.PriorityClassName, err)
		}
		o.priority = class.Value
		return nil
	}
	var all schedulingv1.PriorityClassList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list PriorityClasses: %w", err)
	}
	// Of several defaults the API server takes the lowest (plugin Priority of kube-apiserver).
	found := false
	for i := range all.Items {
		if c := &all.Items[i]; c.GlobalDefault && (!found || c.Value < o.priority) {
			o.priority, found = c.Value, true
		}
	}
	return nil
}

// seatsOf returns the nodes on which a Job has pods that have not ended.
func (r *reconciler) seatsOf(ctx context.Context, namespace string, job types.UID) []v1alpha1.Seats {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list the pods of a Job")
		return nil
	}
	on := map[string]int32{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.UID == job && pod.Spec.NodeName != "" && podEnding(pod) == nil {
			on[pod.Spec.NodeName]++
		}
	}
	return seatsOn(on)
}

// carryOut carries out a step. done is false if the workload is not what it was decided for.
func (r *reconciler) carryOut(ctx context.Context, o *observation, s step) (done bool, err error) {
	if s.alone {
		select {
		case r.turn <- struct{}{}:
			defer func() { <-r.turn }()
		case <-ctx.Done():
			return false, fmt.Errorf("wait for other workloads: %w", ctx.Err())
		}
		// What was written before this turn counts: the cache has it.
		if o, err = r.observe(ctx, o.workload.object.GetNamespace(), o.owner); err != nil {
			return false, err
		}
		if s = o.decide(); !s.alone {
			return false, nil
		}
	}
	if s.verify {
		current := r.hasWorkload
		if s.workload != nil {
			current = r.hasFluxJob
		}
		if same, err := current(ctx, o); err != nil || !same {
			return false, err
		}
	}
	manager := client.FieldOwner(FieldManager)
	switch fj := o.fluxJob; {
	case s.create != nil:
		return true, r.client.Create(ctx, s.create, manager)
	case s.spec != nil:
		return true, r.client.Patch(ctx, s.spec, client.MergeFromWithOptions(fj, client.MergeFromWithOptimisticLock{}), manager)
	case s.status != nil:
		return true, r.client.Status().Patch(ctx, s.status, client.MergeFromWithOptions(fj, client.MergeFromWithOptimisticLock{}), manager)
	case s.remove:
		uid, version := fj.UID, fj.ResourceVersion
		return true, client.IgnoreNotFound(r.client.Delete(ctx, fj, client.Preconditions{UID: &uid, ResourceVersion: &version}))
	default:
		return true, r.patchWorkload(ctx, o.workload, s.workload)
	}
}

// patchWorkload patches the version of a workload that was read.
func (r *reconciler) patchWorkload(ctx context.Context, w *workload, p patch) error {
	metadata, _ := p["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = w.owner.UID, w.object.GetResourceVersion()
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	obj := emptyOf(w.owner)
	obj.SetNamespace(w.object.GetNamespace())
	obj.SetName(w.owner.Name)
	return r.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager))
}

// hasFluxJob reports whether the API server has the FluxJob that was observed, or none if there was none.
func (r *reconciler) hasFluxJob(ctx context.Context, o *observation) (bool, error) {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FluxJob"))
	switch err := r.live.Get(ctx, types.NamespacedName{Namespace: o.workload.object.GetNamespace(), Name: o.owner.PodGroupName()}, obj); {
	case apierrors.IsNotFound(err):
		return o.fluxJob == nil, nil
	case err != nil:
		return false, fmt.Errorf("get the FluxJob: %w", err)
	}
	return o.fluxJob != nil && obj.GetResourceVersion() == o.fluxJob.ResourceVersion, nil
}

// hasWorkload reports whether the API server has the workload that was observed, or none if there was none.
func (r *reconciler) hasWorkload(ctx context.Context, o *observation) (bool, error) {
	owner := o.owner
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(podKind))
	if owner.Kind == jobKind {
		obj.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind(jobKind))
	}
	switch err := r.live.Get(ctx, types.NamespacedName{Namespace: o.fluxJob.Namespace, Name: owner.Name}, obj); {
	case apierrors.IsNotFound(err) || err == nil && obj.GetUID() != owner.UID:
		return o.workload == nil, nil
	case err != nil:
		return false, fmt.Errorf("get %s %s: %w", owner.Kind, owner.Name, err)
	}
	return o.workload != nil && obj.GetResourceVersion() == o.workload.object.GetResourceVersion(), nil
}

// reject deletes a FluxJob that somebody else than the controller has made: no workload would use its room. If a finalizer keeps the
// object, the job has ended all the same.
func (r *reconciler) reject(ctx context.Context, key types.NamespacedName) error {
	var fj v1alpha1.FluxJob
	if err := r.client.Get(ctx, key, &fj); err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, is := requestOf(&fj); is {
		return nil
	}
	if fj.DeletionTimestamp != nil {
		s := (&observation{now: r.clock.Now(), fluxJob: &fj}).giveUp()
		if s.status == nil {
			return nil
		}
		return client.IgnoreNotFound(r.client.Status().Patch(ctx, s.status, client.MergeFrom(&fj), client.FieldOwner(FieldManager)))
	}
	r.events.Eventf(&fj, nil, corev1.EventTypeWarning, v1alpha1.ReasonNotAllowed, "Delete", "spec.workload: %s %s (UID %s): a FluxJob has the name of the PodGroup of its workload; this one is deleted", fj.Spec.Workload.Kind, fj.Spec.Workload.Name, fj.Spec.Workload.UID)
	return client.IgnoreNotFound(r.client.Delete(ctx, &fj, client.Preconditions{UID: new(fj.UID)}))
}

// tell sends the events of a step that writes nothing, unless they are the last that were sent about the workload.
func (r *reconciler) tell(key types.NamespacedName, o *observation, s step) {
	var said strings.Builder
	for _, n := range s.events {
		said.WriteString(n.text)
	}
	text := said.String()
	r.mu.Lock()
	before := r.told[key]
	switch {
	case o.workload == nil || text == "":
		delete(r.told, key)
	default:
		r.told[key] = text
	}
	r.mu.Unlock()
	if text != before {
		r.send(o, s.events)
	}
}

// send sends events about the workload, and about its FluxJob.
func (r *reconciler) send(o *observation, notes []note) {
	for _, n := range notes {
		if o.workload != nil {
			r.events.Eventf(o.workload.object, nil, n.kind, n.reason, n.reason, "%s", n.text)
		}
		if o.fluxJob != nil && n.kind == corev1.EventTypeWarning {
			r.events.Eventf(o.fluxJob, nil, n.kind, n.reason, n.reason, "%s", n.text)
		}
	}
}
