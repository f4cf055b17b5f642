package podgroup

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// AddToManager adds the controller to a manager, which runs it while it leads.
// Without the CRD of PodGroup it waits until there is one. The manager's cache
// must hold pods and Jobs as CacheByObject says, and its client must read its
// own writes (client.CacheOptions.EnableReadYourWritesConsistency).
func AddToManager(ctx context.Context, mgr manager.Manager, config Config) error {
	if err := config.validate(); err != nil {
		return err
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	for obj, names := range map[client.Object]client.IndexerFunc{&corev1.Pod{}: podGroupOf, &batchv1.Job{}: podGroupOfJob} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, obj, groupIndex, names); err != nil {
			return fmt.Errorf("index %T by group: %w", obj, err)
		}
	}
	r := &reconciler{
		config:   config,
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		events:   mgr.GetEventRecorder(FieldManager),
		clock:    clock.RealClock{},
		memories: map[types.NamespacedName]memory{},
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		ctx = klog.NewContext(ctx, mgr.GetLogger())
		if err := config.waitForCRD(ctx, api); err != nil {
			return nil //nolint:nilerr // the manager stops: that is no error
		}
		return r.watch(mgr)
	}))
}

// watch makes the manager call Reconcile.
func (r *reconciler) watch(mgr manager.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("podgroup").
		For(&scheduling.PodGroup{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(requests(podGroupOf)), builder.WithPredicates(predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(requests(podGroupOfJob)), builder.WithPredicates(predicate.Funcs{UpdateFunc: jobChanged})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.config.Workers,
			ReconciliationTimeout:   r.config.Timeout,
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	return nil
}
