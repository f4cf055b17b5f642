package fluxjob

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/time/rate"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fairqueue"
	"github.com/flux-k8s/fluence/pkg/group"
)

// AddToManager adds the controller to a manager. It runs while the manager is the leader, once the API server serves Queues
// and FluxJobs. The manager's cache must hold objects as CacheOptions says. Its client must read its own writes
// (client.CacheOptions.EnableReadYourWritesConsistency). The Queues that it returns answer in every replica.
func AddToManager(mgr manager.Manager, config Config) (*Queues, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client without a cache: %w", err)
	}
	count, err := newCounter(metrics.Registry)
	if err != nil {
		return nil, err
	}
	queues := &Queues{reader: mgr.GetCache(), informers: mgr.GetCache(), scheduler: config.SchedulerName}
	r := &reconciler{
		config: config, client: mgr.GetClient(), live: direct, queues: queues,
		events: mgr.GetEventRecorder(FieldManager), clock: clock.RealClock{}, count: count,
		announcer: newAnnouncer(), turn: make(chan struct{}, 1), told: map[types.NamespacedName]string{},
	}
	ready := make(chan struct{})
	err = mgr.Add(everywhere{manager.RunnableFunc(func(ctx context.Context) error {
		ctx = klog.NewContext(ctx, mgr.GetLogger())
		if config.start(ctx, api, direct, queues) != nil {
			return nil //nolint:nilerr // the manager stops: that is no error
		}
		close(ready)
		config.watch(ctx, api, queues)
		return nil
	})})
	if err != nil {
		return nil, fmt.Errorf("add the queues: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case <-ready:
			if err := r.watch(mgr); err != nil {
				return err
			}
			r.announceLater(klog.NewContext(ctx, mgr.GetLogger()))
			return nil
		case <-ctx.Done():
			return nil
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("add the controller of FluxJobs: %w", err)
	}
	return queues, nil
}

// everywhere runs whether or not this replica leads.
type everywhere struct{ manager.Runnable }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// watch sets up the watches that make the manager call Reconcile.
func (r *reconciler) watch(mgr manager.Manager) error {
	on := func(changed func(event.UpdateEvent) bool) builder.WatchesOption {
		return builder.WithPredicates(predicate.Funcs{UpdateFunc: changed})
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("fluxjob").
		Watches(&v1alpha1.FluxJob{}, handler.EnqueueRequestsFromMapFunc(requestsOfFluxJob), on(fluxJobChanged)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(requestsOfJob), on(jobChanged)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfPod)).
		Watches(&v1alpha1.Queue{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfQueue), on(queueChanged)).
		Watches(&schedulingv1.PriorityClass{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfClass), on(func(event.UpdateEvent) bool { return false })).
		WithOptions(r.options()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of FluxJobs: %w", err)
	}
	return nil
}

// maxBackoff is how long after an error a workload is reconciled again at the latest.
const maxBackoff = time.Minute

// options returns the options of the controller. In its queue namespaces take turns.
func (r *reconciler) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: r.config.Workers,
		ReconciliationTimeout:   r.config.Timeout,
		RateLimiter: workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, maxBackoff),
			&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(10, 100)},
		),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return fairqueue.New(name, limiter, func(r reconcile.Request) string { return r.Namespace })
		},
	}
}

// requestOf returns the request for the workload of a FluxJob. It returns false if the FluxJob is not that of this workload.
func requestOf(fj *v1alpha1.FluxJob) (ctrl.Request, bool) {
	w := fj.Spec.Workload
	req := keyOf(fj.Namespace, w.Kind, w.Name, w.UID)
	owner, ok := ownerOf(req.Name)
	return req, ok && (w.Kind == jobKind || w.Kind == podKind) && owner.PodGroupName() == fj.Name
}

func requestsOfFluxJob(_ context.Context, obj client.Object) []ctrl.Request {
	fj, ok := obj.(*v1alpha1.FluxJob)
	if !ok {
		return nil
	}
	if req, is := requestOf(fj); is {
		return []ctrl.Request{req}
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(fj)}}
}

func requestsOfJob(_ context.Context, obj client.Object) []ctrl.Request {
	return []ctrl.Request{keyOf(obj.GetNamespace(), jobKind, obj.GetName(), obj.GetUID())}
}

