package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/apiwatch"
	"github.com/flux-k8s/fluence/pkg/controller/fluxjob"
	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/served"
	"github.com/flux-k8s/fluence/pkg/versionskew"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// run runs the controller until ctx ends. It fails when it loses its lease,
// because another replica works then, or when it loses the API server.
func run(ctx context.Context, o options) error {
	if err := o.lease.check(); err != nil {
		return err
	}
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register the types of Kubernetes: %w", err)
	}
	if err := scheduling.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register PodGroup: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register Queue and FluxJob: %w", err)
	}
	cached := podgroup.CacheOptions(o.podGroup)
	queues := fluxjob.DefaultConfig()
	queues.SchedulerName = o.podGroup.SchedulerName
	if o.withQueues {
		cached = fluxjob.CacheOptions(cached, queues)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		MapperProvider:                served.NewMapper,
		Logger:                        klog.Background(),
		Cache:                         cached,
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Metrics:                       metricsOptions(o.metricsAddr),
		HealthProbeBindAddress:        o.probeAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              podgroup.FieldManager,
		LeaderElectionNamespace:       o.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.lease.duration,
		RenewDeadline:                 &o.lease.renew,
		RetryPeriod:                   &o.lease.retry,
		GracefulShutdownTimeout:       new(graceful),
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := addHealth(mgr); err != nil {
		return err
	}
	if o.withQueues {
		served, err := fluxjob.AddToManager(mgr, queues)
		if err != nil {
			return fmt.Errorf("set up queues: %w", err)
		}
		o.podGroup.Queued, o.podGroup.Admitted, o.webhook.Queues = served.Holds, served.Admitted, served
	}
	if err := podgroup.AddToManager(ctx, mgr, o.podGroup); err != nil {
		return err
	}
	if err := addLifeline(mgr, cfg, o.lease.renew); err != nil {
		return err
	}
	if err := addVersionWatch(mgr, cfg); err != nil {
		return err
	}
	if o.withWebhook {
		if err := addWebhook(mgr, o); err != nil {
			return err
		}
	}
	return serve(ctx, mgr)
}

// The times in which the manager ends.
const (
	// graceful is how long the manager has to end what it runs.
	graceful = 10 * time.Second
	// leave is after which time serve returns anyway, because a manager
	// that was never able to list what it watches does not end at all.
	leave = graceful + 2*time.Second
)

// serve runs the manager until it ends, or until leave has passed after ctx has ended.
func serve(ctx context.Context, mgr ctrl.Manager) error {
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(leave):
		}
	}
	if err != nil {
		return fmt.Errorf("run the controller: %w", err)
	}
	return nil
}

// readyWithin is how long a probe waits for caches.
const readyWithin = 500 * time.Millisecond

// addHealth serves whether the process lives, and whether it is ready: whether all that it watches
// has been listed. A controller without its rights never is, so that a rolling update stops there.
func addHealth(mgr ctrl.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("serve health: %w", err)
	}
	err := mgr.AddReadyzCheck("caches", func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), readyWithin)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not synced yet: some watched objects have not been listed")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("serve health: %w", err)
	}
	return nil
}

// addLifeline adds a watch over the API server. It ends the manager when the API server
// has not answered for patience. By then a replica that works has lost its lease.
func addLifeline(mgr ctrl.Manager, cfg *rest.Config, patience time.Duration) error {
	ping, err := apiwatch.Livez(cfg)
	if err != nil {
		return err
	}
	err = mgr.Add(always{manager.RunnableFunc(func(ctx context.Context) error {
		return apiwatch.Watch(ctx, ping, patience)
	})})
	if err != nil {
		return fmt.Errorf("watch the connection to the API server: %w", err)
	}
	return nil
}

// addVersionWatch adds a watch over the API server's version.
// It logs if this build is not made for this version.
func addVersionWatch(mgr ctrl.Manager, cfg *rest.Config) error {
	api, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("build the client that reads the version: %w", err)
	}
	err = mgr.Add(always{manager.RunnableFunc(func(ctx context.Context) error {
		versionskew.Watch(ctx, api.ServerVersionWithContext, func(err error) {
			if err != nil {
				mgr.GetLogger().Error(err, "The API server's version is not supported")
			} else {
				mgr.GetLogger().Info("The API server's version is supported again")
			}
		})
		return nil
	})})
	if err != nil {
		return fmt.Errorf("watch the version of the API server: %w", err)
	}
	return nil
}

// always runs whether or not this replica leads.
type always struct{ manager.Runnable }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (always) NeedLeaderElection() bool { return false }

// restConfig reads the kubeconfig file. Without one it uses the service account.
func restConfig(kubeconfig string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	// As of kube-scheduler: otherwise the API server compresses each watch, event by event.
	cfg.DisableCompression = true
	if err := podgroup.LimitClient(cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}
