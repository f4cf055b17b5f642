package podgroup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-k8s/fluence/pkg/fairqueue"
	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// AddToManager adds the controller to a manager. The controller runs while the manager is the
// leader. If the CRD of PodGroup is not installed, the controller waits for it. The manager's cache
// must hold objects as CacheOptions says. Its client must read its own writes
// (client.CacheOptions.EnableReadYourWritesConsistency).
func AddToManager(ctx context.Context, mgr manager.Manager, config Config) error {
	if err := config.validate(); err != nil {
		return err
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	for _, k := range group.WatchedKinds() {
		obj := k.New()
		if err := mgr.GetFieldIndexer().IndexField(ctx, obj, groupIndex, possibleGroupNames); err != nil {
			return fmt.Errorf("index %T by group: %w", obj, err)
		}
	}
	m, err := newControllerMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	// The manager's client waits until its cache has what it has written. A review is never in a cache, nor is
	// an owner of a kind that is not watched.
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("make a client without a cache: %w", err)
	}
	r := &reconciler{
		metrics:     m,
		config:      config,
		client:      mgr.GetClient(),
		live:        direct,
		ownerReader: newOwnerReader(mgr.GetAPIReader(), clock.RealClock{}, config.SchedulerName),
		events:      mgr.GetEventRecorder(FieldManager),
		clock:       clock.RealClock{},
		memories:    map[types.NamespacedName]memory{},
		pods:        newPodIndex(),
		native:      &nativeWatch{whyDenied: whyNativeDenied(direct)},
		passing:     rate.NewLimiter(passingStatusRate, passingStatusBurst),
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		ctx = klog.NewContext(ctx, mgr.GetLogger())
		if err := config.waitForCRD(ctx, api); err != nil {
			return nil //nolint:nilerr // the manager stops: that is no error
		}
		return r.watch(ctx, mgr, api)
	}))
}

// watch sets up the watches that make the manager call Reconcile. The first
// check whether native PodGroups are served comes before the first group. It
// returns when native PodGroups are watched, or when ctx ends.
func (r *reconciler) watch(ctx context.Context, mgr manager.Manager, api discovery.ServerResourcesInterfaceWithContext) error {
	onPodOwnerChange := builder.WithPredicates(predicate.Funcs{UpdateFunc: podOwnerChanged})
	podOwnerEvents := handler.EnqueueRequestsFromMapFunc(r.requestsOfPodOwner)
	b := ctrl.NewControllerManagedBy(mgr).
		Named("podgroup").
		For(&scheduling.PodGroup{}).
		Watches(&corev1.Pod{}, r.podEvents()).
		WithOptions(r.options())
	for _, k := range group.WatchedKinds() {
		b = b.Watches(k.New(), podOwnerEvents, onPodOwnerChange)
	}
	served := r.native.canWatch(ctx, r.config, api)
	if served {
		b = b.WatchesRawSource(nativeEvents(mgr))
		r.native.watched.Store(true)
	}
	c, err := b.Build(r)
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	if !served {
		r.native.run(ctx, mgr, c, r.config, api)
	}
	return nil
}

// maxBackoff is how long after an error a group is reconciled again at the latest: its pods may be past their ends, whatever
// failed. All groups together are tried again ten times in a second.
const maxBackoff = time.Minute

// options returns the options of the controller. In its queue namespaces take turns, so that a
// group does not wait for all groups of another namespace.
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

// requestsOfPodOwner returns requests for the groups that an event of a podOwner concerns, and for
// the groups of its pods that were in the cache before the podOwner was.
func (r *reconciler) requestsOfPodOwner(ctx context.Context, obj client.Object) []ctrl.Request {
	p, ok := asPodOwner(obj)
	if !ok {
		return nil
	}
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		r.ownerReader.forget(obj.GetNamespace(), *ref)
	}
	c := cacheReader{ctx, r.client}
	names := possibleGroupNames(obj)
	for _, set := range r.pods.under(obj.GetNamespace(), p.owner().PodGroupName()) {
		names = append(names, namesOfPod(set.pod, c)...)
	}
	return requests(obj.GetNamespace(), names)
}

func requests(namespace string, names []string) []ctrl.Request {
	var all []ctrl.Request
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		all = append(all, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return all
}