// requestsOfPod returns a request for a pod that nothing controls, if it waits in a queue, or has a FluxJob: one that runs may
// have lost its label.
func (r *reconciler) requestsOfPod(ctx context.Context, obj client.Object) []ctrl.Request {
	pod, ok := obj.(*corev1.Pod)
	if !ok || metav1.GetControllerOfNoCopy(pod) != nil {
		return nil
	}
	if !waitsInQueue(pod) {
		var fj v1alpha1.FluxJob
		owner := group.Owner{Kind: podKind, Name: pod.Name, UID: pod.UID}
		if r.client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.PodGroupName()}, &fj, client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
	}
	return []ctrl.Request{keyOf(pod.Namespace, podKind, pod.Name, pod.UID)}
}

// requestsOfQueue returns requests for the jobs of a queue that have not started: its limits may be others.
func (r *reconciler) requestsOfQueue(ctx context.Context, queue client.Object) []ctrl.Request {
	return r.requestsOf(ctx, func(fj *v1alpha1.FluxJob) bool {
		return fj.Spec.Queue == queue.GetName() && fj.Status.Phase != v1alpha1.Running
	})
}

// requestsOfClass returns requests for the jobs whose PriorityClass was not there.
func (r *reconciler) requestsOfClass(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.requestsOf(ctx, func(fj *v1alpha1.FluxJob) bool {
		c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
		return c != nil && c.Reason == v1alpha1.ReasonNoPriorityClass
	})
}

// requestsOf returns requests for the FluxJobs for which filter is true. It returns none for those that have finished.
func (r *reconciler) requestsOf(ctx context.Context, filter func(*v1alpha1.FluxJob) bool) []ctrl.Request {
	var all v1alpha1.FluxJobList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list FluxJobs")
		return nil
	}
	var requests []ctrl.Request
	for i := range all.Items {
		fj := &all.Items[i]
		if fj.Status.Phase == v1alpha1.Finished || !filter(fj) {
			continue
		}
		if req, is := requestOf(fj); is {
			requests = append(requests, req)
		}
	}
	return requests
}

// fluxJobChanged reports whether an update of a FluxJob can change what is written next. Most updates tell users why a job
// waits, and when it starts.
func fluxJobChanged(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*v1alpha1.FluxJob)
	is, ok2 := e.ObjectNew.(*v1alpha1.FluxJob)
	if !ok || !ok2 || was.UID != is.UID || was.Generation != is.Generation || !maps.Equal(was.Annotations, is.Annotations) {
		return true
	}
	valid := func(fj *v1alpha1.FluxJob) string {
		c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
		if c == nil {
			return ""
		}
		return string(c.Status) + c.Reason
	}
	return was.Status.Phase != is.Status.Phase || !equality.Semantic.DeepEqual(was.Status.Allocation, is.Status.Allocation) || valid(was) != valid(is)
}

// jobChanged reports whether an update of a Job can change what is written next.
func jobChanged(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*batchv1.Job)
	is, ok2 := e.ObjectNew.(*batchv1.Job)
	return !ok || !ok2 || was.UID != is.UID || was.Generation != is.Generation ||
		was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() || group.WhyOthers(was) != group.WhyOthers(is) ||
		!maps.Equal(was.Labels, is.Labels) || !maps.Equal(group.ProjectAnnotations(was.Annotations), group.ProjectAnnotations(is.Annotations)) ||
		was.Status.Succeeded != is.Status.Succeeded || (was.Status.Active > 0) != (is.Status.Active > 0) ||
		!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions)
}

// queueChanged reports whether an update of a Queue can change whether a job of it is valid.
func queueChanged(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*v1alpha1.Queue)
	is, ok2 := e.ObjectNew.(*v1alpha1.Queue)
	return !ok || !ok2 || was.UID != is.UID || was.Spec.Defaults.Duration != is.Spec.Defaults.Duration || was.Spec.Limits.Duration != is.Spec.Limits.Duration ||
		!equality.Semantic.DeepEqual(was.Spec.Limits.JobSize, is.Spec.Limits.JobSize)
}
