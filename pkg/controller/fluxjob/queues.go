package fluxjob

import (
	"context"
	"fmt"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// Queues answers from a cache which queues there are. Until the API server serves Queues and FluxJobs, and the
// controller may watch them, there are none.
type Queues struct {
	reader    client.Reader
	informers cache.Informers
	scheduler string
	served    atomic.Bool
}

// namespaceMetadata is a namespace as the cache has it.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return ns
}

// start lists and watches queues and namespaces. It returns when they have been listed.
func (q *Queues) start(ctx context.Context) error {
	for _, obj := range []client.Object{&v1alpha1.Queue{}, namespaceMetadata()} {
		if _, err := q.informers.GetInformer(ctx, obj); err != nil {
			return fmt.Errorf("watch queues and namespaces: %w", err)
		}
	}
	q.served.Store(true)
	return nil
}

// Served reports whether queues and FluxJobs are watched: without that nobody lets a workload go again.
func (q *Queues) Served() bool { return q != nil && q.served.Load() }

// Admitted reports whether there is a FluxJob of a key that has nodes until a time: then that time ends its pods.
func (q *Queues) Admitted(ctx context.Context, key types.NamespacedName) bool {
	var fj v1alpha1.FluxJob
	return q.Served() && q.reader.Get(ctx, key, &fj, client.UnsafeDisableDeepCopy) == nil && fj.Status.Allocation != nil && fj.Status.Allocation.End != nil
}

// Get returns a Queue, which the caller does not change. It returns nil if there is none.
func (q *Queues) Get(ctx context.Context, name string) *v1alpha1.Queue {
	var queue v1alpha1.Queue
	if !q.Served() || name == "" || q.reader.Get(ctx, types.NamespacedName{Name: name}, &queue, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return &queue
}

// Default returns the queue for the Jobs of a namespace that name none: the oldest of those that select the namespace. It
// returns nil if there is none.
func (q *Queues) Default(ctx context.Context, namespace string) *v1alpha1.Queue {
	var all v1alpha1.QueueList
	if !q.Served() || q.reader.List(ctx, &all, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var oldest *v1alpha1.Queue
	for i := range all.Items {
		queue := &all.Items[i]
		if queue.Spec.DefaultFor == nil || !q.selects(ctx, queue.Spec.DefaultFor, namespace) {
			continue
		}
		if oldest == nil || v1alpha1.CompareAge(queue, oldest) < 0 {
			oldest = queue
		}
	}
	return oldest
}

// Allows reports whether the jobs of a namespace may use a queue.
func (q *Queues) Allows(ctx context.Context, queue *v1alpha1.Queue, namespace string) bool {
	return queue.Spec.NamespaceSelector != nil && q.selects(ctx, queue.Spec.NamespaceSelector, namespace)
}

// selects reports whether a selector selects a namespace.
func (q *Queues) selects(ctx context.Context, s *metav1.LabelSelector, namespace string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return false // the condition Ready of the Queue tells
	}
	ns := namespaceMetadata()
	if err := q.reader.Get(ctx, types.NamespacedName{Name: namespace}, ns, client.UnsafeDisableDeepCopy); err != nil {
		klog.FromContext(ctx).V(4).Info("Cannot read a namespace", "namespace", namespace, "reason", err)
		return false
	}
	return selector.Matches(labels.Set(ns.Labels))
}

// Holds reports whether a Job waits in a queue, or has room from one: it starts when it is its turn, and not before.
func (q *Queues) Holds(owner *unstructured.Unstructured) bool {
	var job batchv1.Job
	if !q.Served() || owner.GroupVersionKind() != batchv1.SchemeGroupVersion.WithKind(jobKind) || runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &job) != nil {
		return false
	}
	w := ofJob(&job, q.scheduler)
	return w.queue != "" && w.foreign == ""
}
