// Command kueue runs the controllers of Kueue. The program of its module reads the certificate of its
// metrics from a fixed folder of the machine. This one serves no metrics, and has no MultiKueue.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	configv1beta1 "sigs.k8s.io/kueue/apis/config/v1beta1"
	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuealpha "sigs.k8s.io/kueue/apis/kueue/v1alpha1"
	kueuev1beta1 "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schedulercache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs" // its packages register themselves
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/dra"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/kubeversion"
	"sigs.k8s.io/kueue/pkg/webhooks"
)

func main() {
	file := flag.String("config", "", "the configuration, of the kind Configuration of config.kueue.x-k8s.io")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *file)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		os.Exit(1)
	}
}

// run runs the controllers and the webhooks until ctx ends.
func run(ctx context.Context, file string) error {
	scheme, err := newScheme()
	if err != nil {
		return fmt.Errorf("register the kinds: %w", err)
	}
	options, cfg, err := config.Load(scheme, file)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if err := config.LoadAndValidateFeatureGates("", cfg.FeatureGates).ToAggregate(); err != nil {
		return err
	}
	if err := config.Validate(&cfg, scheme).ToAggregate(); err != nil {
		return err
	}
	if err := config.AddWebhookSettingsTo(&options, &cfg); err != nil {
		return err
	}
	client, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	mgr, err := ctrl.NewManager(client, options)
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	if err := setUp(ctx, mgr, client, &cfg); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newScheme returns a scheme with the kinds of Kueue and of all its integrations.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	adders := []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kueueapi.AddToScheme, kueuev1beta1.AddToScheme, kueuealpha.AddToScheme,
		configapi.AddToScheme, configv1beta1.AddToScheme,
	}
	err := jobframework.ForEachIntegration(func(_ string, i jobframework.IntegrationCallbacks) error {
		if i.AddToScheme != nil {
			adders = append(adders, i.AddToScheme)
		}
		return nil
	})
	for _, add := range adders {
		err = errors.Join(err, add(scheme))
	}
	return scheme, err
}

// setUp adds the controllers, the scheduler of workloads and the webhooks to a manager.
func setUp(ctx context.Context, mgr ctrl.Manager, client *rest.Config, cfg *configapi.Configuration) error {
	formatter, preemptions := resources.NewResourceFormatter(), expectations.New()
	devices, extended := dra.NewResourceMapper(), dra.NewExtendedResourceCache()
	cache := schedulercache.New(mgr.GetClient(), schedulercache.WithResourceFormatter(formatter))
	requeuer := qcache.NewRequeuer()
	if err := mgr.Add(requeuer); err != nil {
		return fmt.Errorf("add the requeuer: %w", err)
	}
	queues := qcache.NewManager(mgr.GetClient(), cache, requeuer,
		qcache.WithResourceFormatter(formatter), qcache.WithPreemptionExpectations(preemptions), qcache.WithDRABackedResources(extended))
	api, err := discovery.NewDiscoveryClientForConfig(client)
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	versions := kubeversion.NewServerVersionFetcher(api)
	if err := versions.FetchServerVersion(); err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	namespaces, err := metav1.LabelSelectorAsSelector(cfg.ManagedJobsNamespaceSelector)
	if err != nil {
		return fmt.Errorf("read managedJobsNamespaceSelector: %w", err)
	}
	frameworks := jobframework.WithEnabledFrameworks(cfg.Integrations.Frameworks)
	if err := errors.Join(
		indexer.Setup(ctx, mgr.GetFieldIndexer()),
		tasindexer.SetupIndexes(ctx, mgr.GetFieldIndexer()),
		jobframework.SetupIndexes(ctx, mgr.GetFieldIndexer(), frameworks),
	); err != nil {
		return fmt.Errorf("set up the indexes: %w", err)
	}
	if name, err := core.SetupControllers(mgr, queues, cache, cfg, core.SetupControllersOpts{
		PreemptionExpectations: preemptions, ResourceFormatter: formatter, DRAMapper: devices, DRABackedResources: extended,
	}); err != nil {
		return fmt.Errorf("set up the controller of %s: %w", name, err)
	}
	if name, err := tas.SetupControllers(mgr, queues, cache, cfg, nil); err != nil {
		return fmt.Errorf("set up the controller %s: %w", name, err)
	}
	if err := jobframework.SetupControllers(ctx, mgr, mgr.GetLogger(), frameworks,
		jobframework.WithManageJobsWithoutQueueName(cfg.ManageJobsWithoutQueueName),
		jobframework.WithManagedJobsNamespaceSelector(namespaces),
		jobframework.WithWaitForPodsReady(cfg.WaitForPodsReady),
		jobframework.WithKubeServerVersion(versions),
		jobframework.WithManagerName(constants.KueueName),
		jobframework.WithCache(cache),
		jobframework.WithQueues(queues),
	); err != nil {
		return fmt.Errorf("set up the controllers of workloads: %w", err)
	}
	if name, err := webhooks.Setup(mgr, nil); err != nil {
		return fmt.Errorf("set up the webhook of %s: %w", name, err)
	}
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	return mgr.Add(scheduler.New(queues, cache, mgr.GetClient(), mgr.GetEventRecorder(constants.AdmissionName),
		scheduler.WithPreemptionExpectations(preemptions), scheduler.WithResourceFormatter(formatter)))
}
